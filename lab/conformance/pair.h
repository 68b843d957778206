// Two queue pairs of one process that are connected to each other: the requester and the responder
// of what the role `alone` observes.
#pragma once

#include "lab/conformance/endpoint.h"

struct pair {
  struct endpoint requester;
  struct endpoint responder;
  // Of the responder, for datagrams.
  struct ibv_ah* address;
  // Of a connection that rdma_cm has made (pair_by_cm.h); else NULL.
  struct manager* manager;
  struct rdma_cm_id* requester_id;
  struct rdma_cm_id* responder_id;
};

enum {
  // Of each endpoint's memory.
  pair_bytes = 1 << 20,
  // An emulated machine takes a while for a mebibyte.
  completion_limit_ms = 30000,
  // For what must not come; and what comes by itself, such as a flush, has come by then.
  silence_ms = 1000,
};

// Returns 0 if both are in RTS; else it has printed what failed, and nothing is left. On iWARP the
// device's manager connects them, and there are neither a path MTU nor retries.
int open_pair(struct pair* pair, struct device* device, const char* name, enum ibv_qp_type type,
              enum ibv_mtu mtu, uint8_t rnr_retry);
void close_pair(struct pair* pair);

// A byte of a pattern that no shift or part of it looks like.
uint8_t pattern(uint32_t seed, uint32_t position);
void fill(uint8_t* memory, uint32_t bytes, uint32_t seed);
int is_filled(const uint8_t* memory, uint32_t bytes, uint32_t seed);

// Posts a request for the whole of the requester's first `bytes`, signaled, to the responder's
// memory or receive queue. What `request` says already stays. Returns what ibv_post_send() does.
int post(struct pair* pair, struct ibv_send_wr request, uint32_t bytes);

// Posts a receive for the responder's memory.
int post_receive(struct pair* pair, uint32_t bytes);

// Prints the next completion of an endpoint as `step`, all fields that mean something.
void observe_completion(const char* name, const char* step, struct endpoint* end, int limit_ms);
void observe_state(const char* name, const char* step, struct endpoint* end);
// Prints the events that the device has to tell by now.
void observe_events(const char* name, struct device* device);
