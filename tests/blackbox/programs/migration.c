// Automatic path migration, as a program sees it: two connected queue pairs of one process learn of
// a second way, arm, and one is told to go over to it. The peer follows with the next message.
// Needs a device with two addresses.
//
// Prints what it learns: the state of both ends after each step, and both events.

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/blackbox/programs/connect_rc.h"

static struct ibv_context* context;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static struct ibv_qp* qps[2];
static union ibv_gid gids[2];

static void must(int holds, const char* what) {
  if (!holds) {
    perror(what);
    exit(1);
  }
}

static struct ibv_ah_attr way(int row) { return rc_way_to(gids[row], row); }

static void connect_to(struct ibv_qp* qp, const struct ibv_qp* peer) {
  const struct rc_way first = {.ah = way(0),
                               .peer = peer->qp_num,
                               .mtu = IBV_MTU_1024,
                               .access = IBV_ACCESS_REMOTE_WRITE,
                               .timeout = 14,
                               .retry = 7};
  must(connect_rc(qp, &first) == 0, "connecting");
}

static void rearm(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {
      .path_mig_state = IBV_MIG_REARM, .alt_ah_attr = way(1), .alt_port_num = 1, .alt_timeout = 14};
  must(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH) == 0, "loading the second way");
  must(ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE) == 0, "REARM");
}

// A WRITE from the first to the second.
static void write_once(void) {
  struct ibv_sge sge = {(uintptr_t)mr->addr, 8, mr->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad;
  struct ibv_wc wc;
  int count;
  wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + 64;
  wr.wr.rdma.rkey = mr->rkey;
  must(ibv_post_send(qps[0], &wr, &bad) == 0, "posting");
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  must(count == 1 && wc.status == IBV_WC_SUCCESS, "a WRITE");
}

static void tell_states(const char* when) {
  static const char* const names[] = {"MIGRATED", "REARM", "ARMED"};
  printf("%s:", when);
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    must(ibv_query_qp(qps[i], &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init) == 0, "a query");
    printf(" %s on way %d", names[attr.path_mig_state], attr.ah_attr.grh.sgid_index);
  }
  printf("\n");
}

static void tell_event(void) {
  struct ibv_async_event event;
  must(ibv_get_async_event(context, &event) == 0, "an event");
  // That the connection works is told, too, if a message comes before RTS.
  while (event.event_type == IBV_EVENT_COMM_EST) {
    ibv_ack_async_event(&event);
    must(ibv_get_async_event(context, &event) == 0, "an event");
  }
  printf("event: %s at %s\n", ibv_event_type_str(event.event_type),
         event.element.qp == qps[0] ? "the first" : "the second");
  ibv_ack_async_event(&event);
}

int main(void) {
  static char memory[128];
  struct ibv_device** list = ibv_get_device_list(NULL);
  must(list != NULL && list[0] != NULL && (context = ibv_open_device(list[0])) != NULL, "a device");
  ibv_free_device_list(list);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  must(pd != NULL && cq != NULL, "a CQ");
  mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  must(mr != NULL, "a region");
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qps[i] = ibv_create_qp(pd, &init);
    must(qps[i] != NULL && ibv_query_gid(context, 1, i, &gids[i]) == 0, "a queue pair and a GID");
  }
  connect_to(qps[0], qps[1]);
  connect_to(qps[1], qps[0]);
  tell_states("connected");
  rearm(qps[0]);
  rearm(qps[1]);
  tell_states("rearmed");
  write_once();
  tell_states("after a message");
  struct ibv_qp_attr migrated = {.path_mig_state = IBV_MIG_MIGRATED};
  must(ibv_modify_qp(qps[0], &migrated, IBV_QP_PATH_MIG_STATE) == 0, "MIGRATED");
  tell_event();
  write_once();
  tell_event();
  tell_states("after another");
  must(ibv_destroy_qp(qps[0]) == 0 && ibv_destroy_qp(qps[1]) == 0 && ibv_dereg_mr(mr) == 0 &&
           ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0,
       "cleaning up");
  return 0;
}
