// What of a guest's console is shown when it is given up: its end, and why it ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace verbena::cli {

inline constexpr std::size_t last_words_lines = 40;
/// With a panic, which comes before its call trace, of which nobody knows how long it gets.
inline constexpr std::size_t last_words_lines_max = 200;

/// The first line that is shown, up to the last one.
[[nodiscard]] inline std::size_t begin_of_last_words(const std::vector<std::string>& lines) {
  const auto back = [&](std::size_t count) { return lines.size() - std::min(lines.size(), count); };
  for (std::size_t i = back(last_words_lines_max); i < back(last_words_lines); ++i) {
    if (lines[i].find("Kernel panic") != std::string::npos) {
      return i;
    }
  }
  return back(last_words_lines);
}

}  // namespace verbena::cli
