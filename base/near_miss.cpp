#include "base/near_miss.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace verbena {
namespace {

/// Nobody mistypes more than that; it bounds the work that hostile text can cause.
constexpr std::size_t word_bytes_max = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Wagner and Fischer (1974), one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string_view> near_miss(std::string_view word,
                                          std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > word_bytes_max) {
    return std::nullopt;
  }
  std::size_t best_distance = (word.size() + 2) / 3 + 1;
  std::optional<std::string_view> best;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const auto near = near_miss(word, candidates);
  return near ? " Did you mean " + std::string(*near) + "?" : std::string();
}

}  // namespace verbena
