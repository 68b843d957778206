#include "cli/packet_rules.h"

#include <fnmatch.h>

namespace verbena::cli {
namespace {

/// Patterns as fnmatch(3) has them.
struct Rule {
  const char* scenario;
  const char* what;
  const char* ours;
  const char* theirs;
  const char* words;
};

constexpr const char* any = "*";

// Sections are those of the InfiniBand Architecture Specification, volume 1; the kernel is 6.1.
constexpr Rule rules[] = {
    {"peer_write_of_nothing*", "device", "goes on", "is gone",
     "rxe takes a WRITE for one without data if its RETH says so, looks up no region, and then "
     "copies the data that it has through a null pointer (rxe_resp.c, check_rkey() and "
     "write_data_in(); 6.1)"},
    {any, "events", "qp_*_err", "nothing",
     "A responder that goes to the error state without a receive to complete tells by an event "
     "(11.6.3); rxe has none for this"},
};

bool fits(const char* pattern, const std::string& text) {
  return ::fnmatch(pattern, text.c_str(), 0) == 0;
}

}  // namespace

bool is_known_to_end(std::string_view against, const std::string& scenario) {
  return rule_for(against, scenario, {.what = "device", .ours = "goes on", .theirs = "is gone"})
      .has_value();
}

std::optional<std::string> rule_for(std::string_view against, const std::string& scenario,
                                    const AnswerDifference& difference) {
  if (against != "rxe") {
    return std::nullopt;
  }
  for (const Rule& rule : rules) {
    if (fits(rule.scenario, scenario) && fits(rule.what, difference.what) &&
        fits(rule.ours, difference.ours) && fits(rule.theirs, difference.theirs)) {
      return rule.words;
    }
  }
  return std::nullopt;
}

}  // namespace verbena::cli
