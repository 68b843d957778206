// fork() needs no preparation: the NIC reaches memory through the page tables of the process, so
// copy-on-write can't separate a program from its registered pages. In the child, contexts opened
// by the parent are dead (Context::is_dead).

#include "verbs/abi.h"

VERBENA_EXPORT int ibv_fork_init() { return 0; }

VERBENA_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

VERBENA_EXPORT int ibv_dontfork_range(void*, std::size_t) { return 0; }

VERBENA_EXPORT int ibv_dofork_range(void*, std::size_t) { return 0; }
