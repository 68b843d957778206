// What an XRC target needs to know of its domain: the shared receive queues, by number. Read first:
// IBTA vol 1, annex A14.
//
// The requests of a target carry the number of a shared receive queue in their XRCETH. That queue
// is where a message goes, its CQ is told, and its protection domain is the one in which R_Keys are
// looked up.
#pragma once

#include <optional>

#include "base/ids.h"
#include "proto/recv_queue.h"
#include "proto/work.h"

namespace verbena::ib {

class XrcDomain {
 public:
  virtual ~XrcDomain() = default;

  struct Target {
    RecvQueue* queue = nullptr;
    CompletionSink* completions = nullptr;
    PdId pd{};
  };
  /// nullopt if the domain has no such queue.
  [[nodiscard]] virtual std::optional<Target> find(Srqn number) const = 0;
};

}  // namespace verbena::ib
