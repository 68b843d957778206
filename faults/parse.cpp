#include "faults/parse.h"

#include <fmt/format.h>

#include <algorithm>

#include "faults/rule_builder.h"
#include "faults/rule_table.h"
#include "faults/units.h"

namespace verbena::faults {
namespace {

constexpr std::string_view blanks = " \t";

std::string at(std::string_view file_name, const toml::source_position& position,
               std::string_view message) {
  return fmt::format("{}:{}:{}: {}", file_name, position.line, position.column, message);
}

Result<void, std::string> set_word(RuleBuilder& builder, std::string_view word, bool is_first) {
  if (is_first) {
    return builder.set_action(word);
  }
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) {
    return std::unexpected(fmt::format("'{}' isn't key=value.", word));
  }
  return builder.set(word.substr(0, equals), word.substr(equals + 1));
}

}  // namespace

Result<Rule, RuleError> parse_rule(std::string_view text, const HostResolver& resolve) {
  RuleBuilder builder(resolve);
  bool is_first = true;
  std::size_t begin = text.find_first_not_of(blanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
    const auto set = set_word(builder, text.substr(begin, end - begin), is_first);
    if (!set) {
      return std::unexpected(RuleError{begin, set.error()});
    }
    is_first = false;
    begin = text.find_first_not_of(blanks, end);
  }
  auto rule = builder.finish(std::string(text));
  if (!rule) {
    return std::unexpected(RuleError{0, rule.error()});
  }
  return *std::move(rule);
}

std::string explain(std::string_view text, const RuleError& error) {
  return fmt::format("{}\n{:>{}}\n{}", text, '^', error.offset + 1, error.message);
}

Result<RuleSet, std::string> parse_rules_file(std::string_view toml, std::string_view file_name,
                                              const HostResolver& resolve) {
  const toml::parse_result parsed = toml::parse(toml, file_name);
  if (!parsed) {
    return std::unexpected(
        at(file_name, parsed.error().source().begin, parsed.error().description()));
  }
  RuleSet rules;
  for (const auto& [key, node] : parsed.table()) {
    const toml::array* const tables = key == "fault" ? node.as_array() : nullptr;
    if (tables == nullptr || !tables->is_homogeneous(toml::node_type::table)) {
      return std::unexpected(at(file_name, node.source().begin,
                                "A file of fault rules has tables [[fault]] and nothing else."));
    }
    for (const toml::node& table : *tables) {
      auto rule = rule_from_table(*table.as_table(), resolve);
      if (!rule) {
        return std::unexpected(at(file_name, rule.error().position, rule.error().message));
      }
      rules.push_back(*std::move(rule));
    }
  }
  return rules;
}

Result<Rule, RuleError> rate_rule(ActionKind action, std::string_view chance) {
  return parse_rule(fmt::format("{} chance={}", name_of(action), chance));
}

Result<Rule, RuleError> delay_rule(std::string_view duration) {
  return parse_rule(fmt::format("delay direction=in by={}", duration));
}

}  // namespace verbena::faults
