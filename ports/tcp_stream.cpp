#include "ports/tcp_stream.h"

#include <cerrno>
#include <utility>

namespace verbena::ports {

TcpStream::TcpStream(std::unique_ptr<TcpSocket> socket, std::unique_ptr<StreamCapture> capture)
    : socket_(std::move(socket)),
      capture_(std::move(capture)),
      // Pages that are never used are never there.
      room_(std::make_unique_for_overwrite<std::byte[]>(room_bytes)) {}

MutableBytes TcpStream::reserve(std::size_t bytes) {
  if (end_ + bytes > room_bytes) {
    flush();
  }
  if (end_ + bytes > room_bytes || (has_unsent() && socket_->keeps_units())) {
    return {};
  }
  reserved_ = bytes;
  return {room_.get() + end_, bytes};
}

void TcpStream::commit() {
  end_ += reserved_;
  if (socket_->keeps_units()) {
    flush();
  }
}

void TcpStream::flush() {
  if (is_blocked_) {
    return;
  }
  while (has_unsent() && !is_lost_) {
    const ByteView unsent(room_.get() + begin_, end_ - begin_);
    const int sent = socket_->send(unsent);
    if (sent <= 0) {
      is_blocked_ = sent == -EAGAIN;
      if (!is_blocked_) {
        note_error();
      }
      return;
    }
    if (capture_) {
      capture_->sent(unsent.first(static_cast<std::size_t>(sent)));
    }
    begin_ += static_cast<std::size_t>(sent);
  }
  begin_ = end_ = 0;
}

std::size_t TcpStream::receive(MutableBytes room) {
  const int received = socket_->receive(room);
  if (received > 0) {
    const auto bytes = static_cast<std::size_t>(received);
    if (capture_) {
      capture_->received(room.first(bytes));
    }
    return bytes;
  }
  if (received == 0) {
    peer_has_ended_ = true;
    if (capture_) {
      capture_->peer_ended();
    }
  } else if (received != -EAGAIN && received != -EINTR) {
    note_error();
  }
  return 0;
}

void TcpStream::end() {
  has_ended_ = true;
  if (socket_->end_sending() < 0) {
    note_error();
  } else if (capture_) {
    capture_->ended();
  }
}

void TcpStream::note_error() {
  if (!std::exchange(is_lost_, true) && capture_) {
    capture_->peer_reset();
  }
}

void TcpStream::reset() {
  if (!std::exchange(is_lost_, true)) {
    socket_->reset_on_close();
    if (capture_) {
      capture_->reset();
    }
  }
}

}  // namespace verbena::ports
