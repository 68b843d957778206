#include "ports/tcp_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "ports/engine.h"
#include "ports/sys_net.h"

namespace verbena::ports {

namespace {

/// What one read takes at most: as much as a peer of our kind sends at once.
constexpr std::size_t read_bytes_max = TcpStream::room_bytes;
/// Sockets that are looked at in a batch; the rest has its turn in the next.
constexpr std::size_t events_max = 64;
/// As that of frames (capture_port.cpp).
constexpr Duration capture_flush_interval = std::chrono::milliseconds(50);

/// How long a process that ends waits for acknowledgements, if the TCP is its own, and how many
/// frames it looks at before it sends.
constexpr Duration exit_patience = std::chrono::seconds(1);
/// Between two looks that find nothing. What keeps a port from sleeping may last, at an end that
/// nobody serves any more.
constexpr Duration exit_pause = std::chrono::milliseconds(1);
constexpr std::uint32_t exit_frames_max = 64;

class DeafHandler final : public FrameHandler {
 public:
  RxVerdict on_frame(ByteView /*frame*/) override { return {}; }
};

}  // namespace

/// The stream of a queue pair. Notes when there is something to send.
struct TcpPort::Connection final : iwarp::StreamSink {
  Connection(TcpPort& its_port, nic::Qp& its_qp, IwarpConnectionId its_id,
             std::unique_ptr<TcpStream> its_stream)
      : port(its_port), qp(its_qp), id(its_id), stream(std::move(its_stream)) {}

  MutableBytes reserve(std::size_t bytes) override {
    const MutableBytes room = stream->reserve(bytes);
    if (room.empty()) {
      note_unsent();
    }
    return room;
  }
  void commit() override {
    stream->commit();
    note_unsent();
  }
  void note_unsent() {
    if (!std::exchange(is_unsent, true)) {
      port.unsent_.push_back(this);
    }
  }

  TcpPort& port;
  nic::Qp& qp;
  IwarpConnectionId id;
  std::unique_ptr<TcpStream> stream;
  /// In unsent_, and in ends_.
  bool is_unsent = false;
  bool is_ending = false;
  /// We close it: in order, by the deadline.
  bool is_closed_by_us = false;
  /// Of an end in order; see set_close_patience().
  Time deadline = time_never;
  /// What the set of sockets tells of it.
  std::uint32_t events = 0;
};

Result<std::unique_ptr<TcpPort>, std::string> TcpPort::open(
    std::unique_ptr<Port> frames, std::shared_ptr<TcpNetwork> network,
    std::shared_ptr<StreamRecorder> recorder) {
  auto sleepers = sys::epoll();
  auto sockets = sys::epoll();
  if (!sleepers || !sockets) {
    return std::unexpected(
        fmt::format("can't make an epoll descriptor: {}",
                    sys::error_text(-(sleepers ? sockets.error() : sleepers.error()))));
  }
  return std::unique_ptr<TcpPort>(new TcpPort(std::move(frames), std::move(network),
                                              std::move(recorder), std::move(*sleepers),
                                              std::move(*sockets)));
}

TcpPort::TcpPort(std::unique_ptr<Port> frames, std::shared_ptr<TcpNetwork> network,
                 std::shared_ptr<StreamRecorder> recorder, sys::Fd sleepers, sys::Fd sockets)
    : frames_(std::move(frames)),
      network_(std::move(network)),
      recorder_(std::move(recorder)),
      sleepers_(std::move(sleepers)),
      sockets_(std::move(sockets)),
      read_room_(std::make_unique_for_overwrite<std::byte[]>(read_bytes_max)) {
  static_cast<void>(sys::epoll_watch(sleepers_.get(), frames_->fd(), EPOLLIN));
}

TcpPort::~TcpPort() {
  linger();
  for (const auto& [qp, connection] : connections_) {
    give_up(*connection->stream);
  }
  connections_.clear();
  frames_->flush();
  // At exit the recorder outlives the port: whoever makes connections has it, too.
  if (recorder_) {
    recorder_->flush();
  }
}

void TcpPort::linger() {
  const Time limit = Engine::now() + exit_patience;
  for (Time now = Engine::now(); now < limit; now = Engine::now()) {
    begin_batch(now);
    DeafHandler handler;
    const bool has_received = frames_->poll_receive(handler, exit_frames_max) > 0;
    for (const auto& [qp, connection] : connections_) {
      end_in_order(*connection->stream);
    }
    frames_->flush();
    if (network_->has_delivered()) {
      return;
    }
    bool is_awake = true;
    if (frames_->prepare_sleep()) {
      pollfd bell{.fd = frames_->fd(), .events = POLLIN, .revents = 0};
      const Duration rest = std::min(limit, frames_->next_deadline()) - now;
      is_awake = sys::poll(&bell, 1, std::max(rest, exit_pause)) > 0;
      frames_->finish_sleep();
    }
    if (is_awake && !has_received) {
      static_cast<void>(sys::poll(nullptr, 0, exit_pause));
    }
  }
}

/// Sends the rest, and then FIN. What comes is nobody's any more.
void TcpPort::end_in_order(TcpStream& stream) {
  if (stream.is_lost()) {
    return;
  }
  stream.unblock();
  static_cast<void>(stream.receive({read_room_.get(), read_bytes_max}));
  if (!stream.has_unsent() && !stream.has_ended() && !stream.is_lost()) {
    stream.end();
  }
}

/// What was sent is delivered by the kernel, if it has taken it.
void TcpPort::give_up(TcpStream& stream) {
  stream.unblock();
  if (stream.has_unsent()) {
    stream.reset();
  } else if (!stream.has_ended() && !stream.is_lost()) {
    stream.end();
  }
}

TcpPort::Connection* TcpPort::find(const nic::Qp& qp) const {
  const auto found = connections_.find(&qp);
  return found != connections_.end() ? found->second.get() : nullptr;
}

TcpPort::Connection* TcpPort::on_socket(int fd) const {
  const auto index = static_cast<std::size_t>(fd);
  return index < by_socket_.size() ? by_socket_[index] : nullptr;
}

nic::Qp* TcpPort::owner_of(IwarpConnectionId id) const {
  const auto found =
      std::ranges::find_if(connections_, [&](const auto& item) { return item.second->id == id; });
  return found != connections_.end() ? &found->second->qp : nullptr;
}

void TcpPort::adopt(nic::Nic& nic, Time now, nic::Qp& qp, IwarpConnectionId id,
                    std::unique_ptr<TcpStream> stream, ByteView early) {
  forget(qp);
  const auto index = static_cast<std::size_t>(stream->fd());
  auto& place = connections_[&qp];
  place = std::make_unique<Connection>(*this, qp, id, std::move(stream));
  Connection& connection = *place;
  by_socket_.resize(std::max(by_socket_.size(), index + 1));
  by_socket_[index] = &connection;
  ++opened_;
  watch(connection);
  if (!early.empty()) {
    nic.on_stream(now, qp, early);
  }
}

void TcpPort::forget(const nic::Qp& qp) {
  Connection* const connection = find(qp);
  if (connection == nullptr) {
    return;
  }
  give_up(*connection->stream);
  lost_ += connection->stream->is_lost() ? 1 : 0;
  erase(*connection);
}

void TcpPort::erase(Connection& connection) {
  const IwarpConnectionId id = connection.id;
  const int fd = connection.stream->fd();
  sys::epoll_forget(sockets_.get(), fd);
  by_socket_[static_cast<std::size_t>(fd)] = nullptr;
  std::erase(unsent_, &connection);
  std::erase(ends_, &connection);
  connections_.erase(&connection.qp);
  if (listener_ != nullptr) {
    listener_->on_stream_over(id);
  }
}

// --- Receiving

TcpPort::Received TcpPort::receive(nic::Nic& nic, Time now) {
  if (connections_.empty()) {
    return {};
  }
  std::array<epoll_event, events_max> events{};
  const int ready = sys::epoll_ready(sockets_.get(), events);
  Received result;
  result.more = ready == static_cast<int>(events.size());
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Connection* const connection = on_socket(event.data.fd);
    if (connection == nullptr) {
      continue;
    }
    ++result.pieces;
    if (connection->stream->is_blocked() &&
        (event.events & connection->stream->room_event()) != 0) {
      renew_patience(*connection);
      connection->stream->unblock();
      after_sending(*connection);
    }
    if (!connection->stream->peer_has_ended()) {
      result.more = read(*connection, nic, now) || result.more;
    } else if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) {
      connection->stream->note_error();
      note_end(*connection);
    }
  }
  return result;
}

bool TcpPort::read(Connection& connection, nic::Nic& nic, Time now) {
  TcpStream& stream = *connection.stream;
  const MutableBytes room(read_room_.get(), read_bytes_max);
  const std::size_t bytes = stream.receive(room);
  if (bytes > 0) {
    renew_patience(connection);
    nic.on_stream(now, connection.qp, room.first(bytes));
  } else if (stream.is_lost()) {
    note_end(connection);
  } else if (stream.peer_has_ended()) {
    watch(connection);
    note_end(connection);
    nic.on_stream_end(now, connection.qp);
  }
  return bytes == room.size();
}

void TcpPort::watch(Connection& connection) {
  const TcpStream& stream = *connection.stream;
  const std::uint32_t events = (stream.peer_has_ended() ? 0U : std::uint32_t{EPOLLIN}) |
                               (stream.is_blocked() ? stream.room_event() : 0U);
  if (events != connection.events || events == 0) {
    static_cast<void>(sys::epoll_watch(sockets_.get(), stream.fd(), events));
    connection.events = events;
  }
}

// --- Sending

iwarp::StreamSink& TcpPort::stream_of(const nic::Qp& qp) {
  Connection* const connection = find(qp);
  VERBENA_CHECK(connection != nullptr);
  // Who begins to end in order has a turn.
  if (connection->deadline == time_never) {
    renew_patience(*connection);
  }
  return *connection;
}

void TcpPort::flush() {
  for (Connection* const connection : unsent_) {
    connection->is_unsent = false;
    if (!connection->stream->is_blocked()) {
      renew_patience(*connection);
    }
    connection->stream->flush();
    after_sending(*connection);
  }
  unsent_.clear();
  frames_->flush();
}

void TcpPort::renew_patience(Connection& connection) {
  if (!connection.is_closed_by_us && nic::state_of(connection.qp) == nic::QpState::sqd) {
    connection.deadline = now_ + close_patience_;
    note_end(connection);
  }
}

void TcpPort::after_sending(Connection& connection) {
  if (connection.stream->is_lost()) {
    note_end(connection);
  } else {
    watch(connection);
  }
}

// --- Ends

void TcpPort::close_stream(const nic::Qp& qp, Close how) {
  Connection* const connection = find(qp);
  if (connection == nullptr) {
    return;  // It was lost a moment ago.
  }
  if (how == Close::abort) {
    connection->stream->reset();
  }
  connection->is_closed_by_us = true;
  connection->deadline = now_ + close_patience_;
  note_end(*connection);
}

void TcpPort::note_end(Connection& connection) {
  if (!std::exchange(connection.is_ending, true)) {
    ends_.push_back(&connection);
  }
}

void TcpPort::settle(nic::Nic& nic, Time now) {
  // Their number changes under our hands.
  for (std::size_t i = 0; i < ends_.size();) {
    Connection& connection = *ends_[i];
    if (!advance_end(connection, now)) {
      ++i;
      continue;
    }
    nic::Qp& qp = connection.qp;
    lost_ += connection.stream->is_lost() ? 1 : 0;
    erase(connection);
    nic.on_stream_closed(now, qp);
  }
}

bool TcpPort::advance_end(Connection& connection, Time now) {
  TcpStream& stream = *connection.stream;
  if (connection.is_closed_by_us && !stream.is_lost() && !stream.has_unsent() &&
      !stream.has_ended()) {
    stream.end();
  }
  if (now >= connection.deadline) {
    stream.reset();
  }
  return stream.is_lost() || (stream.has_ended() && stream.peer_has_ended());
}

// --- Sleep, and the rest of a port

bool TcpPort::prepare_sleep() {
  if (recorder_) {
    recorder_->flush();
  }
  if (!frames_->prepare_sleep()) {
    return false;
  }
  // The doorbell may be a new one since the last time.
  static_cast<void>(sys::epoll_watch(sleepers_.get(), frames_->fd(), EPOLLIN));
  static_cast<void>(sys::epoll_watch(sleepers_.get(), sockets_.get(), EPOLLIN));
  is_watching_sockets_ = true;
  return true;
}

void TcpPort::finish_sleep() {
  frames_->finish_sleep();
  if (std::exchange(is_watching_sockets_, false)) {
    static_cast<void>(sys::epoll_watch(sleepers_.get(), sockets_.get(), 0));
  }
}

void TcpPort::begin_batch(Time now) {
  now_ = now;
  frames_->begin_batch(now);
  if (recorder_ && now >= next_capture_flush_) {
    next_capture_flush_ = now + capture_flush_interval;
    recorder_->flush();
  }
}

Time TcpPort::next_deadline() const {
  Time next = frames_->next_deadline();
  for (const Connection* connection : ends_) {
    next = std::min(next, connection->deadline);
  }
  return next;
}

PortStatistics TcpPort::statistics() const {
  PortStatistics statistics = frames_->statistics();
  statistics.streams_opened = opened_;
  statistics.streams_lost = lost_;
  statistics.handshakes_refused = handshakes_->refused;
  statistics.handshakes_timed_out = handshakes_->timed_out;
  statistics.handshakes_evicted = handshakes_->evicted;
  return statistics;
}

void TcpPort::abandon() {
  for (const auto& [qp, connection] : connections_) {
    connection->stream->abandon();
  }
  if (recorder_) {
    recorder_->abandon();
  }
  frames_->abandon();
  sleepers_.reset();
  sockets_.reset();
}

}  // namespace verbena::ports
