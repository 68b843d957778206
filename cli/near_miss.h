// "Did you mean": the candidate that a mistyped word is nearest to.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace verbena::cli {

/// The candidate with the smallest edit distance (insert, delete, replace a character, swap two
/// neighbours), if that is at most a third of the word's length.
[[nodiscard]] std::optional<std::string> near_miss(std::string_view word,
                                                   std::span<const std::string> candidates);

}  // namespace verbena::cli
