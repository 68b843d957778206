// What happens when something is wrong: with a request, with a key, with a receive that isn't
// there.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lab/conformance/alone.h"
#include "lab/conformance/pair_by_cm.h"
#include "lab/conformance/report.h"

enum { small = 64, wrong_key = 0x00ffff00 };

// A request that fails at the peer or here, and all that both sides see of it.
struct failure {
  const char* name;
  enum ibv_wr_opcode opcode;
  uint32_t bytes;
  // Added to the right remote address; XORed with the right key.
  uint64_t offset;
  uint32_t key_difference;
  // Posted at the peer before; none if 0.
  uint32_t receive_bytes;
  // Tells to expect an answer only after all tries.
  uint8_t rnr_retry;
};

static const struct failure failures[] = {
    {"WRITE, wrong key", IBV_WR_RDMA_WRITE, small, 0, wrong_key, 0, 7},
    {"WRITE, beyond the region", IBV_WR_RDMA_WRITE, small, pair_bytes - 1, 0, 0, 7},
    {"WRITE, long, beyond the region", IBV_WR_RDMA_WRITE, 8192, pair_bytes - 4096, 0, 0, 7},
    {"WRITE of nothing, wrong key", IBV_WR_RDMA_WRITE, 0, 0, wrong_key, 0, 7},
    {"READ, wrong key", IBV_WR_RDMA_READ, small, 0, wrong_key, 0, 7},
    {"READ, beyond the region", IBV_WR_RDMA_READ, small, pair_bytes - 1, 0, 0, 7},
    {"FAA, wrong key", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, wrong_key, 0, 7},
    {"FAA, not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4, 0, 0, 7},
    {"FAA, 4 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 0, 0, 7},
    {"SEND, longer than the receive", IBV_WR_SEND, small, 0, 0, small - 1, 7},
    {"SEND, much longer than the receive", IBV_WR_SEND, 8192, 0, 0, 4096, 7},
    {"SEND, no receive, no retry", IBV_WR_SEND, small, 0, 0, 0, 0},
    {"SEND, no receive, two retries", IBV_WR_SEND, small, 0, 0, 0, 2},
    {"SEND_INV of a key that nobody has", IBV_WR_SEND_WITH_INV, small, 0, 0, small, 7},
};

static void observe_failure(struct device* device, const struct failure* failure) {
  struct pair pair;
  if (open_pair(&pair, device, failure->name, IBV_QPT_RC, IBV_MTU_1024, failure->rnr_retry) != 0) {
    return;
  }
  if (failure->receive_bytes != 0) {
    post_receive(&pair, failure->receive_bytes);
  }
  struct ibv_send_wr request = {.opcode = failure->opcode};
  if (failure->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = failure->offset;
    request.wr.atomic.rkey = failure->key_difference;
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = failure->offset;
    request.wr.rdma.rkey = failure->key_difference;
  }
  if (failure->opcode == IBV_WR_SEND_WITH_INV) {
    request.invalidate_rkey = wrong_key;
    // siw's library sends this one (docs/cross-validation.md).
    request.wr.rdma.rkey = wrong_key;
  }
  const char* name = failure->name;
  const int result = post(&pair, request, failure->bytes);
  observe(name, "post_send", "return", "%s", errno_name(result));
  if (result == 0) {
    observe_completion(name, "requester", &pair.requester, completion_limit_ms);
    if (pair.manager != NULL) {
      // A refusal comes after the completion there, and ends the connection.
      observe_end(&pair, name, completion_limit_ms);
    }
    observe_state(name, "requester", &pair.requester);
    observe_completion(name, "responder", &pair.responder, silence_ms);
    observe_state(name, "responder", &pair.responder);
    const struct ibv_send_wr next = {.opcode = IBV_WR_SEND};
    observe(name, "the next request", "return", "%s", errno_name(post(&pair, next, small)));
    observe_completion(name, "the next request", &pair.requester, silence_ms);
  }
  observe_events(name, device);
  close_pair(&pair);
}

// Requests that never leave.
static void observe_bad_requests(struct device* device) {
  struct pair pair;
  const char* name = "bad requests";
  if (open_pair(&pair, device, name, IBV_QPT_RC, IBV_MTU_1024, 7) != 0) {
    return;
  }
  struct endpoint* from = &pair.requester;
  struct ibv_sge pieces[3];
  for (int i = 0; i < 3; ++i) {
    pieces[i] = (struct ibv_sge){(uintptr_t)from->memory, small, from->mr->lkey};
  }
  struct ibv_send_wr request = {.opcode = IBV_WR_SEND, .sg_list = pieces, .num_sge = 3};
  observe(name, "more SGEs than the queue pair has", "return", "%s",
          errno_name(post(&pair, request, small)));
  request = (struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
  observe(name, "inline, which the queue pair has not", "return", "%s",
          errno_name(post(&pair, request, 65536)));
  request = (struct ibv_send_wr){.opcode = (enum ibv_wr_opcode)77};
  observe(name, "no such operation", "return", "%s", errno_name(post(&pair, request, small)));
  observe_state(name, "after that", from);
  close_pair(&pair);
}

static void observe_local_key(struct device* device) {
  struct pair pair;
  const char* name = "SEND, wrong local key";
  if (open_pair(&pair, device, name, IBV_QPT_RC, IBV_MTU_1024, 7) != 0) {
    return;
  }
  post_receive(&pair, small);
  struct ibv_sge piece = {(uintptr_t)pair.requester.memory, small,
                          pair.requester.mr->lkey ^ wrong_key};
  const struct ibv_send_wr request = {.opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1};
  observe(name, "post_send", "return", "%s", errno_name(post(&pair, request, small)));
  observe_completion(name, "requester", &pair.requester, completion_limit_ms);
  observe_state(name, "requester", &pair.requester);
  close_pair(&pair);
}

static void observe_full_queue(struct device* device) {
  struct pair pair;
  const char* name = "full receive queue";
  if (open_pair(&pair, device, name, IBV_QPT_RC, IBV_MTU_1024, 7) != 0) {
    return;
  }
  int count = 0, result = 0;
  // More than any device rounds up to.
  while (count < 4096 && (result = post_receive(&pair, small)) == 0) {
    ++count;
  }
  observe(name, "post_recv", "at least as many as asked", "%d", count >= queue_entries);
  observe(name, "post_recv", "return", "%s", errno_name(result));
  close_pair(&pair);
}

// Datagrams that aren't for their receiver vanish; only the sender's completion tells anything.
static void observe_datagrams(struct device* device) {
  struct pair pair;
  const char* name = "UD, wrong Q_Key";
  if (open_pair(&pair, device, name, IBV_QPT_UD, IBV_MTU_1024, 7) != 0) {
    return;
  }
  post_receive(&pair, small + grh_bytes);
  struct ibv_send_wr request = {.opcode = IBV_WR_SEND};
  request.wr.ud.remote_qkey = qkey + 1;
  observe(name, "post_send", "return", "%s", errno_name(post(&pair, request, small)));
  observe_completion(name, "requester", &pair.requester, completion_limit_ms);
  observe_completion(name, "responder", &pair.responder, silence_ms);
  request.wr.ud.remote_qkey = 0;
  name = "UD, longer than the MTU";
  observe(name, "post_send", "return", "%s", errno_name(post(&pair, request, 65536)));
  observe_completion(name, "requester", &pair.requester, silence_ms);
  close_pair(&pair);
}

void observe_failures(struct device* device) {
  for (size_t i = 0; i < sizeof failures / sizeof *failures; ++i) {
    observe_failure(device, &failures[i]);
  }
  observe_bad_requests(device);
  observe_local_key(device);
  observe_full_queue(device);
  observe_datagrams(device);
}
