#include "lab/conformance/pair.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "lab/conformance/pair_by_cm.h"
#include "lab/conformance/report.h"

enum { requester_psn = 0x10, responder_psn = 0xfffff0, receive_id = 100, request_id = 200 };

uint8_t pattern(uint32_t seed, uint32_t position) {
  // Multiplicative hashing (Knuth, The Art of Computer Programming, 6.4).
  return (uint8_t)(((position + seed * 7919u) * 2654435761u) >> 24);
}

void fill(uint8_t* memory, uint32_t bytes, uint32_t seed) {
  for (uint32_t i = 0; i < bytes; ++i) {
    memory[i] = pattern(seed, i);
  }
}

int is_filled(const uint8_t* memory, uint32_t bytes, uint32_t seed) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (memory[i] != pattern(seed, i)) {
      return 0;
    }
  }
  return 1;
}

static int bring_up(struct endpoint* end, const struct endpoint* other, uint32_t psn,
                    uint32_t peer_psn, enum ibv_mtu mtu, uint8_t rnr_retry) {
  const struct peer peer = self(other, peer_psn);
  int result = to_init(end);
  if (result == 0) {
    result = to_rtr(end, &peer, mtu);
  }
  return result == 0 ? to_rts(end, psn, rnr_retry) : result;
}

// By changing states.
static int connect_by_hand(struct pair* pair, enum ibv_qp_type type, enum ibv_mtu mtu,
                           uint8_t rnr_retry) {
  int failed =
      bring_up(&pair->requester, &pair->responder, requester_psn, responder_psn, mtu, rnr_retry);
  if (failed == 0) {
    failed =
        bring_up(&pair->responder, &pair->requester, responder_psn, requester_psn, mtu, rnr_retry);
  }
  if (failed == 0 && type == IBV_QPT_UD) {
    const struct peer peer = self(&pair->responder, 0);
    pair->address = address_of(&pair->requester, &peer);
    failed = pair->address == NULL ? -1 : 0;
  }
  return failed;
}

int open_pair(struct pair* pair, struct device* device, const char* name, enum ibv_qp_type type,
              enum ibv_mtu mtu, uint8_t rnr_retry) {
  *pair = (struct pair){0};
  // rdma_cm makes queue pairs itself. It has no other services on iWARP.
  const int by_cm = device->manager != NULL && type == IBV_QPT_RC;
  struct endpoint* const ends[] = {&pair->requester, &pair->responder};
  int failed = 0;
  for (int i = 0; i < 2 && failed == 0; ++i) {
    failed = by_cm ? open_endpoint_without_qp(ends[i], device, pair_bytes)
                   : open_endpoint(ends[i], device, type, pair_bytes);
  }
  if (failed == 0) {
    failed =
        by_cm ? connect_pair(pair, device->manager) : connect_by_hand(pair, type, mtu, rnr_retry);
  }
  if (failed != 0) {
    observe(name, "connect", "return", "%s", errno_name(failed));
    close_pair(pair);
  }
  return failed;
}

void close_pair(struct pair* pair) {
  if (pair->address != NULL) {
    ibv_destroy_ah(pair->address);
  }
  end_connection(pair);
  close_endpoint(&pair->requester);
  close_endpoint(&pair->responder);
  *pair = (struct pair){0};
}

int post(struct pair* pair, struct ibv_send_wr request, uint32_t bytes) {
  struct endpoint* from = &pair->requester;
  struct ibv_sge piece = {.addr = (uintptr_t)from->memory, .length = bytes, .lkey = from->mr->lkey};
  const struct ibv_sge none = {0};
  request.wr_id = request_id;
  request.send_flags |= IBV_SEND_SIGNALED;
  if (request.sg_list == NULL) {
    request.sg_list = bytes != 0 ? &piece : (struct ibv_sge*)&none;
  }
  if (request.num_sge == 0) {
    request.num_sge = bytes != 0 ? 1 : 0;
  }
  const int is_atomic =
      request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (from->qp->qp_type == IBV_QPT_UD) {
    request.wr.ud.ah = pair->address;
    request.wr.ud.remote_qpn = pair->responder.qp->qp_num;
    if (request.wr.ud.remote_qkey == 0) {
      request.wr.ud.remote_qkey = qkey;
    }
  } else if (is_atomic) {
    request.wr.atomic.remote_addr += (uintptr_t)pair->responder.memory;
    request.wr.atomic.rkey ^= pair->responder.mr->rkey;
  } else {
    // As an offset, and as a difference to what would be right.
    request.wr.rdma.remote_addr += (uintptr_t)pair->responder.memory;
    request.wr.rdma.rkey ^= pair->responder.mr->rkey;
  }
  struct ibv_send_wr* bad = NULL;
  return ibv_post_send(from->qp, &request, &bad);
}

int post_receive(struct pair* pair, uint32_t bytes) {
  struct endpoint* at = &pair->responder;
  struct ibv_sge piece = {.addr = (uintptr_t)at->memory, .length = bytes, .lkey = at->mr->lkey};
  // siw takes no receive without a piece (docs/cross-validation.md).
  const int pieces = bytes != 0 || pair->manager != NULL ? 1 : 0;
  struct ibv_recv_wr request = {.wr_id = receive_id, .sg_list = &piece, .num_sge = pieces};
  struct ibv_recv_wr* bad = NULL;
  return ibv_post_recv(at->qp, &request, &bad);
}

void observe_completion(const char* name, const char* step, struct endpoint* end, int limit_ms) {
  struct ibv_wc wc = {0};
  const int count = wait_completion(end->cq, &wc, limit_ms);
  observe(name, step, "completion", "%s", count == 1 ? ibv_wc_status_str(wc.status) : "none");
  if (count != 1) {
    return;
  }
  observe(name, step, "wr_id", "%u", (unsigned)wc.wr_id);
  observe(name, step, "qp_num is its own", "%d", wc.qp_num == end->qp->qp_num);
  // With an error nothing else means anything (ibv_poll_cq(3)).
  if (wc.status != IBV_WC_SUCCESS) {
    return;
  }
  observe(name, step, "opcode", "%d", wc.opcode);
  observe(name, step, "wc_flags", "0x%x", wc.wc_flags);
  if (wc.opcode & IBV_WC_RECV || wc.opcode == IBV_WC_RDMA_READ) {
    observe(name, step, "byte_len", "%u", wc.byte_len);
  }
  if (wc.wc_flags & IBV_WC_WITH_IMM) {
    observe(name, step, "imm_data", "0x%x", be32toh(wc.imm_data));
  }
}

void observe_state(const char* name, const char* step, struct endpoint* end) {
  static const char* const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  struct ibv_qp_attr attr = {0};
  struct ibv_qp_init_attr init;
  const int result = ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init);
  observe(name, step, "state", "%s", result == 0 ? states[attr.qp_state % 7] : errno_name(result));
}

void observe_events(const char* name, struct device* device) {
  struct pollfd ready = {.fd = device->context->async_fd, .events = POLLIN};
  int count = 0;
  while (poll(&ready, 1, silence_ms) == 1) {
    struct ibv_async_event event;
    if (ibv_get_async_event(device->context, &event) != 0) {
      break;
    }
    char step[32];
    snprintf(step, sizeof step, "event %d", count++);
    observe(name, step, "type", "%s", ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  }
  observe(name, "events", "count", "%d", count);
}
