#include "proto/inet/mac_address.h"

#include <fmt/format.h>

namespace verbena::inet {
namespace {

constexpr std::size_t text_chars = 17;

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return static_cast<unsigned>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<unsigned>(c - 'a') + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return static_cast<unsigned>(c - 'A') + 10;
  }
  return std::nullopt;
}

}  // namespace

std::optional<MacAddress> MacAddress::from_text(std::string_view text) {
  if (text.size() != text_chars || (text[2] != ':' && text[2] != '-')) {
    return std::nullopt;
  }
  MacAddress mac;
  for (std::size_t i = 0; i < mac.bytes.size(); ++i) {
    const auto high = hex_digit(text[3 * i]);
    const auto low = hex_digit(text[3 * i + 1]);
    const bool is_separated = i == 0 || text[3 * i - 1] == text[2];
    if (!high || !low || !is_separated) {
      return std::nullopt;
    }
    mac.bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return mac;
}

std::string MacAddress::to_text() const {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2],
                     bytes[3], bytes[4], bytes[5]);
}

}  // namespace verbena::inet
