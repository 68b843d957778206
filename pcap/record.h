// What a capture file says about one frame. Writer and reader share these types.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace verbena::pcap {

/// Wall-clock time as captures carry it: nanoseconds since 1970-01-01 00:00 UTC.
using UnixTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// Seen from the interface: the values of the low two bits of epb_flags (pcapng, 4.3.1).
enum class Direction : std::uint8_t { unknown = 0, inbound = 1, outbound = 2 };

/// Number of an interface in its section: the order in which they were described, from 0.
enum class InterfaceId : std::uint32_t {};

/// One frame on its way to a file. Nothing is owned.
struct Record {
  InterfaceId interface{};
  UnixTime time{};
  /// The whole Ethernet frame without its frame check sequence.
  ByteView frame{};
  Direction direction = Direction::unknown;
  /// One packet comment each, UTF-8. A comment longer than max_option_bytes is cut.
  std::span<const std::string_view> comments{};
};

}  // namespace verbena::pcap
