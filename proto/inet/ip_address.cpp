#include "proto/inet/ip_address.h"

#include <fmt/format.h>

#include <charconv>
#include <span>

namespace verbena::inet {
namespace {

constexpr std::size_t ipv6_groups = 8;

/// A number of at most `digits_max` digits that is all of `text`.
std::optional<unsigned> whole_number(std::string_view text, int base, std::size_t digits_max) {
  if (text.empty() || text.size() > digits_max) {
    return std::nullopt;
  }
  unsigned value = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

/// Cuts `text` at the first `separator`: returns what precedes it, leaves what follows.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return head;
}

/// Up to eight groups of an IPv6 address.
struct Groups {
  std::array<std::uint16_t, ipv6_groups> values{};
  std::size_t count = 0;

  [[nodiscard]] bool append(unsigned value) {
    if (count == values.size()) {
      return false;
    }
    values[count++] = static_cast<std::uint16_t>(value);
    return true;
  }
};

/// Reads groups separated by single colons; the last may be an IPv4 address, which makes two.
std::optional<Groups> parse_groups(std::string_view text) {
  Groups groups;
  if (text.empty()) {
    return groups;
  }
  for (bool more = true; more;) {
    more = text.find(':') != std::string_view::npos;
    const std::string_view part = cut(text, ':');
    if (!more && part.find('.') != std::string_view::npos) {
      const auto ipv4 = Ipv4Address::from_text(part);
      if (!ipv4 || !groups.append(ipv4->to_value() >> 16) ||
          !groups.append(ipv4->to_value() & 0xFFFF)) {
        return std::nullopt;
      }
      continue;
    }
    const auto value = whole_number(part, 16, 4);
    if (!value || !groups.append(*value)) {
      return std::nullopt;
    }
  }
  return groups;
}

void store(std::span<std::uint8_t> to, const Groups& groups) {
  for (std::size_t i = 0; i < groups.count; ++i) {
    to[2 * i] = static_cast<std::uint8_t>(groups.values[i] >> 8);
    to[2 * i + 1] = static_cast<std::uint8_t>(groups.values[i]);
  }
}

/// The longest run of two or more zero groups, the first of several (RFC 5952, 4.2.3).
struct ZeroRun {
  std::size_t begin = ipv6_groups;
  std::size_t length = 1;
};

ZeroRun longest_zero_run(const std::array<unsigned, ipv6_groups>& groups) {
  ZeroRun best;
  for (std::size_t begin = 0; begin < groups.size(); ++begin) {
    std::size_t end = begin;
    while (end < groups.size() && groups[end] == 0) {
      ++end;
    }
    if (end - begin > best.length) {
      best = {begin, end - begin};
    }
  }
  return best;
}

}  // namespace

std::optional<Ipv4Address> Ipv4Address::from_text(std::string_view text) {
  Ipv4Address address;
  for (std::size_t i = 0; i < address.bytes.size(); ++i) {
    const bool is_last = i + 1 == address.bytes.size();
    if (!is_last && text.find('.') == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view part = is_last ? text : cut(text, '.');
    const auto value = whole_number(part, 10, 3);
    const bool has_leading_zero = part.size() > 1 && part[0] == '0';
    if (!value || *value > 0xFF || has_leading_zero) {
      return std::nullopt;
    }
    address.bytes[i] = static_cast<std::uint8_t>(*value);
  }
  return address;
}

std::string Ipv4Address::to_text() const {
  return fmt::format("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]);
}

std::optional<Ipv6Address> Ipv6Address::from_text(std::string_view text) {
  Ipv6Address address;
  const std::size_t gap = text.find("::");
  if (gap == std::string_view::npos) {
    const auto groups = parse_groups(text);
    if (!groups || groups->count != ipv6_groups) {
      return std::nullopt;
    }
    store(address.bytes, *groups);
    return address;
  }
  const std::string_view head_text = text.substr(0, gap);
  const auto head = parse_groups(head_text);
  const auto tail = parse_groups(text.substr(gap + 2));
  const bool ends_in_ipv4 = head_text.find('.') != std::string_view::npos;
  // "::" stands for at least one group.
  if (!head || !tail || ends_in_ipv4 || head->count + tail->count >= ipv6_groups) {
    return std::nullopt;
  }
  const std::span<std::uint8_t> bytes(address.bytes);
  store(bytes, *head);
  store(bytes.last(2 * tail->count), *tail);
  return address;
}

std::string Ipv6Address::to_text() const {
  std::array<unsigned, ipv6_groups> groups{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i] = static_cast<unsigned>(bytes[2 * i] << 8 | bytes[2 * i + 1]);
  }
  const ZeroRun run = longest_zero_run(groups);
  if (run.begin == 0 && run.length == 5 && groups[5] == 0xFFFF) {
    return fmt::format("::ffff:{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]);
  }
  std::string text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == run.begin) {
      text += "::";
      i += run.length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') {
      text += ':';
    }
    text += fmt::format("{:x}", groups[i]);
  }
  return text;
}

}  // namespace verbena::inet
