// From ULPDUs to a byte stream: the counterpart of FpduReceiver. It owns no bytes; FPDUs are built
// where the stream wants them. Read first: proto/iwarp/mpa.h.
//
// Use: ask size_of(), get so many bytes of room, write the ULPDU where ulpdu_room() says, then
// finish(). An FPDU that isn't finished has no effect.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "proto/iwarp/mpa.h"

namespace verbena::iwarp {

class FpduWriter {
 public:
  explicit FpduWriter(FpduFormat format) : format_(format) {}

  [[nodiscard]] FpduFormat format() const { return format_; }

  /// The bytes of the stream that the next FPDU takes; `ulpdu_bytes` up to ulpdu_bytes_max.
  [[nodiscard]] std::size_t size_of(std::size_t ulpdu_bytes) const {
    return fpdu_stream_bytes(format_, static_cast<std::size_t>(position_), ulpdu_bytes);
  }

  /// Where in `fpdu`, of size_of() bytes, the ULPDU is to be written, in one piece.
  [[nodiscard]] MutableBytes ulpdu_room(MutableBytes fpdu, std::size_t ulpdu_bytes) const {
    return fpdu.subspan(fpdu.size() - fpdu_bytes(ulpdu_bytes) + ulpdu_length_bytes, ulpdu_bytes);
  }

  /// Completes the FPDU around its ULPDU: length, pad, markers, CRC.
  void finish(MutableBytes fpdu, std::size_t ulpdu_bytes);

 private:
  void insert_markers(MutableBytes fpdu, std::size_t plain_bytes) const;

  FpduFormat format_;
  /// Bytes of FPDUs so far.
  std::uint64_t position_ = 0;
};

}  // namespace verbena::iwarp
