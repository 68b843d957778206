#include "ports/tcp_stream.h"

#include <cerrno>
#include <utility>

#include "ports/sys_tcp.h"

namespace verbena::ports {

TcpStream::TcpStream(sys::Fd socket, std::unique_ptr<StreamCapture> capture)
    : socket_(std::move(socket)),
      capture_(std::move(capture)),
      // Pages that are never used are never there.
      room_(std::make_unique_for_overwrite<std::byte[]>(room_bytes)) {}

MutableBytes TcpStream::reserve(std::size_t bytes) {
  if (end_ + bytes > room_bytes) {
    flush();
  }
  if (end_ + bytes > room_bytes) {
    return {};
  }
  reserved_ = bytes;
  return {room_.get() + end_, bytes};
}

void TcpStream::flush() {
  if (is_blocked_) {
    return;
  }
  while (has_unsent() && !is_lost_) {
    const ByteView unsent(room_.get() + begin_, end_ - begin_);
    const int sent = sys::send(socket_.get(), unsent);
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
  const int received = sys::receive(socket_.get(), room);
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
  if (sys::end_sending(socket_.get()) < 0) {
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
    static_cast<void>(sys::reset_on_close(socket_.get()));
    if (capture_) {
      capture_->reset();
    }
  }
}

}  // namespace verbena::ports
