#include "cli/near_miss.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace verbena::cli {
namespace {

/// Optimal string alignment: Wagner and Fischer's table with swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * columns + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::optional<std::string> near_miss(std::string_view word,
                                     std::span<const std::string> candidates) {
  constexpr std::size_t longest_word = 64;  // nobody mistypes more than that
  std::size_t best_distance = word.size() / 3;
  std::optional<std::string> best;
  if (word.size() > longest_word) {
    return best;
  }
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= best_distance && (!best || distance < best_distance)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace verbena::cli
