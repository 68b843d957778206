/* Many queue pairs in one process, connected to each other in twos: each even one writes 8 bytes
 * into the memory of the process through the next one.
 *
 *   many_qps NUMBER
 *
 * Prints how many wrote, and ends with 0 if all did and the bytes are there.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/blackbox/programs/connect_rc.h"

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static struct ibv_context* open_first_device(void) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  struct ibv_context* context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
  if (!context) fail("no device");
  ibv_free_device_list(devices);
  return context;
}

static void connect_to(struct ibv_qp* qp, uint32_t peer, const union ibv_gid* gid) {
  const struct rc_way way = {.ah = rc_way_to(*gid, 0),
                             .peer = peer,
                             .mtu = IBV_MTU_1024,
                             .access = IBV_ACCESS_REMOTE_WRITE,
                             .timeout = 18,
                             .retry = 7,
                             .rnr_retry = 7};
  if (connect_rc(qp, &way)) fail("connecting");
}

int main(int argc, char** argv) {
  const int number = argc > 1 ? atoi(argv[1]) & ~1 : 0;
  struct ibv_context* context = open_first_device();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, number, NULL, NULL, 0);
  uint64_t* memory = calloc((size_t)number, sizeof(*memory));
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, (size_t)number * sizeof(*memory),
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp** qps = calloc((size_t)number, sizeof(*qps));
  union ibv_gid gid;
  if (!pd || !cq || !mr || ibv_query_gid(context, 1, 0, &gid)) fail("setup");
  for (int i = 0; i < number; ++i) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    qps[i] = ibv_create_qp(pd, &init);
    if (!qps[i]) fail("ibv_create_qp");
    memory[i] = i % 2 ? 0 : qps[i]->qp_num;
  }
  for (int i = 0; i < number; ++i) connect_to(qps[i], qps[i ^ 1]->qp_num, &gid);
  for (int i = 0; i < number; i += 2) {
    struct ibv_sge sge = {(uintptr_t)&memory[i], sizeof(*memory), mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)i,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {(uintptr_t)&memory[i + 1], mr->rkey}};
    if (ibv_post_send(qps[i], &wr, &bad)) fail("ibv_post_send");
  }
  int written = 0;
  while (written < number / 2) {
    struct ibv_wc wc;
    const int got = ibv_poll_cq(cq, 1, &wc);
    if (got < 0 || (got > 0 && wc.status != IBV_WC_SUCCESS)) fail("completion");
    if (got > 0 && memory[wc.wr_id + 1] != memory[wc.wr_id]) fail("data");
    written += got;
  }
  printf("%d of %d queue pairs wrote\n", written, number);
  fflush(stdout);
  for (int i = 0; i < number; ++i)
    if (ibv_destroy_qp(qps[i])) fail("ibv_destroy_qp");
  ibv_dereg_mr(mr);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  return 0;
}
