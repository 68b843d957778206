#include "cli/packet_rules.h"

#include <fnmatch.h>

#include <span>

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

// Sections are those of the InfiniBand Architecture Specification, volume 1; the kernel is 6.1.
constexpr std::span<const Rule> rules{};

bool fits(const char* pattern, const std::string& text) {
  return ::fnmatch(pattern, text.c_str(), 0) == 0;
}

}  // namespace

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
