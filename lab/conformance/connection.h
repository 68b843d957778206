// Connections and groups through rdma_cm: addresses, events with a time limit, who listens.
#pragma once

#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lab/conformance/endpoint.h"

// What both ends of a run tell each other before its first case.
struct partner {
  union ibv_gid gid;
  // Of its rdma_cm; 0 if it has none.
  uint16_t port;
  // Of its iWARP device, if that isn't the one of the control connection; else of no family.
  struct sockaddr_storage address;
};

// What the cases of a run share. Its address is the one of the device's GID; an iWARP device's,
// whose GID is none, the one of the control connection, unless the user names another.
struct manager {
  // As rdma_cm has opened it: what belongs to a connection is made on this context.
  struct device device;
  struct rdma_event_channel* channel;
  struct rdma_cm_id* listener;
  struct sockaddr_storage own;
  struct sockaddr_storage peer;
};

enum {
  // The kernel's rdma_cm asks again after 4 s: twice that, and an emulated machine's pace.
  event_limit_ms = 20000,
  resolve_limit_ms = 4000,
  // What programs can name (struct rdma_conn_param), and what the REQ of an IB connection holds
  // (IBTA vol 1, A11.4.1: the IP CM service takes 36 of its 92 bytes).
  private_data_max = 255,
  private_data_of_req = 56,
};

// A copy of an event, which is acknowledged.
struct heard {
  enum rdma_cm_event_type type;
  int status;
  struct rdma_cm_id* id;
  uint8_t data[private_data_max];
  int data_bytes;
  int responder_resources;
  int initiator_depth;
  // Of a group that was joined.
  struct ibv_ah_attr group;
  uint32_t group_qpn;
  uint32_t group_qkey;
};

// An IPv4 or IPv6 address without a port. Returns 0 if the text is neither.
int read_address(const char* text, struct sockaddr_storage* address);

// Opens rdma_cm's context of the device, and listens at `port` (0: any). `own` and `peer` are where
// an iWARP device connects from and to. Returns 0, or an errno; then nothing is left, and the port
// is 0.
int open_manager(struct manager* manager, const struct device* device, uint16_t port,
                 const struct sockaddr_storage* own, const struct sockaddr_storage* peer);
void close_manager(struct manager* manager);

// Where it listens; 0 if it doesn't.
uint16_t manager_port(const struct manager* manager);

// Where connections go.
void set_partner(struct manager* manager, const struct partner* partner);

// Waits for the next event. Returns 0 if there is none in time.
int hear_event(struct manager* manager, struct heard* heard, int limit_ms);

// Ends what an earlier case may have left: requests that nobody took.
void drain_events(struct manager* manager);

// An address that a GID of RoCE v2 stands for.
struct sockaddr_storage address_of_gid(const union ibv_gid* gid, uint16_t port);
