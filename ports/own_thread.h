// Threads of our own in a program that knows nothing of them.
#pragma once

#include <pthread.h>

#include "base/result.h"

namespace verbena::ports {

/// Starts a thread that takes no signals: those are for the program's own threads. `name` has at
/// most 15 letters. The error is an errno value.
[[nodiscard]] Result<pthread_t, int> start_own_thread(const char* name, void* (*entry)(void*),
                                                      void* argument);

}  // namespace verbena::ports
