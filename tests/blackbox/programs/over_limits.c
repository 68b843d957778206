// Asks a device for a bit more than it says it has, and for what it may not have at all. Prints one
// line for each: its name, and the error number that came, 0 for none.

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/blackbox/programs/connect_rc.h"

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_device_attr_ex attr;
static union ibv_gid gid;

static void say(const char* what, int error) { printf("%s %d\n", what, error); }

// Outcomes of verbs that return an object, and of those that return an error number.
#define ASK(what, create, destroy)         \
  do {                                     \
    errno = 0;                             \
    void* object = (create);               \
    say(what, object == NULL ? errno : 0); \
    if (object != NULL) destroy(object);   \
  } while (0)

static void must(int holds, const char* what) {
  if (!holds) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
  }
}

static struct ibv_qp_init_attr small_qp(enum ibv_qp_type type) {
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = type, .sq_sig_all = 1};
  init.cap.max_send_wr = init.cap.max_recv_wr = 4;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  return init;
}

static void ask_qp(const char* what, struct ibv_qp_init_attr init) {
  ASK(what, ibv_create_qp(pd, &init), ibv_destroy_qp);
}

static void ask_caps(void) {
  const struct ibv_device_attr* limits = &attr.orig_attr;
  struct ibv_qp_init_attr init = small_qp(IBV_QPT_RC);
  ask_qp("rc", init);
  init.cap.max_send_wr = limits->max_qp_wr + 1;
  ask_qp("send_wr", init);
  init = small_qp(IBV_QPT_RC);
  init.cap.max_recv_wr = limits->max_qp_wr + 1;
  ask_qp("recv_wr", init);
  init = small_qp(IBV_QPT_RC);
  init.cap.max_send_sge = limits->max_sge + 1;
  ask_qp("send_sge", init);
  init = small_qp(IBV_QPT_RC);
  init.cap.max_recv_sge = limits->max_sge + 1;
  ask_qp("recv_sge", init);
  init = small_qp(IBV_QPT_RC);
  init.cap.max_inline_data = 1 << 20;
  ask_qp("inline", init);
  ask_qp("uc", small_qp(IBV_QPT_UC));
  ask_qp("ud", small_qp(IBV_QPT_UD));
  ask_qp("xrc", small_qp(IBV_QPT_XRC_SEND));
  ASK("cqe", ibv_create_cq(context, limits->max_cqe + 1, NULL, NULL, 0), ibv_destroy_cq);
}

static void ask_objects(void) {
  const struct ibv_device_attr* limits = &attr.orig_attr;
  static char page[4096];
  struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
  ASK("srq", ibv_create_srq(pd, &srq), ibv_destroy_srq);
  srq.attr.max_wr = limits->max_srq_wr + 1;
  ASK("srq_wr", ibv_create_srq(pd, &srq), ibv_destroy_srq);
  srq.attr.max_wr = 4;
  srq.attr.max_sge = limits->max_srq_sge + 1;
  ASK("srq_sge", ibv_create_srq(pd, &srq), ibv_destroy_srq);
  struct ibv_xrcd_init_attr xrcd = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  ASK("xrcd", ibv_open_xrcd(context, &xrcd), ibv_close_xrcd);
  ASK("mw", ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_dealloc_mw);
  struct ibv_alloc_dm_attr dm = {.length = 64};
  ASK("dm", ibv_alloc_dm(context, &dm), ibv_free_dm);
  ASK("on_demand", ibv_reg_mr(pd, page, sizeof page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
      ibv_dereg_mr);
  struct ibv_cq_init_attr_ex timed = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
  errno = 0;
  struct ibv_cq_ex* timed_cq = ibv_create_cq_ex(context, &timed);
  say("timestamps", timed_cq == NULL ? errno : 0);
  if (timed_cq != NULL) ibv_destroy_cq(ibv_cq_ex_to_cq(timed_cq));
  struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                                          .moderate = {.cq_count = 2, .cq_period = 2}};
  say("moderation", ibv_modify_cq(cq, &moderation));
}

static int connect_to_itself(struct ibv_qp* qp, int rd_atomic) {
  const struct rc_way way = {.ah = rc_way_to(gid, 0),
                             .peer = qp->qp_num,
                             .mtu = IBV_MTU_1024,
                             .access = 0xF,
                             .timeout = 14,
                             .retry = 7,
                             .rd_atomic = (uint8_t)rd_atomic};
  return connect_rc(qp, &way);
}

static void ask_posts(struct ibv_mr* mr) {
  const int most = attr.orig_attr.max_qp_rd_atom;
  struct ibv_qp_init_attr init = small_qp(IBV_QPT_RC);
  init.cap.max_send_sge = attr.orig_attr.max_sge < 2 ? 1 : 2;
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  must(qp != NULL, "a queue pair");
  if (most < 255) say("rd_atomic", connect_to_itself(qp, most + 1));
  struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
  must(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0, "to RESET");
  must(connect_to_itself(qp, most) == 0, "as many READs as there may be");

  struct ibv_sge sges[2] = {{(uintptr_t)mr->addr, 8, mr->lkey},
                            {(uintptr_t)mr->addr + 8, 8, mr->lkey}};
  struct ibv_send_wr wr = {.sg_list = sges, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
  struct ibv_send_wr* bad;
  wr.wr.atomic.remote_addr = (uintptr_t)mr->addr + 64;
  wr.wr.atomic.rkey = mr->rkey;
  say("atomic", ibv_post_send(qp, &wr, &bad));
  wr.opcode = IBV_WR_RDMA_READ;
  wr.num_sge = 2;
  wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + 64;
  wr.wr.rdma.rkey = mr->rkey;
  say("read_sges", ibv_post_send(qp, &wr, &bad));
  struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000000};
  say("rate", ibv_modify_qp_rate_limit(qp, &rate));
  must(ibv_destroy_qp(qp) == 0, "destroying the queue pair");
}

int main(void) {
  static char memory[4096];
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct ibv_device** list = ibv_get_device_list(NULL);
  must(list != NULL && list[0] != NULL, "a device");
  context = ibv_open_device(list[0]);
  must(context != NULL, list[0]->name);
  ibv_free_device_list(list);
  must(ibv_query_device_ex(context, NULL, &attr) == 0, "its attributes");
  must(ibv_query_gid(context, 1, 0, &gid) == 0, "its GID");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  must(pd != NULL && cq != NULL, "a protection domain and a CQ");
  ask_caps();
  ask_objects();
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, 0xF);
  must(mr != NULL, "a region");
  ask_posts(mr);
  must(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
           ibv_close_device(context) == 0,
       "cleaning up");
  return 0;
}
