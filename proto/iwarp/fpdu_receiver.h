// From a byte stream to ULPDUs: finds FPDUs, checks markers and CRC, takes the framing off. Read
// first: proto/iwarp/mpa.h; RFC 5044, 4.2 to 4.4 and 6 (receivers).
//
// The stream may come in any pieces. An FPDU that lies whole in one piece and has no markers is
// delivered where it lies; others are put together in a buffer that is allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/iwarp/mpa.h"

namespace verbena::iwarp {

/// What ends a stream: nothing behind it can be trusted (RFC 5044, 8).
enum class FpduError : std::uint8_t {
  crc,
  /// A marker doesn't point to the FPDU it lies in.
  marker,
};
[[nodiscard]] std::string_view name_of(FpduError error) noexcept;

struct Fpdu {
  ByteView ulpdu;
  /// Where it began in the stream, and how many bytes of it were its own, markers included.
  std::uint64_t stream_position = 0;
  std::size_t stream_bytes = 0;
  /// The CRC field as it came (least significant byte first on the wire) and as it should be; the
  /// same if there is no CRC.
  std::uint32_t crc = 0;
  std::uint32_t computed_crc = 0;

  [[nodiscard]] bool crc_is_good() const { return crc == computed_crc; }
};

/// What becomes of an FPDU with a wrong CRC. A connection ends with it; who only reads along wants
/// to see it.
enum class OnBadCrc : std::uint8_t { refuse, deliver };

class FpduReceiver {
 public:
  explicit FpduReceiver(FpduFormat format, OnBadCrc on_bad_crc = OnBadCrc::refuse);

  /// Removes from `stream` what belongs to the next FPDU. The FPDU when it is complete and good,
  /// valid until the next call and as long as the bytes of `stream`; nothing when bytes are
  /// missing: then `stream` is empty. After an error every call gives the same error.
  [[nodiscard]] Result<std::optional<Fpdu>, FpduError> next(ByteView& stream);

  [[nodiscard]] FpduFormat format() const { return format_; }
  /// Whether the stream may end here: no FPDU is incomplete.
  [[nodiscard]] bool is_between_fpdus() const { return buffered_ == 0; }

 private:
  [[nodiscard]] std::optional<std::size_t> size_of(ByteView begin) const;
  [[nodiscard]] std::size_t header_offset() const;
  void buffer(ByteView& stream, std::size_t wanted);
  [[nodiscard]] Result<Fpdu, FpduError> deliver(ByteView bytes);
  [[nodiscard]] bool markers_are_right(ByteView bytes) const;
  [[nodiscard]] ByteView without_markers(ByteView bytes);

  FpduFormat format_;
  OnBadCrc on_bad_crc_;
  std::optional<FpduError> error_;
  /// Where the FPDU that comes next or is in the buffer begins, counted from the end of the start
  /// frame.
  std::uint64_t position_ = 0;
  std::size_t buffered_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace verbena::iwarp
