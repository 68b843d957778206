#include "ports/own_thread.h"

#include <csignal>

namespace verbena::ports {

Result<pthread_t, int> start_own_thread(const char* name, void* (*entry)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, entry, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return std::unexpected(error);
  }
  pthread_setname_np(thread, name);
  return thread;
}

}  // namespace verbena::ports
