// One side's run of a case: what its steps share.
#pragma once

#include "lab/conformance/connection.h"
#include "lab/conformance/control.h"
#include "lab/conformance/wire_case.h"

struct side {
  const struct wire_case* what;
  // Of the case, the same at both ends.
  uint32_t number;
  struct device* device;
  struct manager* manager;
  struct endpoint end;
  struct peer peer;
  struct ibv_mw* window;
  // A second registration of the same memory, whose key a SEND_INV takes away.
  struct ibv_mr* victim;
  struct ibv_ah* address;
  uint32_t remote_qpn;
  uint32_t remote_qkey;
  struct rdma_cm_id* id;
  char* outcome;
  // What differs without a consequence: told if nothing worse is.
  char remark[outcome_bytes_max / 2];
  // What this end learns of a request that is refused; empty for other cases.
  char told[outcome_bytes_max / 2];
};

enum {
  // Behind the message, to see that nothing is written there.
  guard_bytes = 64,
  case_limit_ms = 10000,
};

// The first thing that goes wrong is the outcome; what follows from it isn't told.
void say(struct side* side, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Says which call failed, if it did; `error` is an errno, perhaps negated.
void check(struct side* side, int error, const char* call);
int is_well(const struct side* side);

enum ibv_wr_opcode opcode_of(const struct side* side);
enum wire_kind kind_of(const struct side* side);
int is_atomic(const struct side* side);
int takes_receive(const struct side* side);
// Of the message.
uint32_t message_bytes(const struct side* side);
// In front of a received message.
uint32_t header_bytes(const struct side* side);

// --- How the two ends find each other

// Makes what the case needs but for a queue pair of rdma_cm.
void open_side(struct side* side);
void close_side(struct side* side);

// Tells the other side where memory and queue pair are, and hears the same. Returns 0 if the
// control connection is gone.
int exchange_addresses(struct side* side, struct control* control, char line[line_bytes_max]);

// Makes the queue pair and connects it through rdma_cm, one as the case's initiator and the other
// as its target; what both ends are told of the connection is checked.
void connect_by_cm(struct side* side);
// One end disconnects; both must be told of the end.
void disconnect_by_cm(struct side* side);
// The end of a connection that nobody asked for is told.
void expect_disconnected(struct side* side);
// Is told no, or says it.
void reject_by_cm(struct side* side);
// Says it again to who has lost it and asks again, until the other side says something.
void reject_again(struct side* side, struct control* control);
void connect_to_nobody(struct side* side);
// Makes a queue pair for datagrams, and joins the group of the case.
void join_group(struct side* side);
