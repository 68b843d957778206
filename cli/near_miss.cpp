#include "cli/near_miss.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace verbena::cli {
namespace {

/// Wagner and Fischer, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
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
