// What arrives when all is well: each operation of each service in several sizes.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/conformance/alone.h"
#include "lab/conformance/pair.h"
#include "lab/conformance/report.h"

enum {
  mtu_bytes = 1024,
  seed_here = 3,
  seed_there = 5,
  immediate = 0x01020304,
  unreliable_limit_ms = 10000
};

struct operation {
  const char* name;
  enum ibv_wr_opcode opcode;
  int takes_receive;
};

static const struct operation operations[] = {
    {"SEND", IBV_WR_SEND, 1},        {"SEND_IMM", IBV_WR_SEND_WITH_IMM, 1},
    {"WRITE", IBV_WR_RDMA_WRITE, 0}, {"WRITE_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, 1},
    {"READ", IBV_WR_RDMA_READ, 0},
};

static int is_for(const struct operation* operation, enum ibv_qp_type type) {
  if (type == IBV_QPT_RC) {
    return 1;
  }
  if (type == IBV_QPT_UC) {
    return operation->opcode != IBV_WR_RDMA_READ;
  }
  return operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_SEND_WITH_IMM;
}

static void observe_message(struct pair* pair, const char* name, const struct operation* operation,
                            uint32_t bytes) {
  struct endpoint *from = &pair->requester, *at = &pair->responder;
  const uint32_t header = from->qp->qp_type == IBV_QPT_UD ? grh_bytes : 0;
  fill(from->memory, pair_bytes, seed_here);
  fill(at->memory, pair_bytes, seed_there);
  if (operation->takes_receive) {
    observe(name, "post_recv", "return", "%s", errno_name(post_receive(pair, bytes + header)));
  }
  struct ibv_send_wr request = {.opcode = operation->opcode};
  request.imm_data = htobe32(immediate);
  const int result = post(pair, request, bytes);
  observe(name, "post_send", "return", "%s", errno_name(result));
  if (result != 0) {
    return;
  }
  observe_completion(name, "requester", from, completion_limit_ms);
  if (operation->takes_receive) {
    observe_completion(name, "responder", at, completion_limit_ms);
  }
  const int is_read = operation->opcode == IBV_WR_RDMA_READ;
  struct endpoint* taker = is_read ? from : at;
  const uint32_t seed = is_read ? seed_there : seed_here;
  // A WRITE over UC has no completion where it arrives, one over iWARP is complete before it does.
  const int is_told = from->qp->qp_type != IBV_QPT_UC && pair->manager == NULL;
  const int64_t deadline = now_ms() + (is_told ? 0 : unreliable_limit_ms);
  while (!is_filled(taker->memory + header, bytes, seed) && now_ms() < deadline) {
    usleep(1000);
  }
  observe(name, "memory", "right", "%d", is_filled(taker->memory + header, bytes, seed));
  // What lies behind the message must be as it was.
  uint8_t behind[64];
  fill(behind, sizeof behind, 0);
  for (uint32_t i = 0; i < sizeof behind; ++i) {
    behind[i] = pattern(is_read ? seed_here : seed_there, header + bytes + i);
  }
  const uint32_t room = pair_bytes - header - bytes;
  observe(name, "memory", "behind it untouched", "%d",
          memcmp(taker->memory + header + bytes, behind, room < 64 ? room : 64) == 0);
}

static void observe_sizes(struct device* device, enum ibv_qp_type type, const char* service) {
  static const uint32_t sizes[] = {0,     1,         mtu_bytes - 1, mtu_bytes, mtu_bytes + 1,
                                   65536, pair_bytes};
  for (size_t i = 0; i < sizeof operations / sizeof *operations; ++i) {
    if (!is_for(&operations[i], type)) {
      continue;
    }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
      if (type == IBV_QPT_UD && sizes[k] > mtu_bytes) {
        continue;
      }
      // Unreliable ones lose what a busy machine drops.
      if (type == IBV_QPT_UC && sizes[k] > mtu_bytes + 1) {
        continue;
      }
      char name[64];
      snprintf(name, sizeof name, "%s %s %u", service, operations[i].name, sizes[k]);
      struct pair pair;
      if (open_pair(&pair, device, name, type, IBV_MTU_1024, 7) != 0) {
        continue;
      }
      observe_message(&pair, name, &operations[i], sizes[k]);
      close_pair(&pair);
    }
  }
}

static uint64_t word_at(const struct endpoint* end) {
  uint64_t word;
  memcpy(&word, end->memory, sizeof word);
  return word;
}

static void observe_atomic(struct device* device, const char* name, enum ibv_wr_opcode opcode,
                           uint64_t compare, uint64_t value) {
  struct pair pair;
  if (open_pair(&pair, device, name, IBV_QPT_RC, IBV_MTU_1024, 7) != 0) {
    return;
  }
  const uint64_t before = 0xfffffffffffffff0;
  memcpy(pair.responder.memory, &before, sizeof before);
  struct ibv_send_wr request = {.opcode = opcode};
  request.wr.atomic.compare_add = compare;
  request.wr.atomic.swap = value;
  const int result = post(&pair, request, sizeof before);
  observe(name, "post_send", "return", "%s", errno_name(result));
  if (result == 0) {
    observe_completion(name, "requester", &pair.requester, completion_limit_ms);
    observe(name, "memory", "before", "0x%llx", (unsigned long long)word_at(&pair.requester));
    observe(name, "memory", "after", "0x%llx", (unsigned long long)word_at(&pair.responder));
  }
  close_pair(&pair);
}

void observe_traffic(struct device* device) {
  observe_sizes(device, IBV_QPT_RC, "RC");
  observe_sizes(device, IBV_QPT_UC, "UC");
  observe_sizes(device, IBV_QPT_UD, "UD");
  observe_atomic(device, "RC CAS that swaps", IBV_WR_ATOMIC_CMP_AND_SWP, 0xfffffffffffffff0, 7);
  observe_atomic(device, "RC CAS that doesn't", IBV_WR_ATOMIC_CMP_AND_SWP, 1, 7);
  observe_atomic(device, "RC FAA past the end", IBV_WR_ATOMIC_FETCH_AND_ADD, 0x20, 0);
}
