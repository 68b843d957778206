#include "base/near_miss.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace verbena {
namespace {

/// Nobody mistypes more than that; it bounds the work that hostile text can cause.
constexpr std::size_t word_bytes_max = 64;

bool same_letter(char a, char b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return lower(a) == lower(b);
}

/// Optimal string alignment: the table of Wagner and Fischer (1974) with swaps of neighbours.
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
      const std::size_t replaced = at(i - 1, j - 1) + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1])) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
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
