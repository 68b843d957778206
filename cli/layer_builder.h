// Adds a layer with its fields to a dissection.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "cli/dissection.h"

namespace verbena::cli {

/// Bytes of a payload that the details show.
inline constexpr std::size_t payload_shown_bytes = 32;

/// The first bytes as hexadecimal digits, and "..." if there are more.
[[nodiscard]] inline std::string hex_bytes(ByteView bytes) {
  std::string text;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), payload_shown_bytes))) {
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<unsigned>(byte));
  }
  return bytes.size() > payload_shown_bytes ? text + "..." : text;
}

/// Offsets given to its functions count from the start of the layer. One builder at a time: the
/// next layer makes the references of this one invalid.
class LayerBuilder {
 public:
  LayerBuilder(Dissection& dissection, std::string_view name, std::string_view title,
               std::size_t offset, std::size_t size_bytes)
      : layer_(dissection.layers.emplace_back(Layer{.name = std::string(name),
                                                    .title = title,
                                                    .offset = offset,
                                                    .size_bytes = size_bytes})) {}

  /// Offsets don't count from the beginning of the frame.
  void set_reassembled(bool value) { layer_.is_reassembled = value; }

  /// Decimal.
  void number(std::string_view name, std::size_t at, std::size_t size_bytes, std::uint64_t value,
              std::string_view meaning = {}) {
    add(name, at, size_bytes, value, std::to_string(value), meaning);
  }
  /// Hexadecimal, with as many digits as the field has.
  void hex(std::string_view name, std::size_t at, std::size_t size_bytes, std::uint64_t value,
           std::string_view meaning = {}) {
    constexpr std::size_t json_safe_bytes = 6;
    std::string text = fmt::format("{:#0{}x}", value, 2 + 2 * size_bytes);
    if (size_bytes > json_safe_bytes) {
      add(name, at, size_bytes, text, text, meaning);
    } else {
      add(name, at, size_bytes, value, std::move(text), meaning);
    }
  }
  void flag(std::string_view name, std::size_t at, bool value) {
    add(name, at, 1, value, value ? "1" : "0", {});
  }
  void text(std::string_view name, std::size_t at, std::size_t size_bytes, std::string value) {
    add(name, at, size_bytes, value, value, {});
  }

 private:
  void add(std::string_view name, std::size_t at, std::size_t size_bytes,
           decltype(Field::value) value, std::string text, std::string_view meaning) {
    layer_.fields.push_back({.name = name,
                             .value = std::move(value),
                             .text = std::move(text),
                             .meaning = std::string(meaning),
                             .offset = layer_.offset + at,
                             .size_bytes = size_bytes});
  }

  Layer& layer_;
};

}  // namespace verbena::cli
