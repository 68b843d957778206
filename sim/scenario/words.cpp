#include "sim/scenario/words.h"

#include <fmt/format.h>

#include "base/near_miss.h"
#include "faults/units.h"

namespace verbena::sim {

void fail(Place place, std::string message) {
  throw ScenarioError{.place = place, .message = std::move(message)};
}

void fail(const Word& word, std::string message) { fail(word.place, std::move(message)); }

std::uint64_t number_of(const Word& word, std::uint64_t max) {
  const auto number = faults::parse_number(word.text);
  if (!number || *number > max) {
    fail(word, fmt::format("'{}' isn't a number from 0 to {}.", word.text, max));
  }
  return *number;
}

Duration duration_of(const Word& word) {
  const auto duration = faults::parse_duration(word.text);
  if (!duration) {
    fail(word, fmt::format("'{}' isn't a time, such as 50us, 1.5ms or 2s.", word.text));
  }
  return *duration;
}

std::uint64_t size_of(const Word& word, std::uint64_t max) {
  const auto size = faults::parse_size(word.text);
  if (!size || *size > max) {
    fail(word, fmt::format("'{}' isn't a size of at most {} bytes, such as 2500 or 64KiB.",
                           word.text, max));
  }
  return *size;
}

Line::Line(std::string_view text, Place place) : text_(text), place_(place) {
  constexpr std::string_view blanks = " \t";
  std::size_t begin = text.find_first_not_of(blanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    Item item;
    item.word = {std::string(word), {place.line, place.column + static_cast<std::uint32_t>(begin)}};
    const auto equals = word.find('=');
    // A word that begins with = or > is an operator of its own.
    if (equals != std::string_view::npos && equals > 0) {
      item.value_at = equals + 1;
    }
    items_.push_back(std::move(item));
    begin = text.find_first_not_of(blanks, end);
  }
}

std::optional<Word> Line::try_next() {
  for (Item& item : items_) {
    if (!item.taken && item.value_at == 0) {
      item.taken = true;
      return item.word;
    }
  }
  return std::nullopt;
}

Word Line::next(std::string_view wanted) {
  auto word = try_next();
  if (!word) {
    fail(place_, fmt::format("'{}': {} is missing.", text_, wanted));
  }
  return *std::move(word);
}

std::optional<Word> Line::take(std::string_view key) {
  asked_.emplace_back(key);
  for (Item& item : items_) {
    if (!item.taken && item.value_at == key.size() + 1 && item.word.text.starts_with(key)) {
      item.taken = true;
      return Word{item.word.text.substr(item.value_at),
                  {item.word.place.line,
                   item.word.place.column + static_cast<std::uint32_t>(item.value_at)}};
    }
  }
  return std::nullopt;
}

Word Line::require(std::string_view key) {
  auto value = take(key);
  if (!value) {
    fail(place_, fmt::format("'{}': {}= is missing.", text_, key));
  }
  return *std::move(value);
}

bool Line::flag(std::string_view name) {
  asked_.emplace_back(name);
  for (Item& item : items_) {
    if (!item.taken && item.value_at == 0 && item.word.text == name) {
      item.taken = true;
      return true;
    }
  }
  return false;
}

void Line::end() const {
  const std::vector<std::string_view> known(asked_.begin(), asked_.end());
  for (const Item& item : items_) {
    if (!item.taken) {
      const std::string_view text = item.word.text;
      const auto name = text.substr(0, item.value_at == 0 ? text.size() : item.value_at - 1);
      fail(item.word, fmt::format("'{}' has no meaning here.{}", name, did_you_mean(name, known)));
    }
  }
}

}  // namespace verbena::sim
