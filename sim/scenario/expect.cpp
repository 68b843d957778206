#include "sim/scenario/expect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "faults/units.h"
#include "sim/scenario/checker.h"
#include "sim/scenario/fields.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t u32_max = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::vector<Mismatch> Checker::check() {
  const Expectations& expect = stage_.scenario().expect;
  if (!story_.is_told()) {
    const Line& step = story_.waiting_step();
    mismatch(step.place(), fmt::format("The story stands still at '{}'.", step.text()));
  }
  check_packets(expect.packets);
  check_completions(expect.completions);
  check_states(expect.states);
  check_events(expect.events);
  check_connections(expect.connections);
  check_counters(expect.counters);
  check_memory(expect.memory);
  check_objects(expect.objects);
  check_end(expect.ends);
  return std::move(mismatches_);
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
  const auto key = line.take("invalidated");
  note(key.has_value() != completion.with_inv,
       key ? "it invalidated no key" : "it invalidated a key");
  if (key && completion.with_inv) {
    note(stage_.value(*key, u32_max) != completion.imm_or_rkey,
         fmt::format("it invalidated {:#x}", completion.imm_or_rkey));
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
      while (open[host] && at[host] < done.size() && done[at[host]].what.wr_id != wr_id) {
        ++at[host];
      }
      open[host] = false;
      if (at[host] >= done.size()) {
        mismatch(line.place(),
                 fmt::format("'{}': it never completes (wr {}).", line.text(), wr_id));
        return;
      }
      const auto& [completion, event] = done[at[host]++];
      Line rest = line;
      auto difference = compare_completion(rest, completion);
      if (completion.wr_id != wr_id) {
        difference = fmt::format("it is of wr {}", completion.wr_id);
      }
      if (difference) {
        mismatch(line.place(),
                 fmt::format("Completion {} of {} isn't '{}': {} ({}).", at[host], host_name(host),
                             line.text(), *difference, describe(completion)),
                 event);
        return;
      }
    }
  }
  for (std::size_t host = 0; host < at.size(); ++host) {
    const auto& done = story_.completions()[host];
    if (!open[host] && at[host] < done.size()) {
      mismatch(lines->empty() ? Place{} : lines->back().place(),
               fmt::format("{} has {} more completions than expected: {}.", host_name(host),
                           done.size() - at[host], describe(done[at[host]].what)),
               done[at[host]].event);
    }
  }
}

void Checker::check_states(const Expectations::Lines& lines) {
  for (Line line : lines.value_or(std::vector<Line>{})) {
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const Word state = line.next("a state");
    const auto path = line.take("path");
    Connection& connection = stage_.connection(host, line.take("via"), line.place());
    line.end();
    const nic::Qp* const qp = stage_.end_of(connection, host).qp;
    const std::string got = qp != nullptr ? lower(nic::name_of(nic::state_of(*qp))) : "closed";
    if (got != state.text) {
      mismatch(
          line.place(),
          fmt::format("The queue pair of {} is {}, expected {}.", host_name(host), got, state.text),
          last_event(TraceKind::state, host));
    }
    if (path && qp != nullptr) {
      check_path_state(*path, host, *qp);
    }
  }
}

/// "client rts path=armed".
void Checker::check_path_state(const Word& expected, std::size_t host, const nic::Qp& qp) {
  const auto state = stage_.hosts()[host].node->nic().query_qp(qp).path_mig_state;
  const std::string_view got = state == nic::PathMigState::migrated ? "migrated"
                               : state == nic::PathMigState::rearm  ? "rearm"
                                                                    : "armed";
  if (got != expected.text) {
    mismatch(expected.place, fmt::format("The path of {} is {}, expected {}.", host_name(host), got,
                                         expected.text));
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
    const bool came = at[host] < events.size();
    const std::string got = came ? lower(nic::name_of(events[at[host]].what)) : "nothing";
    if (got != name.text) {
      mismatch(line.place(),
               fmt::format("Event {} of {} is {}, expected {}.", at[host] + 1, host_name(host), got,
                           name.text),
               came ? std::optional(events[at[host]].event) : std::nullopt);
      return;
    }
    ++at[host];
  }
  for (std::size_t host = 0; host < at.size(); ++host) {
    const auto& events = story_.events()[host];
    if (at[host] < events.size()) {
      mismatch(lines->empty() ? Place{} : lines->back().place(),
               fmt::format("{} has {} more events than expected: {}.", host_name(host),
                           events.size() - at[host], lower(nic::name_of(events[at[host]].what))),
               events[at[host]].event);
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
        mismatch(line.place(), fmt::format("{} of {} is {}, expected {}{}.", name, host_name(host),
                                           got, relation, expected));
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
    const ByteView got = stage_.bytes(at, bytes, left.place);
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
      const ByteView other = stage_.bytes(stage_.location(right), bytes, right.place);
      std::ranges::copy(other, expected.begin());
    }
    const auto differs = std::ranges::mismatch(got, expected);
    if (differs.in1 != got.end()) {
      mismatch(
          line.place(),
          fmt::format("Byte {} of '{}' is {:#04x}, expected {:#04x}.", differs.in1 - got.begin(),
                      left.text, std::to_integer<unsigned>(*differs.in1),
                      std::to_integer<unsigned>(*differs.in2)),
          last_event(TraceKind::arrived, at.region->spec->host));
    }
  }
}

/// "client qps=1 mrs=2 cqs=1 pds=1": what the host's NIC still has.
void Checker::check_objects(const Expectations::Lines& lines) {
  for (Line line : lines.value_or(std::vector<Line>{})) {
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const auto counts = stage_.hosts()[host].node->nic().object_counts();
    const std::array<std::pair<std::string_view, std::uint32_t>, 4> rows{
        {{"pds", counts.pds}, {"mrs", counts.mrs}, {"cqs", counts.cqs}, {"qps", counts.qps}}};
    for (const auto& [name, got] : rows) {
      const auto word = line.take(name);
      if (word && number_of(*word, u32_max) != got) {
        mismatch(line.place(),
                 fmt::format("{} has {} {}, expected {}.", host_name(host), got, name, word->text));
      }
    }
    line.end();
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

std::vector<Mismatch> check_expectations(Stage& stage, const Story& story) {
  return Checker(stage, story).check();
}

}  // namespace verbena::sim
