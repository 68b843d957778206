// A data structure of NVMe in memory, written and read by the offsets that the specification gives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nvmf {

// Bounds are checked: an offset outside is a std::out_of_range.
class Page {
 public:
  explicit Page(std::span<std::uint8_t> bytes) : bytes_(bytes) {}

  void clear() { std::ranges::fill(bytes_, std::uint8_t{0}); }

  template <typename T>
  void put(std::size_t offset, T value) {
    std::memcpy(at(offset, sizeof value), &value, sizeof value);
  }

  template <typename T>
  [[nodiscard]] T get(std::size_t offset) const {
    T value{};
    std::memcpy(&value, at(offset, sizeof value), sizeof value);
    return value;
  }

  // A field of a fixed length, filled up with `fill`; what doesn't fit is cut.
  void put_text(std::size_t offset, std::size_t length, std::string_view text, char fill) {
    std::uint8_t* field = at(offset, length);
    std::fill_n(field, length, static_cast<std::uint8_t>(fill));
    std::copy_n(text.begin(), std::min(length, text.size()), field);
  }

  // Without the zeros or blanks that fill the field up.
  [[nodiscard]] std::string get_text(std::size_t offset, std::size_t length) const {
    const std::uint8_t* field = at(offset, length);
    std::string text(field, std::find(field, field + length, 0));
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  [[nodiscard]] std::uint8_t* at(std::size_t offset, std::size_t length) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) {
      throw std::out_of_range("a field outside of its page");
    }
    return bytes_.data() + offset;
  }

  std::span<std::uint8_t> bytes_;
};

}  // namespace nvmf
