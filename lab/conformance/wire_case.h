// One operation between two hosts: what each of them does, and what came of it in words.
#pragma once

#include "lab/conformance/endpoint.h"

struct control;

// An operation of a service. What it needs is told by its opcode.
struct wire_operation {
  const char* name;
  enum ibv_qp_type type;
  enum ibv_wr_opcode opcode;
};

extern const struct wire_operation wire_operations[];
extern const int wire_operation_count;

struct wire_case {
  const struct wire_operation* operation;
  uint32_t bytes;
  enum ibv_mtu mtu;
  int is_initiator;
};

enum { outcome_bytes_max = 256, wire_bytes_max = 1 << 20 };

// Does one side's part, in step with the other side over `control`. `outcome` is "ok", or what went
// wrong, in words, which begin with "unsupported: " where a device lacks something. Returns 0 if
// the control connection is gone.
int run_wire_case(struct device* device, const struct wire_case* what, struct control* control,
                  char outcome[outcome_bytes_max]);
