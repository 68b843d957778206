// How long a mebibyte of WRITEs takes that a queue pair, connected to itself, sends at a limited
// rate.
//
//   rated KBPS
//
// Prints milliseconds. KBPS 0: without a limit.

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/blackbox/programs/connect_rc.h"

enum { message_bytes = 16384, messages = 64 };

static void must(int holds, const char* what) {
  if (!holds) {
    perror(what);
    exit(1);
  }
}

static void connect_to_itself(struct ibv_qp* qp, const union ibv_gid* gid) {
  struct rc_way way = {.ah = rc_way_to(*gid, 0),
                       .peer = qp->qp_num,
                       .mtu = IBV_MTU_4096,
                       .access = IBV_ACCESS_REMOTE_WRITE,
                       .timeout = 18,
                       .retry = 7};
  way.ah.static_rate = IBV_RATE_100_GBPS;
  must(connect_rc(qp, &way) == 0, "connecting");
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  must(ibv_query_qp(qp, &attr, IBV_QP_AV, &init) == 0, "a query");
  must(attr.ah_attr.static_rate == IBV_RATE_100_GBPS, "the rate of the way");
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  static char memory[2 * message_bytes];
  const int kbps = argc > 1 ? atoi(argv[1]) : 0;
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = list != NULL && list[0] != NULL ? ibv_open_device(list[0]) : NULL;
  must(context != NULL, "a device");
  ibv_free_device_list(list);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, messages, NULL, NULL, 0);
  must(pd != NULL && cq != NULL, "a CQ");
  struct ibv_mr* mr =
      ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp_init_attr init = {
      .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
  init.cap.max_send_wr = messages;
  init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  union ibv_gid gid;
  must(mr != NULL && qp != NULL && ibv_query_gid(context, 1, 0, &gid) == 0, "a queue pair");
  connect_to_itself(qp, &gid);
  struct ibv_qp_rate_limit_attr rate = {.rate_limit = (uint32_t)kbps};
  must(ibv_modify_qp_rate_limit(qp, &rate) == 0, "the rate");

  const double begin = now_ms();
  for (int i = 0; i < messages; ++i) {
    struct ibv_sge sge = {(uintptr_t)memory, message_bytes, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    struct ibv_send_wr* bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + message_bytes;
    wr.wr.rdma.rkey = mr->rkey;
    must(ibv_post_send(qp, &wr, &bad) == 0, "posting");
  }
  for (int done = 0; done < messages;) {
    struct ibv_wc wc;
    const int count = ibv_poll_cq(cq, 1, &wc);
    must(count >= 0 && (count == 0 || wc.status == IBV_WC_SUCCESS), "a WRITE");
    done += count;
  }
  printf("%.3f\n", now_ms() - begin);
  must(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 &&
           ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0,
       "cleaning up");
  return 0;
}
