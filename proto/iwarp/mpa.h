// Facts of MPA, the framing that lets RDMA ride on TCP: flags, keys, limits, and how many bytes of
// a stream an FPDU takes. Read first: RFC 5044, 4 (FPDUs, markers, CRC) and 7.1 (start frames), RFC
// 6581 (enhanced connection setup).
//
// A connection begins with a start frame in each direction, then each direction carries FPDUs:
//
//   ┌──────────────┬─────────────────────┬───────────┬─────────┐
//   │ ULPDU length │ ULPDU (DDP segment) │ 0-3 zeros │ CRC-32C │   a multiple of four bytes
//   └──────────────┴─────────────────────┴───────────┴─────────┘
//
// With markers, every 512 bytes of the stream after the start frame, from byte 0 on, stands a
// marker of four bytes: 16 zero bits and the distance back to the ULPDU length of the FPDU it lies
// in. They are part of the FPDU for its CRC, but not of the ULPDU length. A marker between two
// FPDUs belongs to the second and has distance 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::iwarp {

/// Whether FPDUs of one direction carry markers, and whether their CRC is computed. Without CRC the
/// field is there all the same: we send zeros, and what comes is ignored (RFC 5044, 4.4).
struct FpduFormat {
  bool markers = false;
  bool crc = true;
};

inline constexpr std::size_t ulpdu_length_bytes = 2;
inline constexpr std::size_t mpa_crc_bytes = 4;
inline constexpr std::size_t mpa_marker_bytes = 4;
/// Distance of the markers from each other in the stream.
inline constexpr std::size_t mpa_marker_interval_bytes = 512;
/// What the length field can say.
inline constexpr std::size_t ulpdu_bytes_limit = 0xFFFF;
/// What is sent at most, so that the pointer of every marker has room for its distance.
inline constexpr std::size_t ulpdu_bytes_max = 64'768;

/// An FPDU without markers: length, ULPDU, pad, CRC.
[[nodiscard]] constexpr std::size_t fpdu_bytes(std::size_t ulpdu_bytes) {
  return (ulpdu_length_bytes + ulpdu_bytes + 3) / 4 * 4 + mpa_crc_bytes;
}

/// The markers of an FPDU without-markers length `bytes` (more than 0) that begins at
/// `stream_position`.
[[nodiscard]] constexpr std::size_t marker_count(std::size_t stream_position, std::size_t bytes) {
  constexpr std::size_t between = mpa_marker_interval_bytes - mpa_marker_bytes;
  const std::size_t past = stream_position % mpa_marker_interval_bytes;
  const std::size_t to_first = past == 0 ? 0 : mpa_marker_interval_bytes - past;
  return bytes <= to_first ? 0 : 1 + (bytes - to_first - 1) / between;
}

/// An FPDU as it lies in a stream that it enters at `stream_position`, counted from the end of the
/// start frame.
[[nodiscard]] constexpr std::size_t fpdu_stream_bytes(FpduFormat format,
                                                      std::size_t stream_position,
                                                      std::size_t ulpdu_bytes) {
  const std::size_t bytes = fpdu_bytes(ulpdu_bytes);
  return format.markers ? bytes + marker_count(stream_position, bytes) * mpa_marker_bytes : bytes;
}

/// The longest FPDU of a stream, markers included.
inline constexpr std::size_t fpdu_stream_bytes_max =
    fpdu_stream_bytes({.markers = true}, 0, ulpdu_bytes_limit);

/// MULPDU: the longest ULPDU whose FPDU fits a TCP segment of `segment_bytes` wherever its markers
/// fall (RFC 5044, 4.5: "FPDU alignment").
[[nodiscard]] constexpr std::size_t mulpdu_bytes(FpduFormat format, std::size_t segment_bytes) {
  const std::size_t markers =
      format.markers ? (segment_bytes + mpa_marker_interval_bytes - 1) / mpa_marker_interval_bytes
                     : 0;
  const std::size_t overhead =
      ulpdu_length_bytes + mpa_crc_bytes + markers * mpa_marker_bytes + segment_bytes % 4;
  const std::size_t bytes = segment_bytes < overhead ? 0 : segment_bytes - overhead;
  return bytes < ulpdu_bytes_max ? bytes : ulpdu_bytes_max;
}

static_assert(fpdu_bytes(0) == 8 && fpdu_bytes(14) == 20 && fpdu_bytes(1442) == 1448);
static_assert(mulpdu_bytes({.markers = false}, 1448) == 1442, "what siw fills segments with");
static_assert(marker_count(0, 8) == 1 && marker_count(4, 508) == 0 && marker_count(4, 512) == 1);
static_assert(fpdu_stream_bytes({.markers = true}, 0, ulpdu_bytes_max) <= 0xFFFF);

}  // namespace verbena::iwarp
