// What a transport state machine may touch while it handles one event: lent for the call.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "proto/counters.h"
#include "proto/memory_access.h"
#include "proto/work.h"

namespace verbena::ib {

struct TransportEnv {
  Time now;
  MemoryAccess& memory;
  Counters& counters;
  /// Goes back to the owner: the status of the completion that told of a queue pair's end.
  WcStatus ended_with = WcStatus::success;
};

/// Whether, and how, an event was the end of a queue pair. The owner of the state machine moves the
/// QP to the error state, flushes both queues and raises the asynchronous event.
enum class QpFailure : std::uint8_t {
  none,
  /// Told through a completion with an error; there is no event besides.
  told_by_completion,
  /// A request of our own, told through its completion; only the send queue is in error (UC and UD:
  /// IBTA vol 1, 10.3.1.6).
  send_queue_error,
  /// The peer's request was invalid: IBV_EVENT_QP_REQ_ERR.
  request_error,
  /// The peer's request had no right to the memory it named: IBV_EVENT_QP_ACCESS_ERR.
  access_error,
};

/// What is left after a turn of transmission.
enum class TransmitResult : std::uint8_t {
  /// Nothing to send now.
  idle,
  /// The budget is used up.
  more,
  /// The sink had no room.
  blocked,
};

}  // namespace verbena::ib
