// Why a capture can't be read, or not to its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::pcap {

struct ReadError {
  enum class Kind : std::uint8_t {
    /// The file can't be opened or read: the system says why.
    system,
    /// It is no capture, or of a kind that we don't read.
    unsupported,
    /// It ends in the middle of a record or block.
    truncated,
    /// It contradicts the format.
    garbage,
  };
  Kind kind{};
  /// truncated: the file's size. Else: where the block or record begins.
  std::uint64_t offset = 0;
  /// A sentence without a full stop that tells the offset but not the file's name.
  std::string text;
};

/// An errno at `offset`.
[[nodiscard]] ReadError system_error(std::uint64_t offset, int error_number);
/// The file ends at `end`, within the `what` that begins at `start`.
[[nodiscard]] ReadError truncated_error(std::uint64_t end, std::uint64_t start,
                                        std::string_view what);
[[nodiscard]] ReadError garbage_error(std::uint64_t offset, std::string_view what);
[[nodiscard]] ReadError link_type_error(std::uint64_t offset, std::string_view link_type);

}  // namespace verbena::pcap
