// Pairs of queue pairs that rdma_cm connects, as iWARP wants it (pair.h).
#pragma once

#include "lab/conformance/connection.h"
#include "lab/conformance/pair.h"

// Connects the endpoints, which have all but their queue pairs, to each other. Returns 0 when both
// ends were told so, or an errno.
int connect_pair(struct pair* pair, struct manager* manager);

// Frees what belongs to the connection, queue pairs included.
void end_connection(struct pair* pair);

// Waits until both ends were told that the connection has ended, for `limit_ms` at most, and prints
// which of them were.
void observe_end(struct pair* pair, const char* name, int limit_ms);
