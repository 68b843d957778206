// Where a host on a link builds the frames that it sends by itself.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace verbena::inet {

/// Takes whole Ethernet frames without FCS.
class EthernetSink {
 public:
  virtual ~EthernetSink() = default;
  /// Exactly `bytes` of room, or an empty span if there is none now. A reservation that is not
  /// committed is forgotten by the next reserve().
  [[nodiscard]] virtual MutableBytes reserve(std::size_t bytes) = 0;
  /// Sends what was written to the last reservation, all of it.
  virtual void commit() = 0;
};

}  // namespace verbena::inet
