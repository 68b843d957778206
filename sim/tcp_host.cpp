#include "sim/tcp_host.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "nic_model/types.h"
#include "proto/inet/tcp/frame.h"
#include "proto/inet/tcp/verdict.h"
#include "proto/roce/gid.h"

namespace verbena::sim {

namespace {

/// What Linux takes (TCP_RTO_MIN) in place of RFC 6298's second.
constexpr Duration retransmission_timeout_min = std::chrono::milliseconds(200);
/// A segment doesn't wander about for long on links of microseconds; closed connections needn't be
/// remembered longer than that.
constexpr Duration segment_lifetime_max = std::chrono::milliseconds(1);

inet::TcpSettings settings_of(const TcpHost::Endpoint& endpoint) {
  return {.local_port = endpoint.local_port,
          .peer_port = endpoint.peer_port,
          .initial_sequence = endpoint.initial_sequence,
          .mss = endpoint.mss,
          .retransmission_timeout_min = retransmission_timeout_min,
          .segment_lifetime_max = segment_lifetime_max};
}

RxVerdict dropped(RxCheck check) { return {.kind = RxVerdict::Kind::dropped, .check = check}; }

}  // namespace

struct TcpHost::Connection final : iwarp::StreamSink {
  enum class Phase : std::uint8_t {
    opening,  ///< Up to the end of the start frames.
    open,     ///< Of a queue pair in RTS or later.
    over,     ///< The queue pair has nothing to do with it any more.
  };

  Connection(TcpHost& its_host, nic::Qp& its_qp, const Endpoint& endpoint, bool is_initiator)
      : host(its_host),
        qp(&its_qp),
        peer(endpoint.peer),
        peer_port(endpoint.peer_port),
        local_port(endpoint.local_port),
        depths(endpoint.depths),
        tcp(settings_of(endpoint)),
        mpa(is_initiator ? iwarp::MpaConnector::initiator(endpoint.mpa)
                         : iwarp::MpaConnector::responder(endpoint.mpa)) {}

  // iwarp::StreamSink: FPDUs of the queue pair.
  MutableBytes reserve(std::size_t bytes) override {
    if (tcp.has_unsent_bytes() || tcp.write_room() < bytes) {
      return {};
    }
    fpdu.resize(bytes);
    return fpdu;
  }
  void commit() override {
    VERBENA_CHECK(tcp.write(fpdu) == fpdu.size());
    host.transmit(*this);
  }

  TcpHost& host;
  nic::Qp* qp;
  inet::Ipv4Address peer;
  /// Of a listener 0 until somebody came.
  std::uint16_t peer_port;
  std::uint16_t local_port;
  iwarp::ReadDepths depths;
  inet::TcpConnection tcp;
  iwarp::MpaConnector mpa;
  Phase phase = Phase::opening;
  bool end_is_told = false;
  std::vector<std::byte> fpdu;
  /// The segment that was sent again last, and how often.
  std::uint32_t resent_sequence = 0;
  std::uint8_t resent_times = 0;
};

/// Puts segments of a connection into frames.
class TcpHost::SegmentSink final : public inet::TcpSegmentSink {
 public:
  SegmentSink(FrameSink& frames, const inet::Ipv4Address& from, const inet::Ipv4Address& to)
      : frames_(frames),
        path_{.source_mac = nic::mac_of(from),
              .destination_mac = nic::mac_of(to),
              .source = inet::mapped(from),
              .destination = inet::mapped(to)} {
    route_.source = roce::gid_from_ipv4(from);
    route_.destination = roce::gid_from_ipv4(to);
  }
  explicit SegmentSink(FrameSink& frames, Connection& connection)
      : SegmentSink(frames, connection.host.address_, connection.peer) {
    connection_ = &connection;
  }

  MutableBytes reserve(std::size_t bytes) override {
    frame_ = frames_.reserve(route_, inet::tcp_frame_prefix_bytes + bytes);
    return frame_.empty() ? MutableBytes() : frame_.subspan(inet::tcp_frame_prefix_bytes);
  }
  void commit(inet::TcpResend why) override {
    inet::finish_tcp_frame(frame_, path_);
    frames_.commit(note_of(why));
  }

 private:
  PacketNote note_of(inet::TcpResend why) {
    if (why == inet::TcpResend::none) {
      return {};
    }
    const auto header = read_struct<inet::TcpHeader>(frame_.subspan(inet::tcp_frame_prefix_bytes));
    Connection& connection = *connection_;
    const std::uint32_t sequence = header.sequence.value();
    const bool is_same = connection.resent_times > 0 && connection.resent_sequence == sequence;
    connection.resent_sequence = sequence;
    connection.resent_times =
        static_cast<std::uint8_t>(is_same ? std::min(connection.resent_times + 1, 0xFF) : 1);
    return {.kind = PacketNote::Kind::retransmission,
            .cause = why == inet::TcpResend::timeout ? PacketNote::Cause::timeout
                                                     : PacketNote::Cause::duplicate_acks,
            .attempt = connection.resent_times};
  }

  FrameSink& frames_;
  inet::TcpFramePath path_;
  FrameRoute route_;
  Connection* connection_ = nullptr;
  MutableBytes frame_;
};

TcpHost::TcpHost(nic::Nic& nic, const inet::Ipv4Address& address) : nic_(nic), address_(address) {}

TcpHost::~TcpHost() = default;

TcpHost::Connection& TcpHost::add(nic::Qp& qp, const Endpoint& endpoint, bool is_initiator) {
  connections_.push_back(std::make_unique<Connection>(*this, qp, endpoint, is_initiator));
  return *connections_.back();
}

void TcpHost::listen(nic::Qp& qp, const Endpoint& endpoint) {
  add(qp, endpoint, false).tcp.listen();
}

void TcpHost::connect(nic::Qp& qp, const Endpoint& endpoint) {
  Connection& connection = add(qp, endpoint, true);
  connection.tcp.connect();
  connection.mpa.connect(endpoint.depths, {});
}

void TcpHost::forget(const nic::Qp& qp) {
  for (const auto& connection : connections_) {
    if (connection->qp == &qp) {
      connection->qp = nullptr;
      connection->phase = Connection::Phase::over;
      connection->tcp.abort();
    }
  }
}

bool TcpHost::is_connecting(const nic::Qp& qp) const {
  return std::ranges::any_of(connections_, [&](const auto& connection) {
    return connection->qp == &qp && connection->phase == Connection::Phase::opening;
  });
}

TcpHost::Connection* TcpHost::find(const nic::Qp& qp) const {
  const auto found = std::ranges::find_if(connections_, [&](const auto& connection) {
    return connection->qp == &qp && connection->phase == Connection::Phase::open;
  });
  return found != connections_.end() ? found->get() : nullptr;
}

/// The connection of a segment: one with that peer, or else who listens.
TcpHost::Connection* TcpHost::find(const inet::Ipv4Address& peer, std::uint16_t peer_port,
                                   std::uint16_t local_port) const {
  Connection* listener = nullptr;
  for (const auto& connection : connections_) {
    if (connection->local_port != local_port) {
      continue;
    }
    if (connection->tcp.state() == inet::TcpState::listen) {
      listener = listener != nullptr ? listener : connection.get();
    } else if (connection->peer == peer && connection->peer_port == peer_port &&
               connection->tcp.state() != inet::TcpState::closed) {
      return connection.get();
    }
  }
  return listener;
}

RxVerdict TcpHost::on_frame(Time now, ByteView frame) {
  const auto tcp = inet::parse_tcp_frame(frame);
  if (!tcp || !tcp->checksum_is_good()) {
    return dropped(RxCheck::frame);
  }
  const auto source = inet::ipv4_of(tcp->source);
  if (!source || tcp->destination != inet::mapped(address_)) {
    return dropped(RxCheck::address);
  }
  const inet::TcpHeader& header = tcp->segment.header;
  Connection* const connection =
      find(*source, header.source_port.value(), header.destination_port.value());
  auto verdict = inet::TcpVerdict::unknown;
  std::uint32_t expected = 0;
  if (connection != nullptr) {
    expected = connection->tcp.expected().value();
    verdict = connection->tcp.on_segment(now, tcp->segment);
    if (connection->peer_port == 0 && connection->tcp.state() != inet::TcpState::listen) {
      connection->peer = *source;
      connection->peer_port = header.source_port.value();
    }
  }
  if (verdict == inet::TcpVerdict::unknown) {
    if (const auto reset = inet::reset_for(tcp->segment)) {
      resets_.push_back({*reset, *source});
    }
  }
  return inet::verdict_of(verdict, expected, header.sequence.value());
}

void TcpHost::on_timer(Time now) {
  for (const auto& connection : connections_) {
    if (connection->tcp.next_timeout() <= now) {
      connection->tcp.on_timer(now);
    }
  }
}

Time TcpHost::next_timeout() const {
  Time next = time_never;
  for (const auto& connection : connections_) {
    next = std::min(next, connection->tcp.next_timeout());
  }
  return next;
}

void TcpHost::run(Time now, FrameSink& frames) {
  now_ = now;
  frames_ = &frames;
  bool again = true;
  while (again) {
    again = false;
    while (nic_.poll_streams(now, *this) == nic::TransmitStatus::more) {
    }
    for (const auto& connection : connections_) {
      again |= pump(*connection);
      again |= transmit(*connection);
    }
  }
  send_resets();
  forget_dead();
  frames_ = nullptr;
}

bool TcpHost::pump(Connection& connection) {
  switch (connection.phase) {
    case Connection::Phase::opening:
      return open(connection);
    case Connection::Phase::open:
      return feed(connection);
    case Connection::Phase::over:
      break;
  }
  // Nobody is there to read it.
  const std::size_t unread = connection.tcp.readable().size();
  connection.tcp.consume(unread);
  return unread > 0;
}

/// Start frames. A consumer of the simulator accepts everybody.
bool TcpHost::open(Connection& connection) {
  using State = iwarp::MpaConnector::State;
  inet::TcpConnection& tcp = connection.tcp;
  iwarp::MpaConnector& mpa = connection.mpa;
  while (mpa.state() == State::waiting && !tcp.readable().empty()) {
    ByteView bytes = tcp.readable();
    const std::size_t before = bytes.size();
    mpa.on_stream(bytes);
    tcp.consume(before - bytes.size());
  }
  if (mpa.state() == State::asked) {
    mpa.accept(connection.depths, {});
  }
  mpa.note_written(tcp.write(mpa.output()));
  const bool is_dead = tcp.state() == inet::TcpState::closed || tcp.peer_has_ended();
  if (mpa.state() == State::agreed && mpa.output().empty()) {
    const auto attached = nic_.attach_stream(now_, *connection.qp,
                                             {.agreement = mpa.agreement(),
                                              .is_initiator = mpa.is_initiator(),
                                              .segment_bytes = tcp.mss()});
    connection.phase = attached ? Connection::Phase::open : Connection::Phase::over;
    if (!attached) {
      tcp.abort();
    }
    return true;
  }
  if (is_dead || (mpa.state() == State::refused && mpa.output().empty())) {
    connection.phase = Connection::Phase::over;
    tcp.close(now_);
    return true;
  }
  return false;
}

/// What came is for the queue pair.
bool TcpHost::feed(Connection& connection) {
  inet::TcpConnection& tcp = connection.tcp;
  bool moved = false;
  while (!tcp.readable().empty()) {
    const ByteView bytes = tcp.readable();
    nic_.on_stream(now_, *connection.qp, bytes);
    tcp.consume(bytes.size());
    moved = true;
  }
  if (tcp.peer_has_ended() && !std::exchange(connection.end_is_told, true)) {
    nic_.on_stream_end(now_, *connection.qp);
    moved = true;
  }
  // To a program a connection is closed when both sides have said their last.
  if (tcp.state() == inet::TcpState::closed || tcp.state() == inet::TcpState::time_wait) {
    connection.phase = Connection::Phase::over;
    nic_.on_stream_closed(now_, *connection.qp);
    moved = true;
  }
  return moved;
}

/// True if there is room for FPDUs again.
bool TcpHost::transmit(Connection& connection) {
  const bool was_full = connection.tcp.has_unsent_bytes();
  SegmentSink sink(*frames_, connection);
  std::uint32_t budget = std::numeric_limits<std::uint32_t>::max();
  static_cast<void>(connection.tcp.poll_transmit(now_, sink, budget));
  return was_full && !connection.tcp.has_unsent_bytes();
}

void TcpHost::send_resets() {
  for (const Reset& reset : resets_) {
    SegmentSink sink(*frames_, address_, reset.peer);
    const MutableBytes bytes = sink.reserve(inet::tcp_header_bytes);
    if (!bytes.empty()) {  // Else it is lost, as on a full link: the peer asks again.
      write_struct(bytes, reset.header);
      sink.commit(inet::TcpResend::none);
    }
  }
  resets_.clear();
}

void TcpHost::forget_dead() {
  std::erase_if(connections_, [](const auto& connection) {
    return connection->phase == Connection::Phase::over &&
           connection->tcp.state() == inet::TcpState::closed;
  });
}

iwarp::StreamSink& TcpHost::stream_of(const nic::Qp& qp) {
  Connection* const connection = find(qp);
  VERBENA_CHECK(connection != nullptr);
  return *connection;
}

void TcpHost::close_stream(const nic::Qp& qp, Close how) {
  Connection* const connection = find(qp);
  if (connection == nullptr) {
    return;  // It was forgotten before.
  }
  if (how == Close::in_order) {
    connection->tcp.close(now_);
  } else {
    connection->tcp.abort();
  }
}

}  // namespace verbena::sim
