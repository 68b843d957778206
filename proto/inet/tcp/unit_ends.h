// Where the units end that a stream is made of, as far as it isn't acknowledged: segments are cut
// there. An FPDU that lies in one segment can be placed when it comes, whatever was lost before it
// (RFC 5044, 5: FPDU alignment).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "proto/inet/tcp/sequence.h"

namespace verbena::inet {

class UnitEnds {
 public:
  /// More than a buffer of 1 MiB holds of units that fill an Ethernet frame each. Beyond that units
  /// are joined, and cut wherever a segment ends.
  static constexpr std::size_t ends_max = 1024;

  /// A unit of bytes up to `end`, behind all others. Small ones that aren't sent yet, those behind
  /// `sent`, are joined as long as a segment of `segment_bytes` holds them.
  void add(TcpSeq begin, TcpSeq end, TcpSeq sent, std::uint32_t segment_bytes);
  /// What lies before `front` isn't asked for any more.
  void drop_until(TcpSeq front);

  /// The last end of a unit in the `bytes` behind `from`.
  [[nodiscard]] std::optional<TcpSeq> last_within(TcpSeq from, std::uint32_t bytes) const;
  /// The first one behind `from`.
  [[nodiscard]] std::optional<TcpSeq> first_behind(TcpSeq from) const;

 private:
  [[nodiscard]] TcpSeq& at(std::size_t index) const { return ends_[(first_ + index) % ends_max]; }
  /// How many ends are not behind `place`.
  [[nodiscard]] std::size_t count_until(TcpSeq place) const;

  /// There when the first is added.
  std::unique_ptr<TcpSeq[]> ends_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  /// Where the last one begins.
  TcpSeq last_begin_;
};

}  // namespace verbena::inet
