#include "proto/inet/tcp/stack.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/check.h"
#include "proto/inet/headers.h"
#include "proto/inet/tcp/initial_sequence.h"

namespace verbena::inet {

namespace {

using namespace std::chrono_literals;

/// What Linux takes (TCP_RTO_MIN) in place of RFC 6298's second.
constexpr Duration retransmission_timeout_min = 200ms;
/// More than an owner has under way as a rule, so that what it leaves to be sent when it goes fits.
/// Pages that are never used cost nothing.
constexpr std::uint32_t send_buffer_bytes = 1U << 20;
/// A link has no routers in which segments wander about: what comes late is late by a fault of the
/// link, or of whoever is at its other end.
constexpr Duration segment_lifetime_max = 1s;
/// For so long a peer may take to end what its owner here has left; then it is reset.
constexpr Duration orphan_patience = 30s;
/// Who wants to connect hears our SYN,ACK so often again: for about 15 s.
constexpr unsigned syn_ack_retries_max = 3;

bool is_unicast(const Ipv6Address& address) {
  if (const auto ipv4 = ipv4_of(address)) {
    return !ipv4->is_multicast() && !ipv4->is_loopback() && *ipv4 != Ipv4Address{} &&
           *ipv4 != Ipv4Address{{255, 255, 255, 255}};
  }
  return !address.is_multicast() && address != Ipv6Address{};
}

bool asks_to_connect(const TcpHeader& header) {
  return header.has(TcpHeader::flag_syn) && !header.has(TcpHeader::flag_ack) &&
         !header.has(TcpHeader::flag_rst);
}

bool is_open(const TcpConnection& tcp) { return tcp.state() >= TcpState::established; }

}  // namespace

/// The segments of one connection, on their way into packets.
class TcpStack::SegmentSink final : public TcpSegmentSink {
 public:
  SegmentSink(Socket& socket, TcpPacketSink& sink) : socket_(socket), sink_(sink) {}

  MutableBytes reserve(std::size_t bytes) override {
    segment_ = sink_.reserve(socket_.local.address, socket_.remote.address, bytes);
    return segment_;
  }
  void commit(TcpResend why) override {
    if (why != TcpResend::none) {
      const TcpSeq sequence(read_struct<TcpHeader>(segment_).sequence.value());
      const bool is_same = socket_.resent_times > 0 && socket_.resent == sequence;
      const unsigned times = is_same ? socket_.resent_times + 1U : 1U;
      socket_.resent = sequence;
      socket_.resent_times = static_cast<std::uint8_t>(std::min(times, 0xFFU));
    }
    sink_.commit(why, socket_.resent_times);
  }

 private:
  Socket& socket_;
  TcpPacketSink& sink_;
  MutableBytes segment_;
};

TcpStack::TcpStack(Settings settings) : settings_(std::move(settings)) {
  VERBENA_CHECK(settings_.draw != nullptr);
  VERBENA_CHECK(settings_.packet_bytes_max > ipv6_header_bytes + tcp_header_bytes);
  secret_.first = settings_.draw();
  secret_.second = settings_.draw();
}

// --- Ports

const LinkAddress* TcpStack::own(const Ipv6Address& address) const {
  const auto found = std::ranges::find(settings_.addresses, address, &LinkAddress::address);
  return found != settings_.addresses.end() ? &*found : nullptr;
}

TcpStack::Socket* TcpStack::find_listener(const TcpPlace& local) const {
  const auto found = std::ranges::find_if(
      sockets_, [&](const auto& socket) { return socket->listens && socket->local == local; });
  return found != sockets_.end() ? found->get() : nullptr;
}

/// As the kernel has it: several may bind the same if all say so and nobody listens.
bool TcpStack::is_claimed(const TcpPlace& local, bool shared) const {
  return std::ranges::any_of(sockets_, [&](const auto& socket) {
    const bool may_share = shared && socket->shares_port && !socket->listens;
    return socket->holds_port && socket->local == local && !may_share;
  });
}

/// RFC 6056, 3.3.1: from a random one on, the first that is free; 0 if none is.
std::uint16_t TcpStack::ephemeral_port(const Ipv6Address& address) const {
  constexpr unsigned count = ephemeral_port_max - ephemeral_port_min + 1U;
  const auto first = static_cast<unsigned>(settings_.draw() % count);
  for (unsigned i = 0; i < count; ++i) {
    const TcpPlace place{
        .address = address,
        .port = static_cast<std::uint16_t>(ephemeral_port_min + (first + i) % count)};
    if (std::ranges::none_of(sockets_,
                             [&](const auto& socket) { return socket->local == place; })) {
      return place.port;
    }
  }
  return 0;
}

Result<TcpStack::Socket*, TcpRefusal> TcpStack::open(TcpWatcher& watcher) {
  if (sockets_.size() >= settings_.sockets_max) {
    return std::unexpected(TcpRefusal::too_many);
  }
  sockets_.push_back(std::make_unique<Socket>());
  sockets_.back()->watcher = &watcher;
  return sockets_.back().get();
}

Result<void, TcpRefusal> TcpStack::bind(Socket& socket, const TcpPlace& local) {
  VERBENA_CHECK(!socket.tcp && !socket.listens);
  if (own(local.address) == nullptr) {
    return std::unexpected(TcpRefusal::no_such_address);
  }
  TcpPlace place = local;
  if (place.port == 0) {
    place.port = ephemeral_port(place.address);
  }
  socket.holds_port = false;
  if (place.port == 0 || is_claimed(place, socket.shares_port)) {
    return std::unexpected(TcpRefusal::port_in_use);
  }
  socket.local = place;
  socket.holds_port = true;
  return {};
}

Result<void, TcpRefusal> TcpStack::listen(Socket& socket, std::size_t backlog) {
  const Socket* const other = find_listener(socket.local);
  if (!socket.holds_port || socket.tcp || (other != nullptr && other != &socket)) {
    return std::unexpected(TcpRefusal::port_in_use);
  }
  socket.listens = true;
  socket.backlog = std::clamp<std::size_t>(backlog, 1, backlog_max);
  return {};
}

bool TcpStack::has_somebody(const Socket& listener) const {
  return std::ranges::any_of(listener.waiting,
                             [](const Socket* socket) { return is_open(*socket->tcp); });
}

TcpStack::Socket* TcpStack::accept(Socket& listener, TcpWatcher& watcher) {
  const auto found = std::ranges::find_if(
      listener.waiting, [](const Socket* socket) { return is_open(*socket->tcp); });
  if (found == listener.waiting.end()) {
    return nullptr;
  }
  Socket* const socket = *found;
  leave_listener(*socket);
  socket->watcher = &watcher;
  return socket;
}

// --- Connections

TcpSettings TcpStack::settings_for(const TcpPlace& local, const TcpPlace& remote, Time now) const {
  const std::size_t header_bytes =
      (ipv4_of(local.address) ? ipv4_header_bytes : ipv6_header_bytes) + tcp_header_bytes;
  return {.local_port = local.port,
          .peer_port = remote.port,
          .initial_sequence = initial_sequence(secret_, now, local, remote),
          .mss = static_cast<std::uint16_t>(settings_.packet_bytes_max - header_bytes),
          .send_buffer_bytes = send_buffer_bytes,
          .retransmission_timeout_min = retransmission_timeout_min,
          .segment_lifetime_max = segment_lifetime_max};
}

Result<void, TcpRefusal> TcpStack::connect(Socket& socket, const TcpPlace& remote, Time now) {
  VERBENA_CHECK(!socket.tcp || socket.tcp->state() == TcpState::closed);
  const LinkAddress* const from = own(socket.local.address);
  const bool is_same_version =
      ipv4_of(socket.local.address).has_value() == ipv4_of(remote.address).has_value();
  if (!socket.holds_port || socket.listens || from == nullptr || remote.port == 0 ||
      !is_same_version || !is_unicast(remote.address) || own(remote.address) != nullptr ||
      !from->covers(remote.address)) {
    return std::unexpected(TcpRefusal::no_route);
  }
  forget_connection(socket);
  if (connections_.contains({socket.local, remote})) {
    return std::unexpected(TcpRefusal::port_in_use);
  }
  socket.remote = remote;
  socket.tcp = std::make_unique<TcpConnection>(settings_for(socket.local, remote, now));
  socket.resent_times = 0;
  socket.tcp->connect();
  connections_[{socket.local, remote}] = &socket;
  wants_transmit_ = true;
  return {};
}

std::size_t TcpStack::write(Socket& socket, ByteView bytes) {
  wants_transmit_ = true;
  return socket.tcp->write(bytes);
}

bool TcpStack::write_unit(Socket& socket, ByteView bytes) {
  wants_transmit_ = true;
  return socket.tcp->write_unit(bytes);
}

void TcpStack::consume(Socket& socket, std::size_t bytes) {
  wants_transmit_ = true;  // A window may have opened.
  socket.tcp->consume(bytes);
}

void TcpStack::end_sending(Socket& socket, Time now) {
  wants_transmit_ = true;
  socket.tcp->close(now);
}

void TcpStack::close(Socket& socket, Time now, bool reset) {
  wants_transmit_ = true;
  socket.watcher = nullptr;
  socket.holds_port = socket.listens = false;
  while (!socket.waiting.empty()) {
    Socket& waiting = *socket.waiting.front();
    leave_listener(waiting);
    close(waiting, now, true);
  }
  if (!socket.tcp) {
    erase(socket);
    return;
  }
  // What has come and nobody will read is told by a reset (RFC 9293, 3.10.4.1; RFC 2525, 2.17).
  if (reset || !socket.tcp->readable().empty()) {
    socket.tcp->abort();
  } else {
    socket.tcp->close(now);
  }
  // transmit() erases what is over and has nothing to say.
  socket.give_up_at = now + orphan_patience;
}

void TcpStack::leave_listener(Socket& socket) {
  if (socket.listener != nullptr) {
    std::erase(socket.listener->waiting, &socket);
    socket.listener = nullptr;
  }
}

void TcpStack::forget_connection(Socket& socket) {
  const auto found = connections_.find({socket.local, socket.remote});
  if (found != connections_.end() && found->second == &socket) {
    connections_.erase(found);
  }
}

void TcpStack::erase(Socket& socket) {
  leave_listener(socket);
  forget_connection(socket);
  std::erase_if(sockets_, [&](const auto& item) { return item.get() == &socket; });
}

// --- Events

TcpStack::Outcome TcpStack::on_segment(Time now, const Ipv6Address& source,
                                       const Ipv6Address& destination, const TcpSegment& segment) {
  if (own(destination) == nullptr || own(source) != nullptr || !is_unicast(source)) {
    ++counters_.addresses_refused;
    return {};
  }
  const TcpPlace local{.address = destination, .port = segment.header.destination_port.value()};
  const TcpPlace remote{.address = source, .port = segment.header.source_port.value()};
  const auto found = connections_.find({local, remote});
  Socket* const known = found != connections_.end() ? found->second : nullptr;
  Socket* const listener = find_listener(local);
  const auto last =
      known != nullptr && listener != nullptr ? replace_waiting(*known, segment) : std::nullopt;
  Outcome outcome{.verdict = TcpVerdict::unknown};
  if (known != nullptr && !last && known->tcp->state() != TcpState::closed) {
    outcome.expected = known->tcp->expected().value();
    outcome.verdict = known->tcp->on_segment(now, segment);
    note_progress(*known);
  } else if (listener != nullptr) {
    outcome = on_listener(now, *listener, remote, segment, last);
  }
  if (outcome.verdict == TcpVerdict::unknown) {
    answer_stranger(source, destination, segment);
  }
  return outcome;
}

/// RFC 9293, 3.6.1 and 3.10.7.4: a SYN beyond all that the peer has sent may begin anew.
std::optional<TcpSeq> TcpStack::replace_waiting(Socket& socket, const TcpSegment& segment) {
  const TcpConnection& tcp = *socket.tcp;
  const TcpSeq sequence(segment.header.sequence.value());
  if (tcp.state() != TcpState::time_wait || !asks_to_connect(segment.header) ||
      !sequence.is_after(tcp.expected())) {
    return std::nullopt;
  }
  const TcpSeq last = tcp.sent_until();
  if (socket.watcher == nullptr) {
    erase(socket);
  } else {
    forget_connection(socket);  // Its owner may still read.
  }
  return last;
}

TcpStack::Outcome TcpStack::on_listener(Time now, Socket& listener, const TcpPlace& remote,
                                        const TcpSegment& segment,
                                        std::optional<TcpSeq> not_before) {
  const TcpHeader& header = segment.header;
  if (!asks_to_connect(header) || remote.port == 0) {
    return {.verdict = header.has(TcpHeader::flag_rst) ? TcpVerdict::ignored : TcpVerdict::unknown};
  }
  // A connection of the same two ends may be over and not yet forgotten.
  const std::pair ends(listener.local, remote);
  if (connections_.contains(ends) || !make_room(listener)) {
    ++counters_.syns_dropped;  // The peer asks again.
    return {};
  }
  sockets_.push_back(std::make_unique<Socket>());
  Socket& socket = *sockets_.back();
  socket.local = listener.local;
  socket.remote = remote;
  TcpSettings settings = settings_for(socket.local, remote, now);
  if (not_before) {
    settings.initial_sequence = later_of(settings.initial_sequence, *not_before);
  }
  settings.syn_retries_max = syn_ack_retries_max;
  socket.tcp = std::make_unique<TcpConnection>(settings);
  socket.tcp->listen();
  socket.listener = &listener;
  listener.waiting.push_back(&socket);
  connections_[ends] = &socket;
  return {.verdict = socket.tcp->on_segment(now, segment)};
}

bool TcpStack::make_room(Socket& listener) {
  if (listener.waiting.size() < listener.backlog && sockets_.size() < settings_.sockets_max) {
    return true;
  }
  const auto oldest = std::ranges::find_if(
      listener.waiting, [](const Socket* socket) { return !is_open(*socket->tcp); });
  if (oldest == listener.waiting.end()) {
    return false;
  }
  ++counters_.half_open_evicted;
  erase(**oldest);
  return true;
}

void TcpStack::note_progress(Socket& socket) {
  if (socket.watcher != nullptr) {
    socket.watcher->on_tcp_change();
  } else if (socket.listener != nullptr) {
    Socket& listener = *socket.listener;
    if (socket.tcp->state() == TcpState::closed) {
      leave_listener(socket);  // transmit() erases it.
    } else if (is_open(*socket.tcp) && listener.watcher != nullptr) {
      listener.watcher->on_tcp_change();
    }
  } else {
    while (!socket.tcp->readable().empty()) {
      socket.tcp->consume(socket.tcp->readable().size());
    }
  }
}

void TcpStack::answer_stranger(const Ipv6Address& source, const Ipv6Address& destination,
                               const TcpSegment& segment) {
  ++counters_.strangers;
  const auto reset = reset_for(segment);
  if (!reset) {
    return;
  }
  if (resets_.size() >= resets_waiting_max) {
    ++counters_.resets_unsent;
    return;
  }
  resets_.push_back({.header = *reset, .source = destination, .destination = source});
}

void TcpStack::on_timer(Time now) {
  for (const auto& socket : sockets_) {
    if (socket->tcp && socket->tcp->next_timeout() <= now) {
      socket->tcp->on_timer(now);
      note_progress(*socket);
    }
    if (socket->give_up_at <= now && socket->tcp->state() != TcpState::closed) {
      ++counters_.orphans_given_up;
      socket->tcp->abort();
    }
  }
}

Time TcpStack::next_timeout() const {
  Time next = time_never;
  for (const auto& socket : sockets_) {
    const Time own = socket->tcp ? socket->tcp->next_timeout() : time_never;
    next = std::min({next, own, socket->give_up_at});
  }
  return next;
}

bool TcpStack::has_delivered() const {
  return std::ranges::none_of(sockets_, [](const auto& socket) {
    if (!socket->tcp || socket->tcp->state() == TcpState::closed) {
      return false;
    }
    const TcpState state = socket->tcp->state();
    return socket->tcp->unacknowledged_bytes() > 0 || state == TcpState::fin_wait_1 ||
           state == TcpState::closing || state == TcpState::last_ack;
  });
}

// --- Effects

void TcpStack::send_resets(TcpPacketSink& sink) {
  std::erase_if(resets_, [&](const Reset& reset) {
    const MutableBytes bytes = sink.reserve(reset.source, reset.destination, tcp_header_bytes);
    if (bytes.empty()) {
      return false;
    }
    write_struct(bytes, reset.header);
    sink.commit(TcpResend::none, 0);
    return true;
  });
}

void TcpStack::transmit(Time now, TcpPacketSink& sink) {
  wants_transmit_ = false;
  send_resets(sink);
  for (const auto& socket : sockets_) {
    if (socket->tcp) {
      SegmentSink segments(*socket, sink);
      std::uint32_t budget = std::numeric_limits<std::uint32_t>::max();
      static_cast<void>(socket->tcp->poll_transmit(now, segments, budget));
    }
  }
  for (std::size_t i = 0; i < sockets_.size();) {
    Socket& socket = *sockets_[i];
    const bool is_owned = socket.watcher != nullptr || socket.listener != nullptr;
    const bool is_over = socket.tcp && socket.tcp->state() == TcpState::closed &&
                         (!socket.tcp->has_reset_to_send() || socket.give_up_at <= now);
    if (!is_owned && is_over) {
      erase(socket);
    } else {
      ++i;
    }
  }
}

}  // namespace verbena::inet
