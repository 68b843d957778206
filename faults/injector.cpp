#include "faults/injector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "faults/units.h"
#include "proto/ib_bth/packet.h"
#include "proto/inet/headers.h"
#include "proto/inet/tcp/frame.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"
#include "proto/roce/icrc.h"

namespace verbena::faults {

/// What the rules ask of a frame, found out once.
struct FaultInjector::Facts {
  Direction direction{};
  /// RoCE or TCP: the addresses are known.
  bool is_addressed = false;
  Gid source;
  Gid destination;
  /// Where the transport headers begin, or the payload of a TCP segment; 0 if it is neither.
  std::size_t transport_offset = 0;
  bool is_transport = false;
  ib::Opcode opcode{};
  Qpn qpn{};
  Psn psn;
  Psn first_psn;
  std::optional<ib::AethKind> aeth;
  /// The FPDUs that a TCP segment begins with.
  std::bitset<iwarp::segment_names.size()> segments;
};

namespace {

/// Flows whose first PSN is remembered; a hostile sender can't make it more.
constexpr std::size_t flows_max = 1U << 16;

/// Spreads a rule's number over the seed: SplitMix64's constant.
constexpr std::uint64_t golden_gamma = 0x9E37'79B9'7F4A'7C15;

bool in_range(const PsnRange& range, Psn psn, Psn first_psn) {
  const std::uint32_t origin = range.relative ? first_psn.value() : 0;
  const std::uint32_t at = (psn.value() - origin - range.first.value()) & Psn::mask;
  return at <= ((range.last.value() - range.first.value()) & Psn::mask);
}

void fix_icrc(MutableBytes frame) {
  const auto parsed = roce::parse_frame(frame);
  if (parsed) {
    const auto offset = static_cast<std::size_t>(parsed->packet.data() - frame.data());
    roce::store_icrc(frame.subspan(offset + parsed->packet.size() - roce::icrc_bytes),
                     parsed->computed_icrc());
  }
}

/// Sets ECN to 3. The ICRC doesn't cover it; the IPv4 header checksum does.
void mark_congestion(MutableBytes frame) {
  const auto mark_ipv4 = [frame](std::size_t offset) {
    auto header = read_struct<inet::Ipv4Header>(frame.subspan(offset));
    header.type_of_service = header.type_of_service | 3U;
    header.checksum = inet::ipv4_checksum(header);
    write_struct(frame.subspan(offset), header);
  };
  // Traffic class: the low half of byte 0 and the high half of byte 1 (RFC 8200, 3).
  const auto mark_ipv6 = [frame](std::size_t offset) { frame[offset + 1] |= std::byte{0x30}; };
  if (const auto tcp = inet::parse_tcp_frame(frame)) {
    return inet::ipv4_of(tcp->source) ? mark_ipv4(tcp->segment_offset - inet::ipv4_header_bytes)
                                      : mark_ipv6(tcp->segment_offset - inet::ipv6_header_bytes);
  }
  const auto parsed = roce::parse_frame(frame);
  if (!parsed) {
    return;
  }
  const auto offset = static_cast<std::size_t>(parsed->packet.data() - frame.data());
  if (parsed->version == roce::Version::v2_ipv4) {
    mark_ipv4(offset);
  } else {
    mark_ipv6(offset);
  }
}

}  // namespace

void alter(const Decision& decision, MutableBytes frame) {
  if (decision.kind == ActionKind::mark) {
    mark_congestion(frame);
  }
  if (decision.kind != ActionKind::corrupt || decision.byte >= frame.size()) {
    return;
  }
  frame[decision.byte] ^= std::byte{decision.mask};
  if (decision.fix_icrc) {
    fix_icrc(frame);
  }
}

FaultInjector::FaultInjector(RuleSet rules, std::uint64_t seed, Time start)
    : seed_(seed), start_(start) {
  add(std::move(rules));
}

void FaultInjector::add(RuleSet rules) {
  for (Rule& rule : rules) {
    prngs_.emplace_back(seed_ + golden_gamma * (rules_.size() + 1));
    rules_.push_back(std::move(rule));
  }
  counters_.resize(rules_.size());
}

FaultInjector::Facts FaultInjector::facts_of(Direction direction, ByteView frame) {
  Facts facts;
  facts.direction = direction;
  if (const auto tcp = inet::parse_tcp_frame(frame)) {
    facts.is_addressed = true;
    facts.source = roce::gid_from_ipv6(tcp->source);
    facts.destination = roce::gid_from_ipv6(tcp->destination);
    ByteView payload = tcp->segment.payload;
    facts.transport_offset = payload.empty()
                                 ? tcp->segment_offset
                                 : static_cast<std::size_t>(payload.data() - frame.data());
    while (const auto fpdu = iwarp::glimpse_fpdu(payload)) {
      if (fpdu->name) {
        facts.segments.set(*fpdu->name);
      }
    }
    return facts;
  }
  const auto parsed = roce::parse_frame(frame);
  if (!parsed) {
    return facts;
  }
  facts.is_addressed = true;
  facts.source = parsed->source;
  facts.destination = parsed->destination;
  facts.transport_offset = static_cast<std::size_t>(parsed->transport.data() - frame.data());
  const auto packet = ib::PacketView::parse(parsed->transport);
  if (!packet) {
    return facts;
  }
  facts.is_transport = true;
  facts.opcode = packet->opcode();
  facts.qpn = packet->dest_qpn();
  facts.psn = packet->psn();
  if (packet->has(ib::ExtHeader::aeth)) {
    facts.aeth = packet->aeth().syndrome().kind();
  }
  const Flow flow{facts.source, facts.destination, facts.qpn, packet->info().is_response()};
  facts.first_psn = facts.psn;
  if (const auto known = first_psns_.find(flow); known != first_psns_.end()) {
    facts.first_psn = known->second;
  } else if (first_psns_.size() < flows_max) {
    first_psns_.emplace(flow, facts.psn);
  }
  return facts;
}

bool FaultInjector::fits(const Rule& rule, Time now, const Facts& facts) const {
  const Match& match = rule.match;
  const Duration age = now - start_;
  if (age < match.after || age >= match.until ||
      (match.direction && *match.direction != facts.direction)) {
    return false;
  }
  if ((match.source && (!facts.is_addressed || *match.source != facts.source)) ||
      (match.destination && (!facts.is_addressed || *match.destination != facts.destination))) {
    return false;
  }
  if (!match.qpn && !match.opcodes && !match.aeth && !match.psn) {
    return true;
  }
  if (match.opcodes && (match.segments & facts.segments).any()) {
    return !match.qpn && !match.aeth && !match.psn;
  }
  return facts.is_transport && (!match.qpn || *match.qpn == facts.qpn) &&
         (!match.opcodes || match.opcodes->test(static_cast<std::size_t>(facts.opcode))) &&
         (!match.aeth || match.aeth == facts.aeth) &&
         (!match.psn || in_range(*match.psn, facts.psn, facts.first_psn));
}

/// Counts a frame that fits, and tells whether it is one that the rule takes.
bool FaultInjector::takes(std::size_t index) {
  const Match& match = rules_[index].match;
  RuleCounters& counters = counters_[index];
  const std::uint64_t number = counters.matched++;
  if (number < match.skip || (number - match.skip) % match.every != 0 ||
      counters.taken >= match.count || !prngs_[index].chance(match.chance)) {
    return false;
  }
  ++counters.taken;
  return true;
}

Decision FaultInjector::carry_out(std::size_t index, const Facts& facts, ByteView frame) {
  const Action& action = rules_[index].action;
  Prng& prng = prngs_[index];
  Decision decision{.kind = action.kind, .rule = index};
  switch (action.kind) {
    case ActionKind::pass:
    case ActionKind::drop:
    case ActionKind::mark:
      break;
    case ActionKind::delay:
      decision.delay = action.delay + Duration(static_cast<std::int64_t>(prng.below(
                                          static_cast<std::uint64_t>(action.jitter.count()) + 1)));
      break;
    case ActionKind::duplicate:
      decision.delay = action.delay;
      decision.copies = action.copies;
      break;
    case ActionKind::reorder:
      decision.behind = action.behind;
      break;
    case ActionKind::corrupt: {
      const std::size_t room = frame.size() - facts.transport_offset;
      decision.byte =
          action.byte ? *action.byte
                      : facts.transport_offset +
                            static_cast<std::size_t>(prng.below(std::max<std::size_t>(room, 1)));
      decision.mask = action.mask ? *action.mask : static_cast<std::uint8_t>(1U << prng.below(8));
      decision.fix_icrc = action.fix_icrc;
      break;
    }
  }
  return decision;
}

Decision FaultInjector::decide(Time now, Direction direction, ByteView frame) {
  if (rules_.empty()) {
    return {};
  }
  const Facts facts = facts_of(direction, frame);
  for (std::size_t index = 0; index < rules_.size(); ++index) {
    if (fits(rules_[index], now, facts) && takes(index)) {
      return carry_out(index, facts, frame);
    }
  }
  return {};
}

std::string FaultInjector::describe(const Decision& decision) const {
  if (!decision.rule) {
    return {};
  }
  std::string what;
  switch (decision.kind) {
    case ActionKind::pass:
      what = "let go";
      break;
    case ActionKind::drop:
      what = "dropped";
      break;
    case ActionKind::delay:
      what = fmt::format("delayed by {}", duration_text(decision.delay));
      break;
    case ActionKind::duplicate:
      what = fmt::format("sent {} times", decision.copies + 1);
      break;
    case ActionKind::corrupt:
      what = fmt::format("byte {} changed by {:#04x}", decision.byte, decision.mask);
      break;
    case ActionKind::reorder:
      what = fmt::format("held back behind {}", decision.behind);
      break;
    case ActionKind::mark:
      what = "marked as congested";
      break;
  }
  return fmt::format("{} by rule {} ({})", what, *decision.rule + 1, rules_[*decision.rule].text);
}

}  // namespace verbena::faults
