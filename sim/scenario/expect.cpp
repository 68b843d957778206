#include "sim/scenario/expect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>

#include "base/near_miss.h"
#include "faults/units.h"
#include "sim/scenario/fields.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t u32_max = std::numeric_limits<std::uint32_t>::max();

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

class Checker {
 public:
  Checker(Stage& stage, const Story& story) : stage_(stage), story_(story) {}

  std::vector<Mismatch> check() {
    const Expectations& expect = stage_.scenario().expect;
    if (!story_.is_told()) {
      const Line& step = story_.waiting_step();
      mismatch(step.place(), fmt::format("The story stands still at '{}'.", step.text()));
    }
    check_packets(expect.packets);
    check_completions(expect.completions);
    check_states(expect.states);
    check_events(expect.events);
    check_counters(expect.counters);
    check_memory(expect.memory);
    check_end(expect.ends);
    return std::move(mismatches_);
  }

 private:
  void mismatch(Place place, std::string message, std::optional<std::size_t> event = std::nullopt) {
    mismatches_.push_back({place, std::move(message), event});
  }

  void check_packets(const Expectations::Lines& lines);
  std::optional<std::string> compare_packet(Line line, const TraceEvent& event);
  void check_completions(const Expectations::Lines& lines);
  std::optional<std::string> compare_completion(Line& line, const Completion& completion);
  void check_states(const Expectations::Lines& lines);
  void check_events(const Expectations::Lines& lines);
  void check_counters(const Expectations::Lines& lines);
  void check_memory(const Expectations::Lines& lines);
  void check_end(const std::optional<Line>& line);

  [[nodiscard]] const std::vector<TraceEvent>& trace() {
    return stage_.simulation().trace().events();
  }

  Stage& stage_;
  const Story& story_;
  std::vector<Mismatch> mismatches_;
  std::map<std::uint64_t, std::string_view> lost_;
};

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
  if (wanted != "ack" && wanted != "nak" && wanted != "rnr_nak") {
    static_cast<void>(opcode_of(name));
  }
  std::optional<std::string> difference;
  const auto note = [&](bool differs, std::string text) {
    if (differs && !difference) {
      difference = std::move(text);
    }
  };
  note(stage_.hosts()[from].spec->gid != packet.source ||
           stage_.hosts()[to].spec->gid != packet.destination,
       "it goes another way");
  const std::string got = short_name(packet);
  note(wanted != lower(got) && wanted != ib::opcode_identifier(packet.fields.opcode),
       fmt::format("it is {}", got));
  if (const auto psn = line.take("psn")) {
    const End* const end = stage_.end_at(packet.destination, packet.fields.dest_qpn);
    Psn first;
    if (end != nullptr) {
      first = packet.info().is_response() ? end->first_psn : stage_.peer_of(*end).first_psn;
    }
    const Psn expected = psn_of(*psn, first);
    note(expected != packet.fields.psn,
         fmt::format("psn is {}, expected {}", packet.fields.psn.value(), expected.value()));
  }
  if (auto fields = compare_fields(line, stage_, packet)) {
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

/// Packets in the order of sending; "..." stands for any number of packets.
void Checker::check_packets(const Expectations::Lines& lines) {
  if (!lines) {
    return;
  }
  std::vector<std::size_t> sent;
  for (std::size_t i = 0; i < trace().size(); ++i) {
    if (trace()[i].kind == TraceKind::sent) {
      sent.push_back(i);
    } else if (trace()[i].kind == TraceKind::lost) {
      lost_.emplace(trace()[i].frame, trace()[i].text);
    }
  }
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
      const auto event = at < sent.size() ? std::optional(sent[at])
                         : sent.empty()   ? std::nullopt
                                          : std::optional(sent.back());
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
    mismatch(place, fmt::format("{} more packets are sent.", sent.size() - at), sent[at]);
  }
}

std::optional<std::string> Checker::compare_completion(Line& line, const Completion& completion) {
  std::optional<std::string> difference;
  const auto note = [&](bool differs, std::string_view what) {
    if (differs && !difference) {
      difference = std::string(what);
    }
  };
  while (const auto word = line.try_next()) {
    const bool is_opcode = word->text == name_of(completion.opcode);
    const bool is_status = word->text == verbena::name_of(completion.status);
    note(!is_opcode && !is_status, fmt::format("it isn't {}", word->text));
  }
  if (const auto bytes = line.take("bytes")) {
    note(size_of(*bytes, u32_max) != completion.byte_len,
         fmt::format("byte_len is {}", completion.byte_len));
  }
  const auto imm = line.take("imm");
  note(imm.has_value() != completion.with_imm,
       imm ? "it has no immediate data" : "it has immediate data");
  if (imm && completion.with_imm) {
    note(number_of(*imm, u32_max) != completion.imm_or_rkey,
         fmt::format("imm is {:#x}", completion.imm_or_rkey));
  }
  line.end();
  return difference;
}

/// By host, in order; "HOST ..." stands for any number, ID..ID for one each.
void Checker::check_completions(const Expectations::Lines& lines) {
  if (!lines) {
    return;
  }
  std::vector<std::size_t> at(stage_.hosts().size());
  std::vector<bool> open(stage_.hosts().size());
  for (const Line& written : *lines) {
    Line line = written;
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const auto& done = story_.completions()[host];
    const Word id = line.next("the work request's ID");
    if (id.text == "...") {
      open[host] = true;
      line.end();
      continue;
    }
    const auto dots = id.text.find("..");
    const std::uint64_t first = number_of({id.text.substr(0, dots), id.place}, u64_max);
    const std::uint64_t last = dots == std::string::npos
                                   ? first
                                   : number_of({id.text.substr(dots + 2), id.place}, u64_max - 1);
    for (std::uint64_t wr_id = first; wr_id <= last; ++wr_id) {
      while (open[host] && at[host] < done.size() && done[at[host]].wr_id != wr_id) {
        ++at[host];
      }
      open[host] = false;
      if (at[host] >= done.size()) {
        mismatch(line.place(),
                 fmt::format("'{}': it never completes (wr {}).", line.text(), wr_id));
        return;
      }
      const Completion& completion = done[at[host]++];
      Line rest = line;
      auto difference = compare_completion(rest, completion);
      if (completion.wr_id != wr_id) {
        difference = fmt::format("it is of wr {}", completion.wr_id);
      }
      if (difference) {
        mismatch(line.place(),
                 fmt::format("Completion {} of the host isn't '{}': {} ({}).", at[host],
                             line.text(), *difference, describe(completion)));
        return;
      }
    }
  }
  for (std::size_t host = 0; host < at.size(); ++host) {
    const auto& done = story_.completions()[host];
    if (!open[host] && at[host] < done.size()) {
      mismatch(lines->empty() ? Place{} : lines->back().place(),
               fmt::format("{} has {} more completions: {}.", stage_.hosts()[host].spec->name,
                           done.size() - at[host], describe(done[at[host]])));
    }
  }
}

void Checker::check_states(const Expectations::Lines& lines) {
  for (Line line : lines.value_or(std::vector<Line>{})) {
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const Word state = line.next("a state");
    Connection& connection = stage_.connection(host, line.take("via"), line.place());
    line.end();
    const std::string got = lower(nic::name_of(nic::state_of(*stage_.end_of(connection, host).qp)));
    if (got != state.text) {
      mismatch(line.place(), fmt::format("The queue pair of {} is {}, expected {}.",
                                         stage_.hosts()[host].spec->name, got, state.text));
    }
  }
}

void Checker::check_events(const Expectations::Lines& lines) {
  if (!lines) {
    return;
  }
  std::vector<std::size_t> at(stage_.hosts().size());
  for (Line line : *lines) {
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const Word name = line.next("an event");
    line.end();
    const auto& events = story_.events()[host];
    const std::string got =
        at[host] < events.size() ? lower(nic::name_of(events[at[host]])) : "nothing";
    ++at[host];
    if (got != name.text) {
      mismatch(line.place(), fmt::format("Event {} of {} is {}, expected {}.", at[host],
                                         stage_.hosts()[host].spec->name, got, name.text));
      return;
    }
  }
  for (std::size_t host = 0; host < at.size(); ++host) {
    const auto& events = story_.events()[host];
    if (at[host] < events.size()) {
      mismatch(lines->empty() ? Place{} : lines->back().place(),
               fmt::format("{} has {} more events: {}.", stage_.hosts()[host].spec->name,
                           events.size() - at[host], lower(nic::name_of(events[at[host]]))));
    }
  }
}

/// "client retransmitted_pkts=2 sent_pkts>=7".
void Checker::check_counters(const Expectations::Lines& lines) {
  for (Line line : lines.value_or(std::vector<Line>{})) {
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const Counters& counters = stage_.hosts()[host].node->nic().counters();
    for (std::size_t i = 0; i < counter_count; ++i) {
      const std::string name(counter_names[i]);
      const std::uint64_t got = counters[static_cast<Counter>(i)];
      const auto differs = [&](std::string_view relation, std::uint64_t expected) {
        mismatch(line.place(),
                 fmt::format("{} of {} is {}, expected {}{}.", name,
                             stage_.hosts()[host].spec->name, got, relation, expected));
      };
      if (const auto exact = line.take(name)) {
        if (const auto expected = number_of(*exact, u64_max); got != expected) {
          differs("", expected);
        }
      }
      if (const auto least = line.take(name + ">")) {
        if (const auto expected = number_of(*least, u64_max); got < expected) {
          differs("at least ", expected);
        }
      }
      if (const auto most = line.take(name + "<")) {
        if (const auto expected = number_of(*most, u64_max); got > expected) {
          differs("at most ", expected);
        }
      }
    }
    line.end();
  }
}

/// "target == source length=2500", "target+8 == zero length=8", "target == u64:5".
void Checker::check_memory(const Expectations::Lines& lines) {
  for (Line line : lines.value_or(std::vector<Line>{})) {
    const Word left = line.next("a memory");
    const Word is = line.next("==");
    if (is.text != "==") {
      fail(is, "Memory is compared with '=='.");
    }
    const Word right = line.next("what it should hold");
    const Location at = stage_.location(left);
    const auto length = line.take("length");
    const bool is_number = right.text.starts_with("u64:");
    const std::uint64_t bytes = is_number ? 8
                                : length  ? size_of(*length, at.bytes_left())
                                          : at.bytes_left();
    line.end();
    const ByteView got = stage_.bytes(at, bytes);
    std::vector<std::byte> expected(bytes);
    if (is_number) {
      const std::uint64_t value = number_of({right.text.substr(4), right.place}, u64_max);
      std::ranges::copy(bytes_of(value), expected.begin());
    } else if (right.text == "count") {
      for (std::size_t i = 0; i < bytes; ++i) {
        expected[i] = static_cast<std::byte>(i);
      }
    } else if (right.text.starts_with("0x")) {
      std::ranges::fill(expected, static_cast<std::byte>(number_of(right, 0xFF)));
    } else if (right.text != "zero") {
      const ByteView other = stage_.bytes(stage_.location(right), bytes);
      std::ranges::copy(other, expected.begin());
    }
    const auto differs = std::ranges::mismatch(got, expected);
    if (differs.in1 != got.end()) {
      mismatch(line.place(), fmt::format("Byte {} of '{}' is {:#04x}, expected {:#04x}.",
                                         differs.in1 - got.begin(), left.text,
                                         std::to_integer<unsigned>(*differs.in1),
                                         std::to_integer<unsigned>(*differs.in2)));
    }
  }
}

/// "1ms..2ms": when the last thing happens.
void Checker::check_end(const std::optional<Line>& line) {
  if (!line) {
    return;
  }
  const auto dots = line->text().find("..");
  if (dots == std::string::npos) {
    fail(line->place(), "ends is a range of time: \"1ms..2ms\".");
  }
  const Duration first = duration_of({line->text().substr(0, dots), line->place()});
  const Duration last = duration_of({line->text().substr(dots + 2), line->place()});
  const Duration got = trace().empty() ? Duration(0) : trace().back().time.time_since_epoch();
  if (got < first || got > last) {
    mismatch(line->place(), fmt::format("The story ends at {}, expected {}.",
                                        faults::duration_text(got), line->text()));
  }
}

}  // namespace

std::vector<Mismatch> check_expectations(Stage& stage, const Story& story) {
  return Checker(stage, story).check();
}

}  // namespace verbena::sim
