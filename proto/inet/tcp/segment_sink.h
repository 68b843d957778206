// Where segments are built: the connection asks for room, writes header and payload straight into
// it and commits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace verbena::inet {

/// Why a segment is sent again.
enum class TcpResend : std::uint8_t {
  none,            ///< It is new.
  timeout,         ///< Nobody acknowledged it in time.
  duplicate_acks,  ///< What was sent behind it has arrived: fast retransmit.
};

/// Takes segments, from the TCP header on, without a checksum.
class TcpSegmentSink {
 public:
  virtual ~TcpSegmentSink() = default;
  /// Exactly `bytes` of room, or an empty span if there is none now: nothing is lost, ask again
  /// later. A reservation that is not committed is forgotten by the next reserve().
  [[nodiscard]] virtual MutableBytes reserve(std::size_t bytes) = 0;
  /// Sends what was written to the last reservation, all of it.
  virtual void commit(TcpResend why) = 0;
};

}  // namespace verbena::inet
