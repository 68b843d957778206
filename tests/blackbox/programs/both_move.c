/* Moves data by two devices at once, in one process: a queue pair of each, connected to itself,
 * WRITEs, READs back, and SENDs by turns, and waits for completions by sleeping on the channels.
 *
 *   both_move DEVICE GID_INDEX DEVICE GID_INDEX
 *
 * Prints the devices' names and "moved". */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/blackbox/programs/connect_rc.h"

enum { message_bytes = 8192, rounds = 20 };

struct side {
  const char* name;
  struct ibv_context* context;
  struct ibv_comp_channel* channel;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char memory[3][message_bytes]; /* sent, written or received, read back */
};

static void must(int holds, const char* what) {
  if (!holds) {
    perror(what);
    exit(1);
  }
}

static void open_side(struct side* side, const char* name, int gid_index) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  for (int i = 0; list && list[i]; ++i)
    if (!strcmp(ibv_get_device_name(list[i]), name)) side->context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  must(side->context != NULL, name);
  side->name = name;
  side->channel = ibv_create_comp_channel(side->context);
  side->pd = ibv_alloc_pd(side->context);
  must(side->channel && side->pd, "a channel and a PD");
  side->cq = ibv_create_cq(side->context, 16, side, side->channel, 0);
  side->mr = ibv_reg_mr(side->pd, side->memory, sizeof side->memory,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  must(side->cq && side->mr, "a CQ and an MR");
  struct ibv_qp_init_attr init = {
      .send_cq = side->cq, .recv_cq = side->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  init.cap.max_send_wr = init.cap.max_recv_wr = 8;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  side->qp = ibv_create_qp(side->pd, &init);
  union ibv_gid gid;
  must(side->qp && ibv_query_gid(side->context, 1, gid_index, &gid) == 0, "a queue pair");
  const struct rc_way way = {.ah = rc_way_to(gid, gid_index),
                             .peer = side->qp->qp_num,
                             .mtu = IBV_MTU_1024,
                             .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
                             .timeout = 14,
                             .retry = 7,
                             .rnr_retry = 7,
                             .rd_atomic = 1};
  errno = connect_rc(side->qp, &way);
  must(errno == 0, "connecting");
}

static void post(struct side* side, enum ibv_wr_opcode opcode, int from, int to) {
  struct ibv_sge sge = {(uintptr_t)side->memory[from], message_bytes, side->mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};
  struct ibv_send_wr* bad;
  wr.wr.rdma.remote_addr = (uintptr_t)side->memory[to];
  wr.wr.rdma.rkey = side->mr->rkey;
  must(ibv_post_send(side->qp, &wr, &bad) == 0, "posting");
}

static void post_receive(struct side* side) {
  struct ibv_sge sge = {(uintptr_t)side->memory[1], message_bytes, side->mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad;
  must(ibv_post_recv(side->qp, &wr, &bad) == 0, "posting a receive");
}

/* Sleeps until so many have completed. */
static void await_completions(struct side* side, int count) {
  while (count > 0) {
    must(ibv_req_notify_cq(side->cq, 0) == 0, "arming");
    struct ibv_wc wc;
    int got = ibv_poll_cq(side->cq, 1, &wc);
    must(got >= 0 && (got == 0 || wc.status == IBV_WC_SUCCESS), "a completion");
    count -= got;
    if (got > 0) continue;
    struct ibv_cq* cq;
    void* cookie;
    must(ibv_get_cq_event(side->channel, &cq, &cookie) == 0, "an event");
    must(cq == side->cq && cookie == side, "the event's queue");
    ibv_ack_cq_events(cq, 1);
  }
}

static void close_side(struct side* side) {
  must(ibv_destroy_qp(side->qp) == 0 && ibv_dereg_mr(side->mr) == 0 &&
           ibv_destroy_cq(side->cq) == 0 && ibv_destroy_comp_channel(side->channel) == 0 &&
           ibv_dealloc_pd(side->pd) == 0 && ibv_close_device(side->context) == 0,
       side->name);
}

int main(int argc, char** argv) {
  static struct side sides[2];
  must(argc == 5, "arguments");
  for (int i = 0; i < 2; ++i) open_side(&sides[i], argv[1 + 2 * i], atoi(argv[2 + 2 * i]));
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      memset(sides[i].memory[0], 2 * round + i + 1, message_bytes);
      post(&sides[i], IBV_WR_RDMA_WRITE, 0, 1);
      post(&sides[i], IBV_WR_RDMA_READ, 2, 1);
    }
    for (int i = 0; i < 2; ++i) {
      await_completions(&sides[i], 2);
      must(memcmp(sides[i].memory[0], sides[i].memory[2], message_bytes) == 0, "what came back");
      memset(sides[i].memory[1], 0, message_bytes);
      post_receive(&sides[i]);
      post(&sides[i], IBV_WR_SEND, 0, 0);
    }
    for (int i = 0; i < 2; ++i) {
      await_completions(&sides[i], 2);
      must(memcmp(sides[i].memory[0], sides[i].memory[1], message_bytes) == 0, "what was received");
    }
  }
  printf("%s %s moved\n", sides[0].name, sides[1].name);
  for (int i = 0; i < 2; ++i) close_side(&sides[i]);
  return 0;
}
