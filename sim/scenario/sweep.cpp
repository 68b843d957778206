// Sweeps: one scenario file that stands for many.

#include <fmt/format.h>

#include <ranges>
#include <utility>

#include "sim/scenario/load_parts.h"

namespace verbena::sim {
namespace {

/// Keeps a hostile file from asking for the machine.
constexpr std::size_t sweep_rows_max = 1'000;

}  // namespace

std::vector<SweepRow> sweep_rows(const toml::table& parsed) {
  std::vector<SweepRow> rows{SweepRow{}};
  Table root(parsed);
  const auto sweep = root.table("sweep");
  if (!sweep) {
    return rows;
  }
  for (const auto& [key, node] : sweep->raw()) {
    const std::string name(key.str());
    Table table(sweep->raw());
    const auto values = table.words(name).value();
    std::vector<SweepRow> longer;
    for (const SweepRow& row : rows) {
      for (const Word& value : values) {
        longer.push_back(row);
        longer.back().emplace_back(name, value.text);
      }
    }
    rows = std::move(longer);
    if (rows.size() > sweep_rows_max || rows.empty()) {
      fail(place_of(node), fmt::format("A sweep has 1 to {} rows.", sweep_rows_max));
    }
  }
  return rows;
}

std::string substitute(std::string_view text, const SweepRow& row) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool replaced = false;
    // The names are sorted: backwards, the longer of two that begin alike comes first.
    for (const auto& [name, value] : row | std::views::reverse) {
      if (text[i] == '$' && text.substr(i + 1).starts_with(name)) {
        result += value;
        i += name.size();
        replaced = true;
        break;
      }
    }
    if (!replaced) {
      result += text[i];
    }
  }
  return result;
}

}  // namespace verbena::sim
