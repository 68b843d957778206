// What hosts hear of their connections.
#include <fmt/format.h>

#include "sim/scenario/checker.h"

namespace verbena::sim {

/// By host, in order, all of them; "HOST ..." stands for any number.
void Checker::check_connections(const Expectations::Lines& lines) {
  if (!lines) {
    return;
  }
  std::vector<std::size_t> at(stage_.hosts().size());
  std::vector<bool> open(stage_.hosts().size());
  for (Line line : *lines) {
    const std::size_t host = stage_.nic_host(line.next("a host"));
    const Word name = line.next("an event of a connection");
    if (name.text == "...") {
      open[host] = true;
      line.end();
      continue;
    }
    std::string expected = name.text;
    if (const auto reason = line.try_next()) {
      expected += ' ' + reason->text;
    }
    line.end();
    const auto& heard = story_.cm().heard()[host];
    while (open[host] && at[host] < heard.size() && heard[at[host]].what != expected) {
      ++at[host];
    }
    open[host] = false;
    const bool came = at[host] < heard.size();
    if (!came || heard[at[host]].what != expected) {
      mismatch(line.place(),
               fmt::format("What {} hears of its connections, number {}, is {}, expected {}.",
                           host_name(host), at[host] + 1, came ? heard[at[host]].what : "nothing",
                           expected),
               came ? std::optional(heard[at[host]].event) : std::nullopt);
      return;
    }
    ++at[host];
  }
  for (std::size_t host = 0; host < at.size(); ++host) {
    const auto& heard = story_.cm().heard()[host];
    if (!open[host] && at[host] < heard.size()) {
      mismatch(lines->empty() ? Place{} : lines->back().place(),
               fmt::format("{} hears {} more of its connections than expected: {}.",
                           host_name(host), heard.size() - at[host], heard[at[host]].what),
               heard[at[host]].event);
    }
  }
}

}  // namespace verbena::sim
