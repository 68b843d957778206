/* Two ends of one connection that tell all they hear: events with their status, depths and private
 * data. An rdma_cm program like any other: it knows nothing of Verbena.
 *
 *   iw_talk listen ADDRESS PORT accept|reject DATA_BYTES DEPTH
 *   iw_talk connect ADDRESS PORT DATA_BYTES DEPTH
 *
 * DATA_BYTES of private data are given to connect, accept or reject, and DEPTH as both depths. The
 * active end sends one message, tries a READ of no bytes if DEPTH is 0, and disconnects.
 *
 * With IW_TALK_GIB in its environment either end registers so many GiB, of which it uses nothing,
 * before it connects or accepts.
 *
 * Each event is a line: NAME STATUS data=BYTES sum=SUM resources=N depth=N. */
#include <sys/mman.h>

#include "tests/blackbox/programs/rdmacm_end.h"

enum { data_bytes_max = 255, message_bytes = 64 };

static struct ibv_cq* cq;
static struct ibv_mr* region;
static char message[message_bytes];
static uint8_t data[data_bytes_max];
static struct rdma_conn_param param;

static void set_param(const char* bytes, const char* depth) {
  for (int i = 0; i < data_bytes_max; ++i) data[i] = (uint8_t)i;
  param.private_data = data;
  param.private_data_len = (uint8_t)atoi(bytes);
  param.responder_resources = param.initiator_depth = (uint8_t)atoi(depth);
}

static void register_much(struct ibv_pd* pd, const char* gib) {
  const size_t bytes = (size_t)atoi(gib) << 30;
  void* much =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  expect(much != MAP_FAILED, "mmap");
  expect(ibv_reg_mr(pd, much, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) != NULL,
         "ibv_reg_mr of much");
}

static void make_qp(struct rdma_cm_id* id) {
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  if (getenv("IW_TALK_GIB") != NULL) register_much(pd, getenv("IW_TALK_GIB"));
  cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
  expect(pd != NULL && cq != NULL, "ibv_create_cq");
  region = ibv_reg_mr(pd, message, message_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  expect(region != NULL, "ibv_reg_mr");
  struct ibv_qp_init_attr attr = {
      .send_cq = cq,
      .recv_cq = cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  expect(rdma_create_qp(id, pd, &attr) == 0, "rdma_create_qp");
}

static struct ibv_sge whole_message(void) {
  struct ibv_sge sge = {(uintptr_t)message, message_bytes, region->lkey};
  return sge;
}

static void post_recv(struct rdma_cm_id* id) {
  struct ibv_sge sge = whole_message();
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  expect(ibv_post_recv(id->qp, &wr, &bad) == 0, "ibv_post_recv");
}

static enum ibv_wc_status wait_for_completion(void) { return next_completion(cq).status; }

static void send_and_read(struct rdma_cm_id* id) {
  struct ibv_sge sge = whole_message();
  struct ibv_send_wr send = {
      .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED}, *bad;
  expect(ibv_post_send(id->qp, &send, &bad) == 0, "ibv_post_send");
  printf("SEND: %s\n", ibv_wc_status_str(wait_for_completion()));
  if (param.initiator_depth == 0) {
    const int error = ibv_post_send(id->qp, &read, &bad);
    printf("READ: %s\n", error != 0 ? "refused" : ibv_wc_status_str(wait_for_completion()));
  }
}

/* Of an event that is waited for; acknowledged. Returns the identifier. */
static struct rdma_cm_id* next(struct rdma_event_channel* channel, enum rdma_cm_event_type* type) {
  struct rdma_cm_event* event;
  expect(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  const struct rdma_conn_param* conn = &event->param.conn;
  unsigned sum = 0;
  for (int i = 0; i < conn->private_data_len; ++i) sum += ((const uint8_t*)conn->private_data)[i];
  printf("%s %d data=%d sum=%u resources=%d depth=%d\n", rdma_event_str(event->event),
         event->status, conn->private_data_len, sum, conn->responder_resources,
         conn->initiator_depth);
  fflush(stdout);
  struct rdma_cm_id* id = event->id;
  *type = event->event;
  rdma_ack_cm_event(event);
  return id;
}

static void wait_for(struct rdma_event_channel* channel, enum rdma_cm_event_type wanted) {
  enum rdma_cm_event_type type;
  next(channel, &type);
  if (type != wanted) exit(2);
}

static void listen_once(struct rdma_event_channel* channel, struct rdma_cm_id* id, int accepts) {
  enum rdma_cm_event_type type;
  expect(rdma_listen(id, 1) == 0, "rdma_listen");
  struct rdma_cm_id* fresh = next(channel, &type);
  if (!accepts) {
    expect(rdma_reject(fresh, data, param.private_data_len) == 0, "rdma_reject");
    rdma_destroy_id(fresh);
    return;
  }
  make_qp(fresh);
  post_recv(fresh);
  expect(rdma_accept(fresh, &param) == 0, "rdma_accept");
  wait_for(channel, RDMA_CM_EVENT_ESTABLISHED);
  printf("RECV: %s\n", ibv_wc_status_str(wait_for_completion()));
  wait_for(channel, RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(fresh);
  rdma_destroy_id(fresh);
}

static void connect_once(struct rdma_event_channel* channel, struct rdma_cm_id* id,
                         struct sockaddr* to) {
  expect(rdma_resolve_addr(id, NULL, to, resolve_timeout_ms) == 0, "rdma_resolve_addr");
  wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  expect(rdma_resolve_route(id, resolve_timeout_ms) == 0, "rdma_resolve_route");
  wait_for(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(id);
  expect(rdma_connect(id, &param) == 0, "rdma_connect");
  wait_for(channel, RDMA_CM_EVENT_ESTABLISHED);
  send_and_read(id);
  expect(rdma_disconnect(id) == 0, "rdma_disconnect");
  wait_for(channel, RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_qp(id);
}

int main(int argc, char** argv) {
  struct rdmacm_end end = open_end(argc, argv, 7, 6);
  if (end.is_passive) {
    set_param(argv[5], argv[6]);
    listen_once(end.channel, end.id, strcmp(argv[4], "accept") == 0);
  } else {
    set_param(argv[4], argv[5]);
    connect_once(end.channel, end.id, (struct sockaddr*)&end.address);
  }
  rdma_destroy_id(end.id);
  return 0;
}
