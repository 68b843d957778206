#include "faults/rule_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "faults/rule_builder.h"

namespace verbena::faults {
namespace {

/// The value as it would be written on a command line.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    return text;
  }
  if (const auto number = node.value_exact<std::int64_t>()) {
    return fmt::format("{}", *number);
  }
  return std::nullopt;
}

Result<void, TableError> set_key(RuleBuilder& builder, std::string_view key, const toml::node& node,
                                 std::string& text) {
  const toml::source_position position = node.source().begin;
  const auto value = text_of(node);
  if (!value) {
    return std::unexpected(TableError{position, "This must be a string or a whole number."});
  }
  const bool is_action = key == "action";
  const auto set = is_action ? builder.set_action(*value) : builder.set(key, *value);
  if (!set) {
    return std::unexpected(TableError{position, set.error()});
  }
  if (!is_action) {
    text += fmt::format(" {}={}", key, *value);
  }
  return {};
}

}  // namespace

Result<Rule, TableError> rule_from_table(const toml::table& table, const HostResolver& resolve) {
  RuleBuilder builder(resolve);
  std::string text = table["action"].value_or(std::string());
  // A table's keys are sorted by name; errors and the rule's text are in the order of the file.
  std::vector<std::pair<std::string_view, const toml::node*>> nodes;
  for (const auto& [key, node] : table) {
    nodes.emplace_back(key.str(), &node);
  }
  std::ranges::sort(nodes, [](const auto& a, const auto& b) {
    const auto& x = a.second->source().begin;
    const auto& y = b.second->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  for (const auto& [key, node] : nodes) {
    if (const auto set = set_key(builder, key, *node, text); !set) {
      return std::unexpected(set.error());
    }
  }
  auto rule = builder.finish(std::move(text));
  if (!rule) {
    return std::unexpected(TableError{table.source().begin, rule.error()});
  }
  return *std::move(rule);
}

}  // namespace verbena::faults
