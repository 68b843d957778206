// Expected packets against those that were sent.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "faults/units.h"
#include "sim/scenario/checker.h"
#include "sim/scenario/fields.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();

/// "R_Key and range" is written r_key_and_range.
std::string check_identifier(RxCheck check) {
  std::string name = lower(name_of(check));
  std::ranges::replace(name, ' ', '_');
  return name;
}

}  // namespace

/// check=NAME expected=N got=N: why the receiver's NIC refused it, or took it for a duplicate.
std::optional<std::string> Checker::compare_verdict(Line& line, const TraceEvent& event,
                                                    Psn first) {
  const auto check = line.take("check");
  const auto expected = line.take("expected");
  const auto got = line.take("got");
  const auto found = verdicts_.find(event.frame);
  const RxVerdict verdict = found != verdicts_.end() ? found->second : RxVerdict{};
  if (check && check->text != check_identifier(verdict.check)) {
    return verdict.check == RxCheck::none
               ? "its receiver has nothing against it"
               : fmt::format("it meets the check {}", check_identifier(verdict.check));
  }
  const auto differs = [&](const std::optional<Word>& word, std::uint64_t value) {
    if (!word) {
      return false;
    }
    const bool is_psn = verdict.check == RxCheck::psn;
    return value != (is_psn ? psn_of(*word, first).value() : stage_.value(*word, u64_max));
  };
  if (differs(expected, verdict.expected) || differs(got, verdict.got)) {
    return fmt::format("its receiver expected {:#x} and got {:#x}", verdict.expected, verdict.got);
  }
  return std::nullopt;
}

/// Header fields of a RoCE packet, and what its receiver says.
std::optional<std::string> Checker::compare_transport(Line& line, const TraceEvent& event) {
  const PacketSummary& packet = event.packet;
  const End* const end = stage_.end_at(packet.destination, packet.fields.dest_qpn);
  Psn first;
  if (end != nullptr) {
    first = packet.info().is_response() ? end->first_psn : stage_.peer_of(*end).first_psn;
  }
  std::optional<std::string> difference;
  if (const auto psn = line.take("psn")) {
    const Psn expected = psn_of(*psn, first);
    if (expected != packet.fields.psn) {
      difference =
          fmt::format("psn is {}, expected {}", packet.fields.psn.value(), expected.value());
    }
  }
  auto fields = compare_fields(line, stage_, packet);
  auto verdict = compare_verdict(line, event, first);
  return difference ? difference : fields ? fields : verdict;
}

/// The same for a segment of iWARP.
std::optional<std::string> Checker::compare_segment(Line& line, const TraceEvent& event) {
  const PacketSummary& packet = event.packet;
  std::array<std::uint32_t, 2> first{};
  if (packet.segment) {
    const End* const from = stage_.end_at_port(packet.source, packet.segment->source_port);
    const End* const to = stage_.end_at_port(packet.destination, packet.segment->destination_port);
    first = {from != nullptr ? from->first_psn.value() : 0,
             to != nullptr ? to->first_psn.value() : 0};
  }
  auto fields = compare_segment_fields(line, stage_, packet, first);
  auto verdict = compare_verdict(line, event, Psn());
  return fields ? fields : verdict;
}

/// The first difference between a packet and a line, in words.
std::optional<std::string> Checker::compare_packet(Line line, const TraceEvent& event) {
  const PacketSummary& packet = event.packet;
  const std::size_t from = stage_.host(line.next("the sender"));
  const Word arrow = line.next(">");
  if (arrow.text != ">") {
    fail(arrow, "A packet is written 'client > server NAME key=value ...'.");
  }
  const std::size_t to = stage_.host(line.next("the receiver"));
  const Word name = line.next("the packet's name");
  const std::string wanted = lower(name.text);
  const bool is_iwarp = stage_.scenario().technology == nic::Technology::iwarp;
  if (is_iwarp) {
    check_segment_name(name, wanted);
  } else if (wanted != "ack" && wanted != "nak" && wanted != "rnr_nak" &&
             !wanted.starts_with("cm_")) {
    static_cast<void>(opcode_of(name));
  }
  std::optional<std::string> difference;
  const auto note = [&](bool differs, std::string text) {
    if (differs && !difference) {
      difference = std::move(text);
    }
  };
  note(!stage_.has_address(from, packet.source) || !stage_.has_address(to, packet.destination),
       "it goes another way");
  const bool alternate = line.flag("alternate");
  note(alternate != (packet.destination != stage_.hosts()[to].spec->gid),
       alternate ? "it goes by the first way" : "it goes by the alternate way");
  const std::string got = short_name(packet);
  note(wanted != lower(got) && (is_iwarp || wanted != ib::opcode_identifier(packet.fields.opcode)),
       fmt::format("it is {}", got));
  if (auto fields = is_iwarp ? compare_segment(line, event) : compare_transport(line, event)) {
    note(true, *std::move(fields));
  }
  if (const auto at = line.take("at")) {
    const Duration expected = duration_of(*at);
    note(event.time != Time{} + expected,
         fmt::format("it is sent at {}", faults::duration_text(event.time.time_since_epoch())));
  }
  const bool lost = line.flag("lost");
  note(lost != lost_.contains(event.frame), lost ? "it isn't lost" : "it is lost");
  const bool again = line.flag("again");
  note(again != (event.note.kind == PacketNote::Kind::retransmission),
       again ? "it isn't a retransmission" : "it is a retransmission");
  line.end();
  return difference;
}

void Checker::note_fates() {
  for (const TraceEvent& event : trace()) {
    if (event.kind == TraceKind::lost) {
      lost_.insert(event.frame);
    } else if (event.kind == TraceKind::arrived) {
      verdicts_.emplace(event.frame, event.verdict);
    }
  }
}

/// Packets in the order of sending; "..." stands for any number of packets.
void Checker::check_packets(const Expectations::Lines& lines) {
  if (!lines) {
    return;
  }
  std::vector<std::size_t> sent;
  for (std::size_t i = 0; i < trace().size(); ++i) {
    if (trace()[i].kind == TraceKind::sent) {
      sent.push_back(i);
    }
  }
  note_fates();
  std::size_t at = 0;
  bool skipping = false;
  for (const Line& line : *lines) {
    if (line.text() == "...") {
      skipping = true;
      continue;
    }
    std::optional<std::string> difference = "no packet is left";
    std::size_t candidate = at;
    while (candidate < sent.size()) {
      difference = compare_packet(line, trace()[sent[candidate]]);
      if (!difference || !skipping) {
        break;
      }
      ++candidate;
    }
    if (difference) {
      const auto event = at < sent.size() ? std::optional(sent[at]) : std::nullopt;
      mismatch(line.place(),
               skipping
                   ? fmt::format("No packet here is '{}'.", line.text())
                   : fmt::format("Packet {} isn't '{}': {}.", at + 1, line.text(), *difference),
               event);
      return;
    }
    at = candidate + 1;
    skipping = false;
  }
  if (at < sent.size() && !skipping) {
    const Place place = lines->empty() ? Place{} : lines->back().place();
    mismatch(place, fmt::format("{} more packets are sent than expected.", sent.size() - at),
             sent[at]);
  }
}

}  // namespace verbena::sim
