// What a frame says, layer by layer and field by field: the one decoding from which `verbena dump`
// makes its lines, its details and its JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"

namespace verbena::cli {

/// A header field. `value` is for programs, `text` for people; `meaning` puts it in words where a
/// number has some ("PSN sequence error").
struct Field {
  /// snake_case.
  std::string_view name;
  /// Numbers of more than 53 bits are hexadecimal texts: JSON readers cut them.
  std::variant<bool, std::uint64_t, std::string> value;
  std::string text;
  std::string meaning;
  /// Where the bytes that hold it begin in the frame, and how many there are.
  std::size_t offset = 0;
  std::size_t size_bytes = 0;
};

struct Layer {
  /// snake_case; no two layers of a frame have the same.
  std::string name;
  /// As people call it: "BTH".
  std::string_view title;
  std::size_t offset = 0;
  std::size_t size_bytes = 0;
  /// Its bytes came in several frames, or with markers between them: offsets count from the
  /// beginning of the FPDU that it is in, not of the frame.
  bool is_reassembled = false;
  std::vector<Field> fields{};
};

struct Dissection {
  std::vector<Layer> layers;
  /// Addresses of the uppermost layer that has some: IP addresses or GIDs, else Ethernet's.
  std::string source;
  std::string destination;
  /// The line, from what the packet is to what it asks or answers: "RC Acknowledge".
  std::string title;
  std::string summary;
  std::optional<std::uint32_t> destination_qpn;
  std::optional<std::uint32_t> psn;
  /// Absent: the frame is not RoCE, or too broken to have one.
  std::optional<bool> icrc_is_good;
  /// Whether all FPDUs that end in this frame have a good CRC. Absent: there are none, or the
  /// connection uses no CRC.
  std::optional<bool> mpa_crc_is_good;
  /// What is wrong with the frame, in words; empty if nothing is. A bad ICRC is not told here.
  std::string error;
};

/// Decodes an Ethernet frame without FCS. Never fails: what can't be decoded is told.
[[nodiscard]] Dissection dissect(ByteView frame);

}  // namespace verbena::cli
