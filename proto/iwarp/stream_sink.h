// Where FPDUs are built: whoever owns a byte stream gives room in it.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace verbena::iwarp {

/// Takes the bytes of a stream, one FPDU after the other.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  /// Exactly `bytes` of room, or an empty span if there is none now: nothing is lost, ask again
  /// later. A reservation that is not committed is forgotten by the next reserve().
  [[nodiscard]] virtual MutableBytes reserve(std::size_t bytes) = 0;
  /// Sends what was written to the last reservation, all of it.
  virtual void commit() = 0;
};

}  // namespace verbena::iwarp
