// One operation between two hosts: what each of them does, and what came of it in words.
#pragma once

#include "lab/conformance/endpoint.h"

struct control;
struct manager;

// What an operation is about.
enum wire_kind {
  // A message arrives; the bytes of a case are the message's.
  kind_transfer,
  // A datagram to a multicast group arrives.
  kind_multicast,
  // A request that the target must refuse: its key is wrong, or it is longer than the receive.
  kind_wrong_key,
  kind_too_long,
  // About the connection; the bytes of a case are those of private data. A short message arrives,
  // and one end disconnects.
  kind_connect,
  kind_disconnect_by_target,
  kind_reject,
  // Nobody listens where the initiator connects to.
  kind_nobody,
};

// An operation of a service. What it needs is told by its opcode.
struct wire_operation {
  const char* name;
  enum ibv_qp_type type;
  enum ibv_wr_opcode opcode;
  enum wire_kind kind;
};

extern const struct wire_operation wire_operations[];
extern const int wire_operation_count;

struct wire_case {
  const struct wire_operation* operation;
  uint32_t bytes;
  enum ibv_mtu mtu;
  int is_initiator;
  // The initiator connects through rdma_cm; else each end changes its queue pair's states.
  int by_cm;
};

enum {
  outcome_bytes_max = 256,
  wire_bytes_max = 1 << 20,
  // Of a message that shows that a connection carries something, and of one that is refused.
  probe_bytes = 64,
};

// Is it about rdma_cm, so that there is no other way?
int needs_cm(const struct wire_operation* operation);

// Does one side's part, in step with the other side over `control`. `outcome` is "ok", perhaps with
// what this end was told, or what went wrong, in words, which begin with "unsupported: " where a
// device lacks something. Returns 0 if the control connection is gone.
int run_wire_case(struct device* device, struct manager* manager, const struct wire_case* what,
                  struct control* control, char outcome[outcome_bytes_max]);
