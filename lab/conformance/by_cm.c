// The steps of a case that go through rdma_cm.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "lab/conformance/pair.h"
#include "lab/conformance/side.h"

enum {
  seed_request = 17,
  seed_reply = 19,
  // Of a connection that isn't about its private data.
  data_bytes_default = 8,
  // What each end asks for differs, so that a swap is seen; both are few enough for any device.
  active_resources = 2,
  active_depth = 3,
  // Of the discard service (RFC 863), which nobody runs over RDMA.
  nobody_port = 9,
  look_again_ms = 100,
  // IBTA vol 1, 12.6.7.2, table of rejection reasons: consumer reject, invalid service ID.
  rejected_by_consumer = 28,
  rejected_no_service = 8,
};

static int data_bytes(const struct side* side) {
  return kind_of(side) >= kind_connect ? (int)side->what->bytes : data_bytes_default;
}

// An event that must come next. Returns 0 if another one does, or none.
static int expect(struct side* side, enum rdma_cm_event_type wanted, struct heard* heard) {
  if (!is_well(side)) {
    return 0;
  }
  if (!hear_event(side->manager, heard, event_limit_ms)) {
    say(side, "no %s in %d s", rdma_event_str(wanted), event_limit_ms / 1000);
    return 0;
  }
  if (heard->type == wanted) {
    return 1;
  }
  say(side, "%s (%d) came instead of %s", rdma_event_str(heard->type), heard->status,
      rdma_event_str(wanted));
  if (heard->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    rdma_destroy_id(heard->id);
  }
  return 0;
}

static void check_data(struct side* side, const struct heard* heard, uint32_t seed) {
  const int bytes = data_bytes(side);
  // InfiniBand's messages have a field of a fixed size, filled with zeros.
  const int is_exact = is_iwarp(side->device);
  if (heard->data_bytes < bytes || (is_exact && heard->data_bytes != bytes)) {
    say(side, "%s brings %d bytes of private data instead of %d", rdma_event_str(heard->type),
        heard->data_bytes, bytes);
    return;
  }
  int is_right = is_filled(heard->data, (uint32_t)bytes, seed);
  for (int i = bytes; i < heard->data_bytes; ++i) {
    is_right = is_right && heard->data[i] == 0;
  }
  if (!is_right) {
    say(side, "the private data of %s is wrong", rdma_event_str(heard->type));
  }
}

static void check_depths(struct side* side, const struct heard* heard, int resources, int depth) {
  if (kind_of(side) >= kind_connect &&
      (heard->responder_resources != resources || heard->initiator_depth != depth)) {
    snprintf(side->remark, sizeof side->remark, "%s tells of depths %d and %d instead of %d and %d",
             rdma_event_str(heard->type), heard->responder_resources, heard->initiator_depth,
             resources, depth);
  }
}

static void make_qp(struct side* side) {
  struct ibv_qp_init_attr attr = qp_attr_of(&side->end, side->what->operation->type);
  if (!is_well(side)) {
    return;
  }
  if (side->id->verbs != side->end.device->context) {
    say(side, "rdma_cm chose another device for this address");
    return;
  }
  check(side, rdma_create_qp(side->id, side->end.pd, &attr) == 0 ? 0 : errno, "rdma_create_qp");
  side->end.qp = side->id->qp;
}

// The private data is of the caller.
static struct rdma_conn_param param_of(const struct side* side, const uint8_t* data, int resources,
                                       int depth) {
  return (struct rdma_conn_param){.private_data = data,
                                  .private_data_len = (uint8_t)data_bytes(side),
                                  .responder_resources = (uint8_t)resources,
                                  .initiator_depth = (uint8_t)depth,
                                  .retry_count = retries,
                                  .rnr_retry_count = retries};
}

static struct sockaddr_storage at_port(const struct sockaddr_storage* address, uint16_t port) {
  struct sockaddr_storage there = *address;
  if (port != 0) {
    // In the same place of both families.
    ((struct sockaddr_in*)&there)->sin_port = htons(port);
  }
  return there;
}

// Returns what rdma_connect() does, as an errno.
static int begin(struct side* side, uint16_t port) {
  struct sockaddr_storage from = side->manager->own, to = at_port(&side->manager->peer, port);
  struct heard heard;
  if (!is_well(side)) {
    return 0;
  }
  check(side, rdma_create_id(side->manager->channel, &side->id, NULL, RDMA_PS_TCP) == 0 ? 0 : errno,
        "rdma_create_id");
  if (is_well(side) && rdma_resolve_addr(side->id, (struct sockaddr*)&from, (struct sockaddr*)&to,
                                         resolve_limit_ms) != 0) {
    check(side, errno, "rdma_resolve_addr");
  }
  if (expect(side, RDMA_CM_EVENT_ADDR_RESOLVED, &heard) &&
      rdma_resolve_route(side->id, resolve_limit_ms) != 0) {
    check(side, errno, "rdma_resolve_route");
  }
  expect(side, RDMA_CM_EVENT_ROUTE_RESOLVED, &heard);
  make_qp(side);
  if (!is_well(side)) {
    return 0;
  }
  uint8_t data[private_data_max];
  fill(data, sizeof data, seed_request);
  struct rdma_conn_param param = param_of(side, data, active_resources, active_depth);
  return rdma_connect(side->id, &param) == 0 ? 0 : errno;
}

static void hear_request(struct side* side) {
  struct heard heard;
  if (!expect(side, RDMA_CM_EVENT_CONNECT_REQUEST, &heard)) {
    return;
  }
  side->id = heard.id;
  check_data(side, &heard, seed_request);
  // What the one can begin is what the other has to serve (rdma_get_cm_event(3)).
  check_depths(side, &heard, active_depth, active_resources);
}

void connect_by_cm(struct side* side) {
  struct heard heard;
  if (side->what->is_initiator) {
    check(side, begin(side, 0), "rdma_connect");
    if (expect(side, RDMA_CM_EVENT_ESTABLISHED, &heard)) {
      check_data(side, &heard, seed_reply);
      check_depths(side, &heard, active_resources, active_depth);
    }
    return;
  }
  hear_request(side);
  make_qp(side);
  if (!is_well(side)) {
    return;
  }
  uint8_t data[private_data_max];
  fill(data, sizeof data, seed_reply);
  struct rdma_conn_param param = param_of(side, data, active_depth, active_resources);
  check(side, rdma_accept(side->id, &param) == 0 ? 0 : errno, "rdma_accept");
  expect(side, RDMA_CM_EVENT_ESTABLISHED, &heard);
}

void expect_disconnected(struct side* side) {
  struct heard heard;
  expect(side, RDMA_CM_EVENT_DISCONNECTED, &heard);
}

void disconnect_by_cm(struct side* side) {
  const int target_begins = kind_of(side) == kind_disconnect_by_target;
  const int begins = target_begins != side->what->is_initiator;
  if (begins && is_well(side)) {
    check(side, rdma_disconnect(side->id) == 0 ? 0 : errno, "rdma_disconnect");
  }
  expect_disconnected(side);
  if (!begins && is_well(side)) {
    // Over InfiniBand that is the answer; iWARP has none, and nothing left to end.
    rdma_disconnect(side->id);
  }
  struct ibv_wc wc;
  if (is_well(side) && wait_completion(side->end.cq, &wc, case_limit_ms) != 1) {
    say(side, "a receive isn't flushed after the end of the connection");
  } else if (is_well(side) && wc.status != IBV_WC_WR_FLUSH_ERR) {
    say(side, "a receive ended with the connection by: %s", ibv_wc_status_str(wc.status));
  }
}

static void reject(struct side* side, struct rdma_cm_id* id) {
  uint8_t data[private_data_max];
  fill(data, sizeof data, seed_reply);
  const int failed = rdma_reject(id, data, (uint8_t)data_bytes(side));
  check(side, failed == 0 ? 0 : errno, "rdma_reject");
}

void reject_again(struct side* side, struct control* control) {
  struct pollfd told = {.fd = fileno(control->in), .events = POLLIN};
  struct heard heard;
  while (is_well(side) && poll(&told, 1, 0) == 0) {
    if (hear_event(side->manager, &heard, look_again_ms) &&
        heard.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      reject(side, heard.id);
      rdma_destroy_id(heard.id);
    }
  }
}

void reject_by_cm(struct side* side) {
  struct heard heard;
  if (!side->what->is_initiator) {
    hear_request(side);
    if (side->id != NULL) {
      reject(side, side->id);
    }
    return;
  }
  check(side, begin(side, 0), "rdma_connect");
  if (expect(side, RDMA_CM_EVENT_REJECTED, &heard)) {
    const int wanted = is_iwarp(side->device) ? -ECONNRESET : rejected_by_consumer;
    if (heard.status != wanted) {
      say(side, "REJECTED has the status %d instead of %d", heard.status, wanted);
    }
    check_data(side, &heard, seed_reply);
  }
}

void connect_to_nobody(struct side* side) {
  struct heard heard;
  if (!side->what->is_initiator) {
    return;
  }
  const int failed = begin(side, nobody_port);
  // A device with a TCP of its own may know at once.
  if (is_iwarp(side->device) && failed == ECONNREFUSED) {
    return;
  }
  check(side, failed, "rdma_connect");
  const int wanted = is_iwarp(side->device) ? -ECONNREFUSED : rejected_no_service;
  if (expect(side, RDMA_CM_EVENT_REJECTED, &heard) && heard.status != wanted) {
    say(side, "REJECTED has the status %d instead of %d", heard.status, wanted);
  }
}

// ENOTSUPP of Linux, which isn't for programs.
enum { kernel_not_supported = 524 };

// 239.86.x.y (RFC 2365: administratively scoped), and ff15::5645:xy (RFC 4291, 2.7: not assigned by
// anybody, for use within a site). Each case has a group of its own: what was sent to that of the
// one before may arrive when this one's members are there.
static struct sockaddr_storage group_address(const struct side* side) {
  struct sockaddr_storage address = {.ss_family = side->manager->own.ss_family};
  const uint16_t number = (uint16_t)side->number;
  if (address.ss_family == AF_INET) {
    ((struct sockaddr_in*)&address)->sin_addr.s_addr = htonl(0xef560000 | number);
  } else {
    struct in6_addr* const group = &((struct sockaddr_in6*)&address)->sin6_addr;
    inet_pton(AF_INET6, "ff15::5645:0", group);
    group->s6_addr[14] = (uint8_t)(number >> 8);
    group->s6_addr[15] = (uint8_t)number;
  }
  return address;
}

void join_group(struct side* side) {
  struct sockaddr_storage own = side->manager->own, group = group_address(side);
  if (!is_well(side)) {
    return;
  }
  if (rdma_create_id(side->manager->channel, &side->id, NULL, RDMA_PS_UDP) != 0) {
    check(side, errno, "rdma_create_id");
  } else if (rdma_bind_addr(side->id, (struct sockaddr*)&own) != 0) {
    check(side, errno, "rdma_bind_addr");
  }
  make_qp(side);
  if (is_well(side) && rdma_join_multicast(side->id, (struct sockaddr*)&group, NULL) != 0) {
    // The kernel joins no group of IPv6 on RoCE v2, and tells it by a number of its own.
    if (errno == kernel_not_supported || errno == EOPNOTSUPP) {
      say(side, "unsupported: rdma_cm joins no group of this version of IP");
    }
    check(side, errno, "rdma_join_multicast");
  }
  struct heard heard;
  if (!expect(side, RDMA_CM_EVENT_MULTICAST_JOIN, &heard)) {
    return;
  }
  errno = 0;
  side->address = ibv_create_ah(side->end.pd, &heard.group);
  side->remote_qpn = heard.group_qpn;
  side->remote_qkey = heard.group_qkey;
  if (side->address == NULL) {
    check(side, errno, "ibv_create_ah");
  }
}
