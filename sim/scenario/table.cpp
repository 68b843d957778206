#include "sim/scenario/table.h"

#include <algorithm>

namespace verbena::sim {

Place place_of(const toml::node& node) {
  return {node.source().begin.line, node.source().begin.column};
}

namespace {

Word word_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    return {*text, place_of(node)};
  }
  if (const auto number = node.value_exact<std::int64_t>()) {
    return {fmt::format("{}", *number), place_of(node)};
  }
  fail(place_of(node), "This must be a string or a whole number.");
}

}  // namespace

const toml::node* Table::take(std::string_view key) {
  known_.push_back(key);
  return table_.get(key);
}

std::optional<Word> Table::word(std::string_view key) {
  const toml::node* const node = take(key);
  return node != nullptr ? std::optional(word_of(*node)) : std::nullopt;
}

Word Table::required_word(std::string_view key) {
  auto value = word(key);
  if (!value) {
    fail(place(), fmt::format("{} is missing.", key));
  }
  return *std::move(value);
}

bool Table::boolean(std::string_view key, bool otherwise) {
  const toml::node* const node = take(key);
  if (node == nullptr) {
    return otherwise;
  }
  const auto value = node->value_exact<bool>();
  if (!value) {
    fail(place_of(*node), "This must be true or false.");
  }
  return *value;
}

std::optional<std::vector<Word>> Table::words(std::string_view key) {
  const toml::node* const node = take(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  const toml::array* const array = node->as_array();
  if (array == nullptr) {
    fail(place_of(*node), fmt::format("{} must be an array.", key));
  }
  std::vector<Word> result;
  for (const toml::node& item : *array) {
    result.push_back(word_of(item));
  }
  return result;
}

std::optional<std::vector<Line>> Table::lines(std::string_view key) {
  const auto texts = words(key);
  if (!texts) {
    return std::nullopt;
  }
  std::vector<Line> result;
  for (const Word& text : *texts) {
    // Behind the quotation mark.
    result.emplace_back(text.text, Place{text.place.line, text.place.column + 1});
  }
  return result;
}

std::vector<Table> Table::tables(std::string_view key) {
  std::vector<Table> result;
  const toml::node* const node = take(key);
  if (node == nullptr) {
    return result;
  }
  const toml::array* const array = node->as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    fail(place_of(*node), fmt::format("{0} must be an array of tables: [[{0}]].", key));
  }
  for (const toml::node& item : *array) {
    result.emplace_back(*item.as_table());
  }
  return result;
}

std::optional<Table> Table::table(std::string_view key) {
  const toml::node* const node = take(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (!node->is_table()) {
    fail(place_of(*node), fmt::format("{0} must be a table: [{0}].", key));
  }
  return Table(*node->as_table());
}

void Table::end() const {
  for (const auto& [key, node] : table_) {
    if (std::ranges::find(known_, key.str()) == known_.end()) {
      fail({key.source().begin.line, key.source().begin.column},
           fmt::format("There is no key '{}' here.{}", key.str(), did_you_mean(key.str(), known_)));
    }
  }
}

}  // namespace verbena::sim
