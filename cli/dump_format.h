// How `verbena dump` shows a packet: as a line, in detail, or as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/dissection.h"
#include "pcap/reader.h"

namespace verbena::cli {

/// A packet of a capture with what the dump knows besides.
struct DumpedPacket {
  /// From 1, as Wireshark counts.
  std::uint64_t number = 0;
  /// Since the first packet that has a time. Absent if this one has none.
  std::optional<std::chrono::nanoseconds> relative_time;
  const pcap::Packet& packet;
  const Dissection& dissection;
};

/// One line, with its end. Comments follow behind '#'.
[[nodiscard]] std::string format_line(const DumpedPacket& dumped);

/// The line, and then each layer with each field and its offset in the frame.
[[nodiscard]] std::string format_details(const DumpedPacket& dumped);

/// One JSON object on one line: "frame" tells of the capture, then there is a member for each layer
/// with its fields ("psn": 5, "syndrome": 96, "syndrome_text": "NAK PSN sequence error"),
/// "summary", and "error" if something is wrong.
[[nodiscard]] std::string format_json(const DumpedPacket& dumped);

/// `text` without anything that a terminal would obey: control characters become \xNN.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace verbena::cli
