/* Atomics and a WRITE with immediate data over one connection of rdma_cm, posted in either of the
 * verbs' two ways. An rdma_cm program like any other: it knows nothing of Verbena.
 *
 *   iw_extensions listen ADDRESS PORT
 *   iw_extensions connect ADDRESS PORT post|wr
 *
 * The passive end tells where its memory is by its private data, prints each receive, and in the
 * end what is in its memory. The active end prints what became of each request: a FetchAdd of 3 and
 * a CmpSwap of 8 by 100 at a number that is 5, a WRITE of 16 bytes with immediate data, a SEND with
 * immediate data. A request that can't be posted is "refused". */
#include <inttypes.h>

#include "tests/blackbox/programs/rdmacm_end.h"

enum { written_bytes = 16, immediate = 0x12345678, requests = 4 };

/* What the private data of the passive end says. */
struct place {
  uint64_t address;
  uint32_t key;
} __attribute__((packed));

/* 0 is what the atomics work on; 2 and 3 are written. */
static uint64_t numbers[4];
static struct ibv_cq* cq;
static struct ibv_mr* region;

/* By itself with an extended interface for posting, if the device offers all that is used. */
static void make_qp(struct rdma_cm_id* id, int extended) {
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  cq = ibv_create_cq(id->verbs, 2 * requests, NULL, NULL, 0);
  expect(pd != NULL && cq != NULL, "ibv_create_cq");
  region = ibv_reg_mr(pd, numbers, sizeof numbers,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_ATOMIC);
  expect(region != NULL, "ibv_reg_mr");
  struct ibv_qp_init_attr_ex attr = {.send_cq = cq,
                                     .recv_cq = cq,
                                     .qp_type = IBV_QPT_RC,
                                     .cap = {.max_send_wr = requests,
                                             .max_recv_wr = requests,
                                             .max_send_sge = 1,
                                             .max_recv_sge = 1},
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = pd};
  if (extended) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  }
  expect(rdma_create_qp_ex(id, &attr) == 0, "rdma_create_qp_ex");
}

static struct rdma_cm_event* next(struct rdma_event_channel* channel) {
  struct rdma_cm_event* event;
  expect(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  return event;
}

static void wait_for(struct rdma_event_channel* channel, enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event = next(channel);
  if (event->event != wanted) {
    printf("%s instead of %s\n", rdma_event_str(event->event), rdma_event_str(wanted));
    exit(2);
  }
  rdma_ack_cm_event(event);
}

static int post(struct rdma_cm_id* id, enum ibv_wr_opcode opcode, const struct place* place) {
  struct ibv_sge sge = {(uintptr_t)&numbers[0], sizeof numbers[0], region->lkey};
  struct ibv_send_wr wr = {.opcode = opcode,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = htonl(immediate)};
  struct ibv_send_wr* bad;
  if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    sge.addr = (uintptr_t)&numbers[2];
    sge.length = written_bytes;
    wr.wr.rdma.remote_addr = place->address + written_bytes;
    wr.wr.rdma.rkey = place->key;
  } else {
    wr.wr.atomic.remote_addr = place->address;
    wr.wr.atomic.rkey = place->key;
    wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 3 : 8;
    wr.wr.atomic.swap = 100;
  }
  return ibv_post_send(id->qp, &wr, &bad);
}

static int post_extended(struct rdma_cm_id* id, enum ibv_wr_opcode opcode,
                         const struct place* place) {
  struct ibv_qp_ex* qp = ibv_qp_to_qp_ex(id->qp);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    ibv_wr_rdma_write_imm(qp, place->key, place->address + written_bytes, htonl(immediate));
    ibv_wr_set_sge(qp, region->lkey, (uintptr_t)&numbers[2], written_bytes);
  } else {
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
      ibv_wr_atomic_fetch_add(qp, place->key, place->address, 3);
    else
      ibv_wr_atomic_cmp_swp(qp, place->key, place->address, 8, 100);
    ibv_wr_set_sge(qp, region->lkey, (uintptr_t)&numbers[0], sizeof numbers[0]);
  }
  return ibv_wr_complete(qp);
}

static void tell(const char* name, int error) {
  if (error != 0) {
    printf("%s: refused, %s\n", name, strerror(error));
    return;
  }
  const struct ibv_wc wc = next_completion(cq);
  printf("%s: %s, %" PRIu64 "\n", name, ibv_wc_status_str(wc.status), numbers[0]);
}

static void work(struct rdma_cm_id* id, int extended, const struct place* place) {
  int (*const how)(struct rdma_cm_id*, enum ibv_wr_opcode, const struct place*) =
      extended ? post_extended : post;
  numbers[2] = 222;
  numbers[3] = 333;
  tell("FetchAdd", how(id, IBV_WR_ATOMIC_FETCH_AND_ADD, place));
  tell("CmpSwap", how(id, IBV_WR_ATOMIC_CMP_AND_SWP, place));
  tell("WRITE with immediate", how(id, IBV_WR_RDMA_WRITE_WITH_IMM, place));
  if (!extended) tell("SEND with immediate", post(id, IBV_WR_SEND_WITH_IMM, place));
}

static void serve(struct rdma_event_channel* channel, struct rdma_cm_id* id) {
  expect(rdma_listen(id, 1) == 0, "rdma_listen");
  struct rdma_cm_event* event = next(channel);
  struct rdma_cm_id* fresh = event->id;
  make_qp(fresh, 0);
  numbers[0] = 5;
  struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
  expect(ibv_post_recv(fresh->qp, &wr, &bad) == 0, "ibv_post_recv");
  const struct place place = {(uintptr_t)numbers, region->rkey};
  struct rdma_conn_param param = {.private_data = &place,
                                  .private_data_len = sizeof place,
                                  .responder_resources = 4,
                                  .initiator_depth = 4};
  expect(rdma_accept(fresh, &param) == 0, "rdma_accept");
  rdma_ack_cm_event(event);
  wait_for(channel, RDMA_CM_EVENT_ESTABLISHED);
  wait_for(channel, RDMA_CM_EVENT_DISCONNECTED);
  const struct ibv_wc wc = next_completion(cq);
  printf("receive %d: %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
  if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
    printf(", immediate %#x, %u bytes", ntohl(wc.imm_data), wc.byte_len);
  printf("\nmemory: %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", numbers[0], numbers[2], numbers[3]);
  rdma_destroy_qp(fresh);
  rdma_destroy_id(fresh);
}

static void connect_and_work(struct rdma_event_channel* channel, struct rdma_cm_id* id,
                             struct sockaddr* to, int extended) {
  expect(rdma_resolve_addr(id, NULL, to, resolve_timeout_ms) == 0, "rdma_resolve_addr");
  wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  expect(rdma_resolve_route(id, resolve_timeout_ms) == 0, "rdma_resolve_route");
  wait_for(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  struct ibv_device_attr attr;
  expect(ibv_query_device(id->verbs, &attr) == 0, "ibv_query_device");
  printf("atomic_cap %d\n", attr.atomic_cap);
  make_qp(id, extended);
  struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 4};
  expect(rdma_connect(id, &param) == 0, "rdma_connect");
  struct rdma_cm_event* event = next(channel);
  expect(event->event == RDMA_CM_EVENT_ESTABLISHED &&
             event->param.conn.private_data_len >= sizeof(struct place),
         "RDMA_CM_EVENT_ESTABLISHED");
  struct place place;
  memcpy(&place, event->param.conn.private_data, sizeof place);
  rdma_ack_cm_event(event);
  work(id, extended, &place);
  rdma_disconnect(id);
  wait_for(channel, RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(id);
}

int main(int argc, char** argv) {
  struct rdmacm_end end = open_end(argc, argv, 4, 5);
  if (end.is_passive) {
    serve(end.channel, end.id);
  } else {
    connect_and_work(end.channel, end.id, (struct sockaddr*)&end.address,
                     strcmp(argv[4], "wr") == 0);
  }
  rdma_destroy_id(end.id);
  return 0;
}
