// Whole connections of our own TCP between a program and peers that say what they like: the input
// is a list of steps, calls of the program, segments of peers (nearly right or anything), and time.
//
// What a byte of a stream is follows from its sequence number, so that every byte that is read or
// sent can be checked. Whatever comes: bytes are those that were sent, in order; nothing is sent
// that wasn't written; tables stay bounded; timers are ahead of now, and not far; and what the
// program has left is gone after a while.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "proto/inet/tcp/options.h"
#include "proto/inet/tcp/retransmission_timeout.h"
#include "proto/inet/tcp/stack.h"

namespace verbena::inet {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t own_port = 4420;
constexpr std::uint16_t packet_bytes_max = 1500;
constexpr std::size_t sockets_max = 12;
constexpr int steps_max = 400;
/// What a call writes or a segment carries at most.
constexpr std::size_t piece_bytes_max = 4000;

const std::array<Ipv6Address, 2> own_addresses = {mapped({{10, 7, 0, 1}}),
                                                  LinkAddress::from_text("fd00::1/64")->address};
const std::array<Ipv6Address, 2> peer_addresses = {mapped({{10, 7, 0, 2}}),
                                                   LinkAddress::from_text("fd00::2/64")->address};

/// The byte at a sequence number.
std::byte content(TcpSeq at) { return static_cast<std::byte>(at.value() * 2'654'435'761U >> 24); }

void fill(MutableBytes bytes, TcpSeq from) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = content(from + static_cast<std::uint32_t>(i));
  }
}

void check_content(ByteView bytes, TcpSeq from) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    VERBENA_CHECK(bytes[i] == content(from + static_cast<std::uint32_t>(i)));
  }
}

/// What a peer knows of a connection.
struct Wire {
  TcpPlace own;
  TcpPlace peer;
  /// The peer's SYN that counted, and our own SYN.
  TcpSeq peer_initial{};
  TcpSeq own_initial{};
  /// The end of what we have sent, and what we acknowledged last.
  TcpSeq own_end{};
  TcpSeq acknowledged{};
  /// What the peer acknowledged last.
  TcpSeq heard_until{};
  std::uint32_t payload_bytes_max = packet_bytes_max;
  /// By the program.
  std::uint32_t written = 0;
  bool has_ended = false;
};

struct Owner final : TcpWatcher {
  void on_tcp_change() override {}
  TcpStack::Socket* socket = nullptr;
  /// Of a connection.
  Wire* wire = nullptr;
  std::uint32_t read = 0;
};

class Target final : public TcpPacketSink {
 public:
  explicit Target(FuzzedDataProvider& input);
  void run();

  // TcpPacketSink.
  MutableBytes reserve(const Ipv6Address& source, const Ipv6Address& destination,
                       std::size_t bytes) override;
  void commit(TcpResend why, std::uint8_t times) override;

 private:
  void step();
  // Calls of the program.
  [[nodiscard]] Owner* open();
  void listen();
  void connect();
  void accept();
  void write(Owner& owner);
  void read(Owner& owner);
  void close(Owner& owner, bool reset);
  [[nodiscard]] Owner* any_owner();
  // A peer.
  void hear();
  void write_options(std::vector<std::byte>& segment);
  void deliver(const TcpPlace& own, const TcpPlace& peer, ByteView bytes);
  [[nodiscard]] TcpSeq near(TcpSeq right);
  // What must always hold.
  void settle();
  void check_end();
  [[nodiscard]] Wire& wire_of(const TcpPlace& own, const TcpPlace& peer);

  FuzzedDataProvider& input_;
  TcpStack stack_;
  Time now_{1s};
  std::list<Owner> owners_;
  /// The newest first.
  std::list<Wire> wires_;
  /// Segments that the link takes before it is full.
  std::uint32_t room_ = 0;
  Ipv6Address source_;
  Ipv6Address destination_;
  std::vector<std::byte> segment_;
};

TcpStack::Settings settings_of(std::uint64_t seed) {
  return {
      .addresses = {*LinkAddress::from_text("10.7.0.1/24"), *LinkAddress::from_text("fd00::1/64")},
      .packet_bytes_max = packet_bytes_max,
      .sockets_max = sockets_max,
      .draw = [prng = Prng(seed)]() mutable { return prng.next(); }};
}

Target::Target(FuzzedDataProvider& input)
    : input_(input), stack_(settings_of(input.ConsumeIntegral<std::uint8_t>())) {}

Wire& Target::wire_of(const TcpPlace& own, const TcpPlace& peer) {
  const auto found = std::ranges::find_if(
      wires_, [&](const Wire& wire) { return wire.own == own && wire.peer == peer; });
  return found != wires_.end() ? *found : wires_.emplace_front(Wire{.own = own, .peer = peer});
}

// --- What we send

MutableBytes Target::reserve(const Ipv6Address& source, const Ipv6Address& destination,
                             std::size_t bytes) {
  if (room_ == 0) {
    return {};
  }
  source_ = source;
  destination_ = destination;
  segment_.assign(bytes, std::byte{0});
  return segment_;
}

void Target::commit(TcpResend /*why*/, std::uint8_t /*times*/) {
  --room_;
  const auto segment = parse_tcp(segment_);
  VERBENA_CHECK(segment.has_value());
  VERBENA_CHECK(std::ranges::find(own_addresses, source_) != own_addresses.end());
  const TcpHeader& header = segment->header;
  Wire& wire = wire_of({.address = source_, .port = header.source_port.value()},
                       {.address = destination_, .port = header.destination_port.value()});
  if (header.has(TcpHeader::flag_rst)) {
    VERBENA_CHECK(segment->payload.empty());
    return;
  }
  const TcpSeq at(header.sequence.value());
  if (header.has(TcpHeader::flag_syn)) {
    VERBENA_CHECK(segment->payload.empty());
    wire.own_initial = at;
    wire.own_end = at + 1;
    return;
  }
  const auto bytes = static_cast<std::uint32_t>(segment->payload.size());
  const TcpSeq written_end = wire.own_initial + 1 + wire.written;
  check_content(segment->payload, at);
  VERBENA_CHECK(bytes <= wire.payload_bytes_max);
  VERBENA_CHECK(!(at + bytes).is_after(written_end + 1) || bytes == 0);
  VERBENA_CHECK(bytes == 0 || !(at + bytes).is_after(written_end));
  if (header.has(TcpHeader::flag_fin)) {
    VERBENA_CHECK(wire.has_ended && at + bytes == written_end);
  }
  wire.own_end = later_of(wire.own_end, at + bytes + (header.has(TcpHeader::flag_fin) ? 1 : 0));
  wire.acknowledged = TcpSeq(header.acknowledgement.value());
}

// --- The program

Owner* Target::any_owner() {
  if (owners_.empty()) {
    return nullptr;
  }
  const auto index = input_.ConsumeIntegralInRange<std::size_t>(0, owners_.size() - 1);
  return &*std::next(owners_.begin(), static_cast<std::ptrdiff_t>(index));
}

/// Null if there are as many sockets as there may be.
Owner* Target::open() {
  Owner& owner = owners_.emplace_back();
  const auto socket = stack_.open(owner);
  if (!socket) {
    owners_.pop_back();
    return nullptr;
  }
  owner.socket = *socket;
  owner.socket->shares_port = input_.ConsumeBool();
  return &owner;
}

void Target::listen() {
  Owner* const opened = open();
  if (opened == nullptr) {
    return;
  }
  Owner& owner = *opened;
  const TcpPlace place{.address = own_addresses[input_.ConsumeBool() ? 1 : 0], .port = own_port};
  const auto backlog = input_.ConsumeIntegralInRange<std::size_t>(0, 5);
  if (!stack_.bind(*owner.socket, place) || !stack_.listen(*owner.socket, backlog)) {
    close(owner, false);
  }
}

void Target::connect() {
  Owner* const opened = open();
  if (opened == nullptr) {
    return;
  }
  Owner& owner = *opened;
  const std::size_t version = input_.ConsumeBool() ? 1 : 0;
  const TcpPlace place{.address = own_addresses[version],
                       .port = static_cast<std::uint16_t>(input_.ConsumeBool() ? 0 : own_port + 1)};
  const TcpPlace peer{.address = peer_addresses[input_.ConsumeBool() ? 1 - version : version],
                      .port = input_.ConsumeIntegralInRange<std::uint16_t>(0, 2)};
  if (!stack_.bind(*owner.socket, place) || !stack_.connect(*owner.socket, peer, now_)) {
    close(owner, false);
    return;
  }
  owner.wire =
      &wires_.emplace_front(Wire{.own = owner.socket->local, .peer = owner.socket->remote});
}

void Target::accept() {
  for (Owner& owner : owners_) {
    if (!owner.socket->listens) {
      continue;
    }
    Owner& accepted = owners_.emplace_back();
    accepted.socket = stack_.accept(*owner.socket, accepted);
    if (accepted.socket == nullptr) {
      owners_.pop_back();
    } else {
      accepted.wire = &wire_of(accepted.socket->local, accepted.socket->remote);
    }
  }
}

void Target::write(Owner& owner) {
  const TcpConnection* const tcp = owner.socket->tcp.get();
  if (tcp == nullptr || tcp->state() < TcpState::established) {
    return;  // As a socket refuses it before.
  }
  Wire& wire = *owner.wire;
  std::vector<std::byte> bytes(input_.ConsumeIntegralInRange<std::size_t>(1, piece_bytes_max));
  fill(bytes, wire.own_initial + 1 + wire.written);
  const bool is_unit = input_.ConsumeBool();
  const std::size_t written = !is_unit ? stack_.write(*owner.socket, bytes)
                              : stack_.write_unit(*owner.socket, bytes) ? bytes.size()
                                                                        : 0;
  wire.written += static_cast<std::uint32_t>(written);
}

void Target::read(Owner& owner) {
  const TcpConnection* const tcp = owner.socket->tcp.get();
  if (tcp == nullptr) {
    return;
  }
  const Wire& wire = *owner.wire;
  auto budget = input_.ConsumeIntegralInRange<std::size_t>(1, std::size_t{1} << 19);
  while (budget > 0 && !tcp->readable().empty()) {
    const ByteView piece = tcp->readable().first(std::min(budget, tcp->readable().size()));
    check_content(piece, wire.peer_initial + 1 + owner.read);
    owner.read += static_cast<std::uint32_t>(piece.size());
    budget -= piece.size();
    stack_.consume(*owner.socket, piece.size());
  }
}

void Target::close(Owner& owner, bool reset) {
  if (owner.wire != nullptr) {
    owner.wire->has_ended = true;
  }
  stack_.close(*owner.socket, now_, reset);
  std::erase_if(owners_, [&](const Owner& each) { return &each == &owner; });
}

// --- Peers

TcpSeq Target::near(TcpSeq right) {
  switch (input_.ConsumeIntegralInRange(0, 5)) {
    case 0:
      return right + static_cast<std::uint32_t>(input_.ConsumeIntegral<std::int16_t>());
    case 1:
      return TcpSeq(input_.ConsumeIntegral<std::uint32_t>());
    default:
      return right;
  }
}

void Target::write_options(std::vector<std::byte>& segment) {
  if (input_.ConsumeBool()) {
    const auto bytes =
        input_.ConsumeBytes<std::uint8_t>(input_.ConsumeIntegralInRange<std::size_t>(0, 10) * 4);
    const auto view = std::as_bytes(std::span(bytes)).first(bytes.size() / 4 * 4);
    segment.insert(segment.end(), view.begin(), view.end());
    return;
  }
  TcpSynOptions options{.mss = input_.ConsumeIntegral<std::uint16_t>(), .window_shift = {}};
  if (input_.ConsumeBool()) {
    options.window_shift = input_.ConsumeIntegralInRange<std::uint8_t>(0, 15);
  }
  segment.resize(tcp_header_bytes + syn_options_bytes(options));
  emit_syn_options(MutableBytes(segment).subspan(tcp_header_bytes), options);
}

/// A segment of a peer, of a connection that is or isn't.
void Target::hear() {
  const std::size_t version = input_.ConsumeBool() ? 1 : 0;
  TcpPlace own{.address = own_addresses[version], .port = own_port};
  TcpPlace peer{.address = peer_addresses[version],
                .port = input_.ConsumeIntegralInRange<std::uint16_t>(0, 3)};
  if (!wires_.empty() && input_.ConsumeBool()) {
    const auto index = input_.ConsumeIntegralInRange<std::size_t>(0, wires_.size() - 1);
    const Wire& known = *std::next(wires_.begin(), static_cast<std::ptrdiff_t>(index));
    own = known.own;
    peer = known.peer;
  }
  Wire& wire = wire_of(own, peer);
  constexpr std::array<std::uint8_t, 6> usual = {TcpHeader::flag_syn,
                                                 TcpHeader::flag_syn | TcpHeader::flag_ack,
                                                 TcpHeader::flag_ack,
                                                 TcpHeader::flag_ack,
                                                 TcpHeader::flag_ack | TcpHeader::flag_fin,
                                                 TcpHeader::flag_rst | TcpHeader::flag_ack};
  const auto kind = input_.ConsumeIntegralInRange<std::size_t>(0, usual.size());
  TcpHeader header;
  header.flags = kind < usual.size() ? usual[kind] : input_.ConsumeIntegral<std::uint8_t>();
  header.source_port = peer.port;
  header.destination_port = own.port;
  const TcpSeq at = near(wire.acknowledged);
  header.sequence = at.value();
  // All that was sent, or the same once more.
  wire.heard_until = near(input_.ConsumeBool() ? wire.own_end : wire.heard_until);
  header.acknowledgement = wire.heard_until.value();
  header.window = input_.ConsumeBool() ? 0xFFFF : input_.ConsumeIntegral<std::uint16_t>();
  header.urgent = header.window.value();

  std::vector<std::byte> segment(tcp_header_bytes);
  if (header.has(TcpHeader::flag_syn)) {
    write_options(segment);
  }
  header.data_offset = static_cast<std::uint8_t>(segment.size() / 4 << 4);
  write_struct(MutableBytes(segment), header);
  const std::size_t header_bytes = segment.size();
  segment.resize(
      header_bytes +
      (input_.ConsumeBool() ? input_.ConsumeIntegralInRange<std::size_t>(0, piece_bytes_max) : 0));
  // The byte behind a SYN is the first.
  fill(MutableBytes(segment).subspan(header_bytes), at + (header.has(TcpHeader::flag_syn) ? 1 : 0));
  deliver(own, peer, segment);
}

void Target::deliver(const TcpPlace& own, const TcpPlace& peer, ByteView bytes) {
  const auto segment = parse_tcp(bytes);
  VERBENA_CHECK(segment.has_value());
  const bool is_called = std::ranges::any_of(owners_, [&](const Owner& owner) {
    const TcpStack::Socket& socket = *owner.socket;
    return socket.tcp && socket.tcp->state() == TcpState::syn_sent && socket.local == own &&
           socket.remote == peer;
  });
  const auto outcome = stack_.on_segment(now_, peer.address, own.address, *segment);
  const TcpHeader& header = segment->header;
  const bool calls = !is_called && !header.has(TcpHeader::flag_ack);
  if (!header.has(TcpHeader::flag_syn) || outcome.verdict != TcpVerdict::accepted ||
      (!calls && !is_called)) {
    return;
  }
  Wire& wire = calls ? wires_.emplace_front(Wire{.own = own, .peer = peer}) : wire_of(own, peer);
  wire.peer_initial = TcpSeq(header.sequence.value());
  wire.acknowledged = wire.peer_initial + 1;
  const std::uint16_t mss = parse_syn_options(segment->options).mss.value_or(tcp_mss_default);
  wire.payload_bytes_max = std::max<std::uint32_t>(mss, tcp_mss_min);
}

// --- What must always hold

void Target::settle() {
  stack_.on_timer(now_);
  stack_.transmit(now_, *this);
  VERBENA_CHECK(stack_.sockets() <= sockets_max);
  VERBENA_CHECK(stack_.next_timeout() > now_);
  VERBENA_CHECK(stack_.next_timeout() == time_never ||
                stack_.next_timeout() <= now_ + RetransmissionTimeout::max);
  for (const Owner& owner : owners_) {
    VERBENA_CHECK(owner.socket->waiting.size() <= std::max<std::size_t>(owner.socket->backlog, 1));
  }
}

void Target::step() {
  switch (input_.ConsumeIntegralInRange(0, 10)) {
    case 0:
      listen();
      break;
    case 1:
      connect();
      break;
    case 2:
      accept();
      break;
    case 3:
      if (Owner* const owner = any_owner()) {
        write(*owner);
      }
      break;
    case 4:
      if (Owner* const owner = any_owner()) {
        read(*owner);
      }
      break;
    case 5:
      if (Owner* const owner = any_owner(); owner != nullptr && owner->socket->tcp) {
        owner->wire->has_ended = true;
        stack_.end_sending(*owner->socket, now_);
      }
      break;
    case 6:
      if (Owner* const owner = any_owner()) {
        close(*owner, input_.ConsumeBool());
      }
      break;
    case 7:
      now_ += 1ms * input_.ConsumeIntegralInRange(0, 70'000);
      break;
    default:
      hear();
  }
}

/// The program leaves, and peers are silent.
void Target::check_end() {
  while (!owners_.empty()) {
    close(owners_.front(), false);
  }
  constexpr int turns_max = 1000;
  for (int turn = 0; turn < turns_max && stack_.sockets() > 0; ++turn) {
    room_ = 10'000;
    settle();
    now_ = std::max(now_, std::min(stack_.next_timeout(), now_ + 1s));
  }
  VERBENA_CHECK(stack_.sockets() == 0);
  VERBENA_CHECK(stack_.next_timeout() == time_never);
  VERBENA_CHECK(stack_.has_delivered());
}

void Target::run() {
  for (int i = 0; i < steps_max && input_.remaining_bytes() > 0; ++i) {
    room_ = input_.ConsumeIntegralInRange(0, 9) == 0 ? 1 : 10'000;
    step();
    settle();
  }
  check_end();
}

}  // namespace
}  // namespace verbena::inet

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  verbena::inet::Target target(input);
  target.run();
  return 0;
}
