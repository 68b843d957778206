#include "tests/unit/tcp/tcp_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/prng.h"

namespace verbena::test {

using inet::TcpConnection;
using inet::TcpHeader;
using inet::TcpSettings;
using namespace std::chrono_literals;

namespace {

/// Parses each segment again, so that only what is on the wire counts.
class Wire final : public inet::TcpSegmentSink {
 public:
  Wire(bool from_a, Time now, std::vector<Sent>& log) : from_a_(from_a), now_(now), log_(log) {}

  MutableBytes reserve(std::size_t bytes) override {
    segment_.assign(bytes, std::byte{0xEE});
    return segment_;
  }
  void commit(inet::TcpResend why) override {
    const auto parsed = inet::parse_tcp(segment_);
    REQUIRE(parsed);
    const std::uint32_t own = from_a_ ? TcpPair::initial_a : TcpPair::initial_b;
    const std::uint32_t peers = from_a_ ? TcpPair::initial_b : TcpPair::initial_a;
    const bool has_ack = parsed->header.has(TcpHeader::flag_ack);
    log_.push_back({.from_a = from_a_,
                    .header = parsed->header,
                    .sequence = parsed->header.sequence.value() - own,
                    .acknowledgement = has_ack ? parsed->header.acknowledgement.value() - peers : 0,
                    .payload_bytes = parsed->payload.size(),
                    .why = why,
                    .at = now_,
                    .bytes = segment_});
  }

 private:
  bool from_a_;
  Time now_;
  std::vector<Sent>& log_;
  Bytes segment_;
};

}  // namespace

Bytes pattern(std::size_t bytes, unsigned seed) {
  Prng prng(seed);
  Bytes filled(bytes);
  std::ranges::generate(filled, [&] { return static_cast<std::byte>(prng.next()); });
  return filled;
}

std::string describe(const Sent& sent) {
  std::string text = sent.from_a ? "a" : "b";
  if (sent.has(TcpHeader::flag_rst)) {
    return text + " RST";
  }
  text += sent.has(TcpHeader::flag_syn) ? " SYN" : sent.has(TcpHeader::flag_fin) ? " FIN" : "";
  const bool takes_space = sent.payload_bytes > 0 || text.size() > 1;
  if (takes_space) {
    text += fmt::format(" {}", sent.sequence);
  }
  if (sent.payload_bytes > 0) {
    text += fmt::format("+{}", sent.payload_bytes);
  }
  if (sent.has(TcpHeader::flag_ack)) {
    text += fmt::format(" ACK {}", sent.acknowledgement);
  }
  switch (sent.why) {
    case inet::TcpResend::none:
      return text;
    case inet::TcpResend::timeout:
      return text + " (timeout)";
    case inet::TcpResend::duplicate_acks:
      return text + " (duplicate ACKs)";
  }
  return text;
}

TcpSettings TcpPair::settings_of_a() {
  return {.local_port = 40'000, .peer_port = 4420, .initial_sequence = inet::TcpSeq(initial_a)};
}

TcpSettings TcpPair::settings_of_b() {
  return {.local_port = 4420, .initial_sequence = inet::TcpSeq(initial_b)};
}

TcpPair::TcpPair(TcpSettings settings_a, TcpSettings settings_b) : a(settings_a), b(settings_b) {}

void TcpPair::open() {
  b.listen();
  a.connect();
  settle();
  REQUIRE(a.state() == inet::TcpState::established);
  REQUIRE(b.state() == inet::TcpState::established);
  log.clear();
}

void TcpPair::transmit(bool is_a) {
  TcpConnection& side = is_a ? a : b;
  const std::size_t before = log.size();
  Wire wire(is_a, now, log);
  std::uint32_t budget = 10'000;
  REQUIRE(side.poll_transmit(now, wire, budget) == inet::TcpTransmitted::idle);
  for (std::size_t i = before; i < log.size(); ++i) {
    for (const Duration time : network(log[i])) {
      under_way_.emplace(now + time, Arrival{.to_a = !is_a, .bytes = log[i].bytes});
    }
  }
}

void TcpPair::transmit() {
  transmit(true);
  transmit(false);
}

inet::TcpVerdict TcpPair::deliver(bool to_a, ByteView segment) {
  const auto parsed = inet::parse_tcp(segment);
  REQUIRE(parsed);
  return (to_a ? a : b).on_segment(now, *parsed);
}

bool TcpPair::step(Time limit, bool with_timers) {
  const Time arrival = under_way_.empty() ? time_never : under_way_.begin()->first;
  const Time timer = with_timers ? std::min(a.next_timeout(), b.next_timeout()) : time_never;
  const Time next = std::min(arrival, timer);
  if (next == time_never || next > limit) {
    return false;
  }
  now = std::max(now, next);
  if (arrival <= timer) {
    const auto node = under_way_.extract(under_way_.begin());
    static_cast<void>(deliver(node.mapped().to_a, node.mapped().bytes));
  } else {
    a.on_timer(now);
    b.on_timer(now);
  }
  return true;
}

bool TcpPair::run(const std::function<bool()>& done, Duration limit) {
  const Time end = now + limit;
  transmit();
  while (!done()) {
    if (!step(end, true)) {
      return false;
    }
    transmit();
  }
  return true;
}

void TcpPair::settle() {
  transmit();
  while (step(time_never, false)) {
    transmit();
  }
}

void TcpPair::advance(Duration time) {
  const Time end = now + time;
  transmit();
  while (step(end, true)) {
    transmit();
  }
  now = end;
}

Bytes TcpPair::read(TcpConnection& side) {
  Bytes all;
  while (!side.readable().empty()) {
    const ByteView piece = side.readable();
    all.insert(all.end(), piece.begin(), piece.end());
    side.consume(piece.size());
  }
  return all;
}

Bytes TcpPair::forged(bool to_a, std::uint8_t flags, std::int64_t sequence,
                      std::int64_t acknowledgement, ByteView payload, std::uint16_t window) const {
  TcpHeader header;
  header.source_port = to_a ? 4420 : 40'000;
  header.destination_port = to_a ? 40'000 : 4420;
  header.sequence = static_cast<std::uint32_t>((to_a ? initial_b : initial_a) + sequence);
  header.acknowledgement =
      static_cast<std::uint32_t>((to_a ? initial_a : initial_b) + acknowledgement);
  header.data_offset = inet::tcp_header_bytes / 4 << 4;
  header.flags = flags;
  header.window = window;
  Bytes bytes(inet::tcp_header_bytes + payload.size());
  write_struct(MutableBytes(bytes), header);
  std::ranges::copy(payload, bytes.begin() + inet::tcp_header_bytes);
  return bytes;
}

Lines TcpPair::lines() const {
  Lines all;
  std::ranges::transform(log, std::back_inserter(all), describe);
  return all;
}

}  // namespace verbena::test
