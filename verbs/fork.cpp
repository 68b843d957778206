// fork() needs no preparation for our devices: the NIC reaches memory through the page tables of
// the process, so copy-on-write can't separate a program from its registered pages. In the child,
// contexts opened by the parent are dead (Context::is_dead). Real devices know physical pages, and
// their library keeps those from the child or relies on the kernel to copy them.

#include "verbs/device.h"
#include "verbs/real_verbs.h"

using namespace verbena::verbs;

// Programs call it first, and the real library wants to know before there are registrations.
VERBENA_EXPORT int ibv_fork_init() {
  load_real_devices();
  return has_real_verbs() ? real_verbs().ibv_fork_init() : 0;
}

VERBENA_EXPORT ibv_fork_status ibv_is_fork_initialized() {
  return has_real_verbs() ? real_verbs().ibv_is_fork_initialized() : IBV_FORK_UNNEEDED;
}

VERBENA_EXPORT int ibv_dontfork_range(void* base, std::size_t bytes) {
  return has_real_verbs() ? real_verbs().ibv_dontfork_range(base, bytes) : 0;
}

VERBENA_EXPORT int ibv_dofork_range(void* base, std::size_t bytes) {
  return has_real_verbs() ? real_verbs().ibv_dofork_range(base, bytes) : 0;
}
