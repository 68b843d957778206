// rsockets: sockets over reliable connections. Not built yet: every call refuses with EOPNOTSUPP,
// so that programs that link to them load and can run without them.
//
// The functions are defined without their arguments, which on x86-64 a callee may ignore, so that
// one line each is enough. That is also why rsocket.h is not included.

#include <cerrno>

#include "verbs/abi.h"

#define VERBENA_RSOCKET_CALLS(X) \
  X(raccept)                     \
  X(rbind)                       \
  X(rclose)                      \
  X(rconnect)                    \
  X(rfcntl)                      \
  X(rgetpeername)                \
  X(rgetsockname)                \
  X(rgetsockopt)                 \
  X(riomap)                      \
  X(riounmap)                    \
  X(riowrite)                    \
  X(rlisten)                     \
  X(rpoll)                       \
  X(rread)                       \
  X(rreadv)                      \
  X(rrecv)                       \
  X(rrecvfrom)                   \
  X(rrecvmsg)                    \
  X(rselect)                     \
  X(rsend)                       \
  X(rsendmsg)                    \
  X(rsendto)                     \
  X(rsetsockopt)                 \
  X(rshutdown)                   \
  X(rsocket)                     \
  X(rwrite)                      \
  X(rwritev)

#define VERBENA_REFUSE(name)   \
  VERBENA_EXPORT long name() { \
    errno = EOPNOTSUPP;        \
    return -1;                 \
  }
VERBENA_RSOCKET_CALLS(VERBENA_REFUSE)
#undef VERBENA_REFUSE
#undef VERBENA_RSOCKET_CALLS
