#include "ports/iwarp_handshake.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "ports/engine.h"
#include "ports/sys_net.h"

namespace verbena::ports {

namespace {

/// For a kernel that doesn't tell: RFC 9293, 3.7.1.
constexpr std::size_t segment_bytes_default = 536;

/// Between two attempts where nobody listens.
constexpr Duration attempt_interval = std::chrono::milliseconds(2);

}  // namespace

std::unique_ptr<IwarpHandshake> IwarpHandshake::initiator(std::unique_ptr<TcpSocket> socket,
                                                          const iwarp::MpaSettings& settings,
                                                          const SocketAddress& remote) {
  std::unique_ptr<IwarpHandshake> handshake(new IwarpHandshake(std::move(socket), settings, true));
  handshake->remote_ = remote;
  return handshake;
}

std::unique_ptr<IwarpHandshake> IwarpHandshake::responder(std::unique_ptr<TcpSocket> socket,
                                                          const iwarp::MpaSettings& settings) {
  std::unique_ptr<IwarpHandshake> handshake(new IwarpHandshake(std::move(socket), settings, false));
  handshake->remote_ = handshake->socket_->remote();
  return handshake;
}

IwarpHandshake::IwarpHandshake(std::unique_ptr<TcpSocket> socket,
                               const iwarp::MpaSettings& settings, bool is_initiator)
    : socket_(std::move(socket)),
      mpa_(is_initiator ? iwarp::MpaConnector::initiator(settings)
                        : iwarp::MpaConnector::responder(settings)),
      local_(socket_->local()),
      phase_(is_initiator ? Phase::connecting : Phase::waiting) {}

IwarpHandshake::~IwarpHandshake() = default;

Result<void, int> IwarpHandshake::watch_by(Reactor& reactor, Reactor::Handler handler) {
  auto waiter = reactor.watch(socket_->fd(), std::move(handler));
  if (!waiter) {
    return std::unexpected(waiter.error());
  }
  waiter_ = std::move(*waiter);
  if (phase_ == Phase::waiting) {
    waiter_->await_input();
  }
  return {};
}

void IwarpHandshake::record(const std::shared_ptr<StreamRecorder>& recorder) {
  recorder_ = recorder;
  if (recorder) {
    capture_ = std::make_unique<StreamCapture>(recorder, local_, remote_);
    if (phase_ == Phase::waiting) {
      capture_->opened(false);
    }
  }
}

void IwarpHandshake::connect(iwarp::ReadDepths depths, ByteView private_data,
                             Duration listener_patience) {
  mpa_.connect(depths, private_data);
  const Time now = Engine::now();
  patience_ends_ = now + listener_patience;
  attempt(now);
}

void IwarpHandshake::attempt(Time now) {
  int result = socket_->connect(remote_);
  if (result == -ECONNABORTED) {
    // Of an attempt that was refused Linux tells once more, and then the socket is as new.
    result = connect_again();
  }
  if (result >= 0 || result == -EINPROGRESS) {
    await_connection();
    await_time(now);
  } else if (!awaits_listener(result, now)) {
    finish(End::connection, result);
    waiter_->await_time(Duration(0));  // advance() tells.
  }
}

/// The kernel has given an ephemeral port back, but the program may have been told it. If another
/// has it by now, the kernel chooses a new one, and the event tells.
int IwarpHandshake::connect_again() {
  static_cast<void>(socket_->bind(local_));
  return socket_->connect(remote_);
}

bool IwarpHandshake::awaits_listener(int error, Time now) {
  if (error != -ECONNREFUSED || now >= patience_ends_) {
    return false;
  }
  next_attempt_ = now + attempt_interval;
  await_time(now);
  return true;
}

void IwarpHandshake::await_connection() {
  if (socket_->room_event() == EPOLLIN) {
    waiter_->await_input();
  } else {
    waiter_->await_room();
  }
}

void IwarpHandshake::await_time(Time now) {
  const Time next = std::min(deadline_, next_attempt_);
  if (next != time_never) {
    waiter_->await_time(next - now);
  }
}

void IwarpHandshake::limit(Duration from_now) {
  const Time now = Engine::now();
  deadline_ = now + from_now;
  if (phase_ != Phase::over) {
    await_time(now);
  }
}

IwarpHandshake::Phase IwarpHandshake::advance(Time now) {
  switch (phase_) {
    case Phase::connecting:
      advance_connecting(now);
      break;
    case Phase::waiting:
      advance_waiting();
      break;
    case Phase::asked:
      advance_asked();
      break;
    case Phase::leaving:
      advance_leaving();
      break;
    case Phase::agreed:
    case Phase::over:
      break;
  }
  if (now < deadline_) {
    return phase_;
  }
  if (phase_ == Phase::connecting || phase_ == Phase::waiting) {
    reset();
    finish(End::timed_out, -ETIMEDOUT);
  } else if (phase_ == Phase::leaving) {
    finish(end_, status_);
  }
  return phase_;
}

void IwarpHandshake::advance_connecting(Time now) {
  if (next_attempt_ != time_never) {
    if (now >= next_attempt_) {
      next_attempt_ = time_never;
      attempt(now);
    }
    return;
  }
  const int error = socket_->take_error();
  if (awaits_listener(error, now)) {
    return;
  }
  if (error < 0) {
    if (capture_ && error == -ECONNREFUSED) {
      capture_->refused();
    }
    finish(End::connection, error);
    return;
  }
  if (socket_->remote().storage.ss_family == AF_UNSPEC) {
    await_connection();
    return;
  }
  local_ = socket_->local();
  if (capture_) {
    capture_ = std::make_unique<StreamCapture>(recorder_, local_, remote_);
    capture_->opened(true);
  }
  phase_ = Phase::waiting;
  if (say_all()) {
    waiter_->await_input();
  } else {
    finish(End::connection, -ECONNRESET);
  }
}

void IwarpHandshake::advance_waiting() {
  std::array<std::byte, iwarp::start_frame_bytes_max> room{};
  while (phase_ == Phase::waiting) {
    const int received = socket_->receive(room);
    if (received == -EAGAIN || received == -EINTR) {
      waiter_->await_input();
      return;
    }
    if (received <= 0) {
      finish(End::connection, -ECONNRESET);
      return;
    }
    ByteView bytes = ByteView(room).first(static_cast<std::size_t>(received));
    if (capture_) {
      capture_->received(bytes);
    }
    mpa_.on_stream(bytes);
    early_.assign(bytes.begin(), bytes.end());
    if (mpa_.state() != iwarp::MpaConnector::State::waiting) {
      on_peer_frame();
    }
  }
}

void IwarpHandshake::on_peer_frame() {
  using State = iwarp::MpaConnector::State;
  if (mpa_.state() == State::agreed) {
    phase_ = Phase::agreed;
    waiter_->forget_time();
  } else if (mpa_.state() == State::asked) {
    deadline_ = time_never;
    waiter_->forget_time();
    // An initiator says nothing before it has our reply.
    if (!early_.empty()) {
      reset();
      finish(End::disagreed, -EPROTO);
      return;
    }
    phase_ = Phase::asked;
    waiter_->await_input();
  } else if (!mpa_.is_initiator()) {
    refuse(End::disagreed, -EPROTO);
  } else {
    static_cast<void>(say_all());
    const bool is_reject = mpa_.peer_frame() && mpa_.peer_frame()->reject;
    finish(is_reject ? End::rejected : End::disagreed, is_reject ? -ECONNRESET : -EPROTO);
  }
}

void IwarpHandshake::refuse(End end, int status) {
  const bool has_words = !mpa_.output().empty();
  if (!say_all() || !has_words) {
    finish(end, status);
    return;
  }
  phase_ = Phase::leaving;
  end_ = end;
  status_ = status;
  deadline_ = time_never;
  waiter_->forget_time();
  waiter_->await_input();
}

/// What comes from the peer means nothing any more, but for its end.
void IwarpHandshake::advance_leaving() {
  std::array<std::byte, iwarp::start_frame_bytes_max> room{};
  const int received = socket_->receive(room);
  if (received > 0 || received == -EAGAIN || received == -EINTR) {
    waiter_->await_input();
    return;
  }
  if (capture_ && received == 0) {
    capture_->peer_ended();
  }
  finish(end_, status_);
}

/// Nothing can come but the end: the peer has given up, or breaks the protocol.
void IwarpHandshake::advance_asked() {
  std::array<std::byte, 1> room{};
  const int received = socket_->receive(room);
  if (received == -EAGAIN || received == -EINTR) {
    waiter_->await_input();
    return;
  }
  finish(received > 0 ? End::disagreed : End::connection, received > 0 ? -EPROTO : -ECONNRESET);
}

bool IwarpHandshake::accept(iwarp::ReadDepths depths, ByteView private_data) {
  mpa_.accept(depths, private_data);
  if (!say_all()) {
    finish(End::connection, -ECONNRESET);
    return false;
  }
  phase_ = Phase::agreed;
  return true;
}

void IwarpHandshake::reject(ByteView private_data) {
  mpa_.reject(private_data);
  refuse(End::rejected, -ECONNRESET);
}

void IwarpHandshake::reset() {
  socket_->reset_on_close();
  if (capture_) {
    capture_->reset();
    capture_.reset();
  }
}

bool IwarpHandshake::say_all() {
  const ByteView bytes = mpa_.output();
  const int sent = bytes.empty() ? 0 : socket_->send(bytes);
  if (capture_ && sent > 0) {
    capture_->sent(bytes.first(static_cast<std::size_t>(sent)));
  }
  mpa_.note_written(static_cast<std::size_t>(std::max(sent, 0)));
  return mpa_.output().empty();
}

/// What was said is still delivered; the descriptor goes with the object.
void IwarpHandshake::finish(End end, int status) {
  phase_ = Phase::over;
  end_ = end;
  status_ = status;
  deadline_ = time_never;
  if (capture_ && (end == End::rejected || end == End::disagreed)) {
    capture_->ended();
  }
}

std::size_t IwarpHandshake::segment_bytes() const {
  const int bytes = socket_->segment_bytes();
  return bytes > 0 ? static_cast<std::size_t>(bytes) : segment_bytes_default;
}

IwarpHandshake::Agreed IwarpHandshake::take_stream() {
  waiter_.reset();
  return {.stream = std::make_unique<TcpStream>(std::move(socket_), std::move(capture_)),
          .early = std::move(early_)};
}

}  // namespace verbena::ports
