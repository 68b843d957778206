#include "tests/support/pair.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "base/crc.h"
#include "proto/roce/icrc.h"

namespace verbena::test {

Match any_packet() {
  return [](const WirePacket&) { return true; };
}
Match nth(std::uint64_t index) {
  return [index](const WirePacket& packet) { return packet.index == index; };
}
Match has_psn(std::uint32_t psn) {
  return [psn](const WirePacket& packet) { return packet.fields.psn.value() == psn; };
}
Match has_opcode(ib::Opcode opcode) {
  return [opcode](const WirePacket& packet) { return packet.fields.opcode == opcode; };
}

Pair::Pair(const PairOptions& options)
    : a(1, options.a),
      b(2, options.b),
      options_(options),
      end_a_{.cable = Cable(*this, Side::a), .faults = {}, .verdicts = {}},
      end_b_{.cable = Cable(*this, Side::b), .faults = {}, .verdicts = {}} {}

Connection Pair::connect(const EndOptions& end_a, const EndOptions& end_b) {
  const Connection qps{&create_qp(a, end_a), &create_qp(b, end_b)};
  to_init(a, now_, *qps.a, end_a);
  to_init(b, now_, *qps.b, end_b);
  to_rtr(a, now_, *qps.a, end_a, b.gid(end_a.sgid_index), nic::qpn_of(*qps.b), end_b.sq_psn);
  to_rtr(b, now_, *qps.b, end_b, a.gid(end_b.sgid_index), nic::qpn_of(*qps.a), end_a.sq_psn);
  to_rts(a, now_, *qps.a, end_a);
  to_rts(b, now_, *qps.b, end_b);
  return qps;
}

Result<void, PostError> Pair::try_post(Side side, nic::Qp& qp, const Work& work) {
  SendWr wr = static_cast<const SendWr&>(work);
  wr.sges = work.pieces;
  return host(side).nic.post_send(now_, qp, wr);
}

void Pair::post(Side side, nic::Qp& qp, const Work& work) { REQUIRE(try_post(side, qp, work)); }

void Pair::post_recv(Side side, nic::Qp& qp, std::uint64_t id, const std::vector<Piece>& into) {
  std::vector<Sge> sges;
  for (const Piece& piece : into) {
    sges.push_back(host(side).sge(piece));
  }
  REQUIRE(host(side).nic.post_recv(now_, qp, {.wr_id = id, .sges = sges}));
}

void Pair::drop(Side from, Match match, std::uint32_t times) {
  end(from).faults.push_back({std::move(match), times, {.drop = true}});
}
void Pair::duplicate(Side from, Match match, std::uint32_t times) {
  end(from).faults.push_back({std::move(match), times, {.extra_copies = 1}});
}
void Pair::delay(Side from, Match match, Duration extra, std::uint32_t times) {
  end(from).faults.push_back({std::move(match), times, {.extra_delay = extra}});
}
void Pair::corrupt(Side from, Match match, std::uint32_t times) {
  end(from).faults.push_back({std::move(match), times, {.corrupt = true}});
}
void Pair::set_unread(Side from, bool unread) { end(from).cable.unread = unread; }

void Pair::set_room(Side from, std::uint32_t frames) { end(from).cable.room = frames; }

MutableBytes Pair::Cable::reserve(const FrameRoute&, std::size_t bytes) {
  if (room == 0) {
    return {};
  }
  frame_.assign(bytes, std::byte{0xEE});
  return frame_;
}

void Pair::Cable::commit(const PacketNote& note) {
  if (room != always) {
    --room;
  }
  WirePacket packet = decode(from_, pair_.now_, frame_, note);
  packet.index = pair_.end(from_).packets++;
  pair_.take(std::move(packet));
}

Fate Pair::fate_of(const WirePacket& packet) {
  for (Fault& fault : end(packet.from).faults) {
    if (fault.times > 0 && fault.match(packet)) {
      fault.times -= fault.times == always ? 0 : 1;
      return fault.fate;
    }
  }
  return weather_ ? weather_(packet) : Fate{};
}

void Pair::take(WirePacket packet) {
  add_to_hash(packet);
  const Fate fate = fate_of(packet);
  if (!fate.drop) {
    std::vector<std::byte> frame = packet.frame;
    if (fate.corrupt) {
      frame[frame.size() - roce::icrc_bytes - 1] ^= std::byte{1};
    }
    for (std::uint32_t copy = 0; copy < fate.extra_copies; ++copy) {
      launch(other(packet.from), frame, fate.extra_delay);
    }
    launch(other(packet.from), std::move(frame), fate.extra_delay);
  }
  if (options_.keep_log) {
    log_.push_back(std::move(packet));
  }
}

void Pair::launch(Side to, std::vector<std::byte> frame, Duration delay) {
  Flight flight{now_ + options_.latency + delay, next_order_++, to, std::move(frame)};
  // Mostly the latest of all, so the search from the end is short.
  auto at = flights_.end();
  while (at != flights_.begin() && std::prev(at)->arrival > flight.arrival) {
    --at;
  }
  flights_.insert(at, std::move(flight));
}

void Pair::add_to_hash(const WirePacket& packet) {
  // FNV-1a over time, direction and the frame's CRC.
  constexpr std::uint64_t prime = 0x100'0000'01B3;
  const auto mix = [&](std::uint64_t value) { wire_hash_ = (wire_hash_ ^ value) * prime; };
  mix(static_cast<std::uint64_t>(packet.sent.time_since_epoch().count()));
  mix(static_cast<std::uint64_t>(packet.from));
  mix(crc32(0, packet.frame));
}

void Pair::transmit() {
  for (const Side side : {Side::a, Side::b}) {
    while (host(side).nic.poll_transmit(now_, end(side).cable) == nic::TransmitStatus::more) {
    }
  }
}

Time Pair::next_event() const {
  const Time arrival = flights_.empty() ? time_never : flights_.front().arrival;
  return std::min({arrival, a.nic.next_timeout(), b.nic.next_timeout()});
}

/// Lets happen what happens next; nothing if that is later than `until`.
void Pair::happen(Time until) {
  const Time next = next_event();
  if (next > until) {
    return;
  }
  now_ = std::max(now_, next);
  while (!flights_.empty() && flights_.front().arrival <= now_) {
    const Flight flight = std::move(flights_.front());
    flights_.pop_front();
    const RxVerdict verdict = host(flight.to).nic.on_frame(now_, flight.frame);
    if (verdict.kind != RxVerdict::Kind::accepted) {
      end(flight.to).verdicts.push_back(verdict);
    }
  }
  for (const Side side : {Side::a, Side::b}) {
    if (host(side).nic.next_timeout() <= now_) {
      host(side).nic.on_timer(now_, &end(side).cable);
    }
  }
}

bool Pair::step() {
  transmit();
  if (next_event() == time_never) {
    return false;
  }
  happen(time_never);
  transmit();
  return true;
}

namespace {

/// More than the longest honest test takes; a livelock ends here.
constexpr std::uint64_t steps_max = 20'000'000;

}  // namespace

void Pair::run_until_idle() {
  std::uint64_t steps = 0;
  while (step()) {
    REQUIRE(++steps < steps_max);
  }
}

void Pair::settle() {
  std::uint64_t steps = 0;
  transmit();
  while (!flights_.empty()) {
    step();
    REQUIRE(++steps < steps_max);
  }
}

void Pair::advance(Duration duration) {
  const Time until = now_ + duration;
  transmit();
  while (next_event() <= until) {
    happen(until);
    transmit();
  }
  now_ = until;
}

Lines Pair::wire(Side from) const {
  Lines lines;
  for (const WirePacket& packet : log_) {
    if (packet.from == from) {
      lines.push_back(to_text(packet));
    }
  }
  return lines;
}

Lines Pair::wire() const {
  Lines lines;
  for (const WirePacket& packet : log_) {
    lines.push_back((packet.from == Side::a ? "> " : "< ") + to_text(packet));
  }
  return lines;
}

}  // namespace verbena::test
