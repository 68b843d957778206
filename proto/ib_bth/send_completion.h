// How a request of a send queue completes, the same for all services (IBTA vol 1, 10.8.1).
#pragma once

#include "base/ids.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/send_queue.h"
#include "proto/work.h"

namespace verbena::ib {

/// Counts the oldest request of `queue` and takes it off. It has a completion if it failed, asked
/// for one, or if all requests do (`signal_all`).
void complete_oldest(SendQueue& queue, TransportEnv& env, WcStatus status, Qpn qpn, bool signal_all,
                     CompletionSink& completions);

}  // namespace verbena::ib
