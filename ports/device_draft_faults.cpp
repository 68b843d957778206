// A device's fault rules, from wherever they are told: rule by rule, from a file, or as rates.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "faults/parse.h"
#include "ports/config_file.h"
#include "ports/device_draft.h"
#include "ports/sys.h"

namespace verbena::ports {

SetResult DeviceDraft::add_rule(Result<faults::Rule, faults::RuleError> rule) {
  if (!rule) {
    return std::unexpected(std::move(rule.error().message));
  }
  config_.faults.push_back(std::move(*rule));
  return {};
}

SetResult DeviceDraft::add_faults(std::string_view rules) {
  for (std::size_t begin = 0; begin <= rules.size();) {
    const std::size_t end = std::min(rules.find(';', begin), rules.size());
    const std::string_view text = rules.substr(begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(' ') == std::string_view::npos) {
      continue;
    }
    auto rule = faults::parse_rule(text);
    if (!rule) {
      return std::unexpected(
          fmt::format("\"{}\" is no fault rule:\n{}", text, faults::explain(text, rule.error())));
    }
    config_.faults.push_back(std::move(*rule));
  }
  return {};
}

SetResult DeviceDraft::add_fault_file(std::string_view path) {
  const std::string name(path);
  const auto content = read_config_file(name);
  if (!content && content.error() == EFBIG) {
    return std::unexpected(
        fmt::format("{} has more than {} KiB", name, config_file_bytes_max / 1024));
  }
  if (!content) {
    return std::unexpected(
        fmt::format("can't read {}: {}", name, sys::error_text(content.error())));
  }
  auto rules = faults::parse_rules_file(*content, name);
  if (!rules) {
    return std::unexpected(std::move(rules.error()));
  }
  std::ranges::move(*rules, std::back_inserter(config_.faults));
  return {};
}

SetResult DeviceDraft::add_fault_rate(faults::ActionKind action, std::string_view chance) {
  return add_rule(faults::rate_rule(action, chance));
}

SetResult DeviceDraft::add_delay(std::string_view time) {
  return add_rule(faults::delay_rule(time));
}

SetResult DeviceDraft::set_fault_seed(std::int64_t seed) {
  config_.fault_seed = static_cast<std::uint64_t>(seed);
  return {};
}

}  // namespace verbena::ports
