// The options of a SYN that we know: maximum segment size (RFC 9293, 3.7.1) and window scale (RFC
// 7323, 2). All others are passed over, as a receiver must (RFC 9293, 3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace verbena::inet {

/// What a peer takes that doesn't say (RFC 9293, 3.7.1).
inline constexpr std::uint16_t tcp_mss_default = 536;
/// A peer that says it takes less is sent segments of this size all the same: else each byte of a
/// stream could be made to cost a frame. Linux's tcp_min_snd_mss: 40 bytes of options and 8 of
/// data; no host may have less than 28 (RFC 791, 3.2: every network carries 68 bytes).
inline constexpr std::uint16_t tcp_mss_min = 48;
/// RFC 7323, 2.3: a larger shift is used as this one.
inline constexpr std::uint8_t tcp_window_shift_max = 14;

struct TcpSynOptions {
  std::optional<std::uint16_t> mss;
  std::optional<std::uint8_t> window_shift;

  friend constexpr bool operator==(const TcpSynOptions&, const TcpSynOptions&) = default;
};

/// Options that are cut short or have a length that can't be end the list; what came before counts.
[[nodiscard]] TcpSynOptions parse_syn_options(ByteView options);

/// A multiple of four, 0 if none is set.
[[nodiscard]] std::size_t syn_options_bytes(const TcpSynOptions& options);
/// Fills `bytes`, which has that size.
void emit_syn_options(MutableBytes bytes, const TcpSynOptions& options);

}  // namespace verbena::inet
