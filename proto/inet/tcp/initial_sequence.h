// Where the sequence numbers of a connection begin (RFC 6528, 3): at a clock, moved by a hash of
// its two ends that strangers can't compute. So they can't be guessed, and those of the next
// connection between the same ends are ahead of those of the last, which tells its old segments
// from new ones.
#pragma once

#include "base/time.h"
#include "proto/inet/tcp/place.h"
#include "proto/inet/tcp/sequence.h"
#include "proto/inet/tcp/siphash.h"

namespace verbena::inet {

[[nodiscard]] TcpSeq initial_sequence(const SipKey& secret, Time now, const TcpPlace& local,
                                      const TcpPlace& remote);

}  // namespace verbena::inet
