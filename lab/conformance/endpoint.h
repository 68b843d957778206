// A device, opened, and queue pairs on it: what both roles of the conformance program begin with.
// Written against the verbs API alone, so that it runs on any device.
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

// Path MTU, addresses and limits that all queue pairs of a run share.
struct device {
  struct ibv_context* context;
  struct ibv_device_attr attr;
  struct ibv_port_attr port;
  // Row of the GID table that packets are sent from.
  int gid_index;
  union ibv_gid gid;
  // Connects pairs of one process on iWARP (connection.h); else NULL.
  struct manager* manager;
};

// A queue pair with a completion queue, and memory that a peer may do all to.
struct endpoint {
  struct device* device;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory;
  uint32_t bytes;
};

// What a peer must know to connect.
struct peer {
  uint32_t qpn;
  uint32_t psn;
  union ibv_gid gid;
  uint64_t address;
  uint32_t rkey;
};

enum {
  port_number = 1,
  qkey = 0x11111111,
  queue_entries = 16,
  grh_bytes = 40,
  // 4.096 us * 2^16 = 268 ms: far above what an emulated machine needs for an answer, and eight
  // tries are two seconds.
  ack_timeout_code = 16,
  retries = 7,
  rnr_timer_code = 12,  // 0.64 ms
};

// What can't go on ends the program with these words and errno's.
void fatal(const char* what) __attribute__((noreturn));

int is_iwarp(const struct device* device);

// Opens the device of this name, or the first one if it is NULL. Its packets will be RoCE v2 over
// this version of IP (4 or 6) if the device has such a row in its GID table, else what row 0 is.
void open_device(struct device* device, const char* name, int ip_version);

// All but the queue pair. Returns 0, or an errno; then nothing is left.
int open_endpoint_without_qp(struct endpoint* endpoint, struct device* device, uint32_t bytes);
// What a queue pair of this endpoint is made with.
struct ibv_qp_init_attr qp_attr_of(const struct endpoint* endpoint, enum ibv_qp_type type);
// The queue pair is in RESET. Returns 0, or an errno; then nothing is left.
int open_endpoint(struct endpoint* endpoint, struct device* device, enum ibv_qp_type type,
                  uint32_t bytes);
void close_endpoint(struct endpoint* endpoint);

// Each changes the state by all that the specification wants for it, and returns what
// ibv_modify_qp() does.
int to_init(struct endpoint* endpoint);
int to_rtr(struct endpoint* endpoint, const struct peer* peer, enum ibv_mtu mtu);
int to_rts(struct endpoint* endpoint, uint32_t psn, uint8_t rnr_retry);

// How a peer reaches this endpoint.
struct peer self(const struct endpoint* endpoint, uint32_t psn);

// Where a datagram goes. NULL with errno.
struct ibv_ah* address_of(struct endpoint* endpoint, const struct peer* peer);

// As text of hexadecimal digits, and back. The latter returns 0 if it is something else.
enum { gid_text_bytes = 33 };
void write_gid(char text[gid_text_bytes], const union ibv_gid* gid);
int read_gid(const char* text, union ibv_gid* gid);

// Waits for a completion, for `limit_ms` at most. Returns 1 when there is one, 0 when there is
// none, and what ibv_poll_cq() returns if it fails.
int wait_completion(struct ibv_cq* cq, struct ibv_wc* wc, int limit_ms);

// Milliseconds of a clock that only goes forward.
int64_t now_ms(void);
