// "Did you mean": the candidate that a mistyped word is nearest to.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace verbena {

/// The candidate with the smallest edit distance (insert, delete or replace a character, swap two
/// neighbours; letters of either case count as equal), if that is at most a third of the word's
/// length, rounded up.
[[nodiscard]] std::optional<std::string_view> near_miss(
    std::string_view word, std::span<const std::string_view> candidates);

/// " Did you mean X?", or nothing: to be put behind an error's sentence.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> candidates);

}  // namespace verbena
