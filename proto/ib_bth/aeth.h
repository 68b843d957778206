// The meaning of an AETH: syndromes, NAK codes, RNR timers, credits, and the ACK timeout.
// Read first: IBTA vol 1, 9.7.5.1.2 (AETH) and 9.7.5.2.8 (RNR NAK timer).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/time.h"

namespace verbena::ib {

/// What an AETH says, from the top three bits of its syndrome (IBTA vol 1, table 44).
enum class AethKind : std::uint8_t {
  ack,       ///< 000: the PSN and all before it are acknowledged; the low bits are a credit code.
  rnr_nak,   ///< 001: receiver not ready; the low bits are a timer code.
  nak,       ///< 011: refused; the low bits are a NakCode.
  reserved,  ///< 010 and 1xx.
};

/// Why a request was refused (IBTA vol 1, table 45). Values 5 to 31 are reserved.
enum class NakCode : std::uint8_t {
  psn_sequence_error = 0,
  invalid_request = 1,
  remote_access_error = 2,
  remote_operational_error = 3,
  invalid_rd_request = 4,
};

/// The syndrome byte of an AETH. Every byte is a valid value of this type: kind() tells which of
/// the other accessors has a meaning.
class Syndrome {
 public:
  /// The credit code that says "no credit information" (IBTA vol 1, 9.7.7.2).
  static constexpr std::uint8_t credit_unlimited = 31;
  /// Credit and timer codes are five bits wide.
  static constexpr std::uint8_t code_max = 31;

  constexpr Syndrome() = default;
  [[nodiscard]] static constexpr Syndrome from_byte(std::uint8_t byte) { return Syndrome(byte); }
  /// A positive acknowledgement. `credit_code` is at most code_max.
  [[nodiscard]] static constexpr Syndrome ack(std::uint8_t credit_code = credit_unlimited) {
    return with_code(0b000, credit_code);
  }
  /// Receiver not ready. `timer_code` indexes rnr_timers and is at most code_max.
  [[nodiscard]] static constexpr Syndrome rnr_nak(std::uint8_t timer_code) {
    return with_code(0b001, timer_code);
  }
  [[nodiscard]] static constexpr Syndrome nak(NakCode code) {
    return with_code(0b011, static_cast<std::uint8_t>(code));
  }

  [[nodiscard]] constexpr std::uint8_t to_byte() const { return byte_; }
  [[nodiscard]] constexpr AethKind kind() const {
    switch (byte_ >> 5) {
      case 0b000:
        return AethKind::ack;
      case 0b001:
        return AethKind::rnr_nak;
      case 0b011:
        return AethKind::nak;
      default:
        return AethKind::reserved;
    }
  }
  /// The low five bits: a credit code, a timer code or a NakCode, as kind() says.
  [[nodiscard]] constexpr std::uint8_t code() const { return byte_ & code_max; }
  /// The NAK code of a nak. Reserved codes come through as numbers without a name.
  [[nodiscard]] constexpr NakCode nak_code() const { return NakCode{code()}; }

  friend constexpr bool operator==(Syndrome, Syndrome) = default;

 private:
  constexpr explicit Syndrome(std::uint8_t byte) : byte_(byte) {}
  static constexpr Syndrome with_code(unsigned kind_bits, std::uint8_t code) {
    VERBENA_CHECK(code <= code_max);
    return Syndrome(static_cast<std::uint8_t>(kind_bits << 5 | code));
  }

  std::uint8_t byte_ = 0;
};

static_assert(Syndrome::ack().to_byte() == 0x1F);
static_assert(Syndrome::rnr_nak(12).to_byte() == 0x2C);
static_assert(Syndrome::nak(NakCode::remote_access_error).to_byte() == 0x62);

/// The code in words, "remote access error"; "reserved NAK code" where there is no name.
[[nodiscard]] std::string_view nak_code_name(NakCode code);

/// RNR NAK timer codes (IBTA vol 1, table 46). Code 0 is the longest time, not the shortest.
inline constexpr std::array<Duration, 32> rnr_timers = [] {
  // The table of the specification, in units of 10 microseconds.
  constexpr std::array<std::int64_t, 32> tens_of_us{
      65'536, 1,     2,     3,     4,     6,      8,      12,     16,     24,    32,
      48,     64,    96,    128,   192,   256,    384,    512,    768,    1'024, 1'536,
      2'048,  3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768, 49'152};
  std::array<Duration, 32> timers{};
  for (std::size_t code = 0; code < timers.size(); ++code) {
    timers[code] = Duration(tens_of_us[code] * 10'000);
  }
  return timers;
}();

/// The time for which code `timer_code` (its low five bits) asks the requester to wait.
[[nodiscard]] constexpr Duration rnr_timer(std::uint8_t timer_code) {
  return rnr_timers[timer_code & Syndrome::code_max];
}

/// The code whose time is nearest to `wanted`; of two equally near the shorter.
[[nodiscard]] constexpr std::uint8_t rnr_timer_nearest(Duration wanted) {
  const auto distance = [wanted](std::uint8_t code) {
    const Duration difference = rnr_timers[code] - wanted;
    return difference < Duration::zero() ? -difference : difference;
  };
  std::uint8_t best = 1;
  for (unsigned step = 2; step <= rnr_timers.size(); ++step) {
    const auto code =
        static_cast<std::uint8_t>(step & Syndrome::code_max);  // 0 comes last: it is the longest.
    if (distance(code) < distance(best)) {
      best = code;
    }
  }
  return best;
}

/// End-to-end flow control credits by credit code (IBTA vol 1, table 47): how many receive requests
/// the responder has posted. Code 31 (Syndrome::credit_unlimited) carries no information.
inline constexpr std::array<std::uint32_t, 31> credits{
    0,     1,     2,     3,     4,     6,      8,      12,     16,    24,    32,
    48,    64,    96,    128,   192,   256,    384,    512,    768,   1'024, 1'536,
    2'048, 3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768};

/// The largest credit code that does not promise more than `posted` receive requests.
[[nodiscard]] constexpr std::uint8_t credit_code(std::uint32_t posted) {
  std::uint8_t code = 0;
  while (code + 1U < credits.size() && credits[code + 1U] <= posted) {
    ++code;
  }
  return code;
}

/// The unit of the ACK timeout: 4.096 microseconds (IBTA vol 1, 9.9.2.1.1).
inline constexpr Duration ack_timeout_unit{4'096};

/// How long a requester waits for an acknowledgement: 4.096 µs · 2^code, from the low five bits.
/// Code 0 means that it never times out: nullopt.
[[nodiscard]] constexpr std::optional<Duration> ack_timeout(std::uint8_t code) {
  const unsigned exponent = code & Syndrome::code_max;
  if (exponent == 0) {
    return std::nullopt;
  }
  return ack_timeout_unit * (std::int64_t{1} << exponent);
}

}  // namespace verbena::ib
