/* One end of a connection that dies when it is told to, for tests of what its peer hears. An
 * rdma_cm program like any other: it knows nothing of Verbena.
 *
 *   cm_steps listen PORT [STEP [leave]]
 *   cm_steps connect ADDRESS PORT [STEP [leave]]
 *
 * Prints each event as a line, "RDMA_CM_EVENT_ESTABLISHED 0" with its status, and of a request or
 * reply what it says of enhanced connection establishment, "ECE 0x5f0001 1". The passive end
 * accepts one request and ends after the connection; so does the active one, which has a queue pair
 * that the connection manager doesn't know, and so answers replies itself.
 *
 * An end dies, as by a crash, right before it does what STEP names: accept, establish, disconnect,
 * agree (to the peer's wish to disconnect); or right after it has done it, with a + in front. With
 * "leave" it calls exit() there, and leaves the connection as it is. */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { resolve_timeout_ms = 2000, listen_backlog = 8 };

static const char* fatal_step = "";
static int leaves = 0;

static void fail(const char* what) {
  fprintf(stderr, "cm_steps: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void expect(int is_true, const char* what) {
  if (!is_true) fail(what);
}

static void die(void) {
  if (leaves) exit(0);
  kill(getpid(), SIGKILL);
}

static void before(const char* step) {
  if (strcmp(fatal_step, step) == 0) die();
}

static void after(const char* step) {
  if (fatal_step[0] == '+' && strcmp(fatal_step + 1, step) == 0) die();
}

/* The queue pair of an identifier, made without rdma_create_qp(). */
static struct ibv_qp* make_qp(struct rdma_cm_id* id) {
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  struct ibv_cq* cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
  expect(pd != NULL && cq != NULL, "ibv_create_cq");
  struct ibv_qp_init_attr attr = {
      .send_cq = cq,
      .recv_cq = cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp* qp = ibv_create_qp(pd, &attr);
  expect(qp != NULL, "ibv_create_qp");
  return qp;
}

static void make_ready(struct rdma_cm_id* id, struct ibv_qp* qp) {
  static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
  for (size_t i = 0; i < sizeof states / sizeof *states; ++i) {
    struct ibv_qp_attr attr = {.qp_state = states[i]};
    int mask = 0;
    expect(rdma_init_qp_attr(id, &attr, &mask) == 0, "rdma_init_qp_attr");
    expect(ibv_modify_qp(qp, &attr, mask) == 0, "ibv_modify_qp");
  }
}

static struct rdma_cm_id* next_event(struct rdma_event_channel* channel,
                                     enum rdma_cm_event_type* type) {
  struct rdma_cm_event* event = NULL;
  expect(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  struct rdma_cm_id* id = event->id;
  *type = event->event;
  printf("%s %d\n", rdma_event_str(event->event), event->status);
  rdma_ack_cm_event(event);
  return id;
}

/* Before a REQ or REP: a vendor that the device doesn't know, and what it proposes. */
static void propose_ece(struct rdma_cm_id* id, uint32_t options) {
  struct ibv_ece ece = {.vendor_id = 0x5F0001, .options = options};
  expect(rdma_set_local_ece(id, &ece) == 0, "rdma_set_local_ece");
}

/* After one. */
static void print_ece(struct rdma_cm_id* id) {
  struct ibv_ece ece;
  expect(rdma_get_remote_ece(id, &ece) == 0, "rdma_get_remote_ece");
  printf("ECE %#x %u\n", ece.vendor_id, ece.options);
}

static void take_request(struct rdma_cm_id* id) {
  struct ibv_qp* qp = make_qp(id);
  print_ece(id);
  propose_ece(id, 2);
  struct rdma_conn_param param = {.rnr_retry_count = 7, .qp_num = qp->qp_num};
  make_ready(id, qp);
  before("accept");
  expect(rdma_accept(id, &param) == 0, "rdma_accept");
  after("accept");
}

/* Nonzero when the connection is over. */
static int act_on(struct rdma_cm_id* id, enum rdma_cm_event_type type, struct ibv_qp* qp) {
  switch (type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      take_request(id);
      return 0;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      print_ece(id);
      make_ready(id, qp);
      before("establish");
      expect(rdma_establish(id) == 0, "rdma_establish");
      after("establish");
      before("disconnect");
      expect(rdma_disconnect(id) == 0, "rdma_disconnect");
      after("disconnect");
      return 0;
    case RDMA_CM_EVENT_DISCONNECTED:
      before("agree");
      rdma_disconnect(id);
      after("agree");
      return 1;
    default:
      return type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE;
  }
}

static void follow(struct rdma_event_channel* channel, struct ibv_qp* qp) {
  enum rdma_cm_event_type type;
  struct rdma_cm_id* id = NULL;
  do id = next_event(channel, &type);
  while (!act_on(id, type, qp));
}

static void serve(struct rdma_event_channel* channel, int port) {
  struct rdma_cm_id* listener = NULL;
  expect(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  expect(rdma_bind_addr(listener, (struct sockaddr*)&any) == 0, "rdma_bind_addr");
  expect(rdma_listen(listener, listen_backlog) == 0, "rdma_listen");
  puts("listening");
  follow(channel, NULL);
}

static void call(struct rdma_event_channel* channel, const char* address, int port) {
  struct rdma_cm_id* id = NULL;
  enum rdma_cm_event_type type;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  expect(inet_pton(AF_INET, address, &to.sin_addr) == 1, "inet_pton");
  expect(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  expect(rdma_resolve_addr(id, NULL, (struct sockaddr*)&to, resolve_timeout_ms) == 0,
         "rdma_resolve_addr");
  next_event(channel, &type);
  expect(rdma_resolve_route(id, resolve_timeout_ms) == 0, "rdma_resolve_route");
  next_event(channel, &type);
  struct ibv_qp* qp = make_qp(id);
  struct rdma_conn_param param = {
      .qp_num = qp->qp_num, .retry_count = 7, .rnr_retry_count = 7, .responder_resources = 1};
  propose_ece(id, 1);
  expect(rdma_connect(id, &param) == 0, "rdma_connect");
  after("connect");
  follow(channel, qp);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  expect(channel != NULL, "rdma_create_event_channel");
  if (argc >= 3 && strcmp(argv[1], "listen") == 0) {
    fatal_step = argc > 3 ? argv[3] : "";
    leaves = argc > 4;
    serve(channel, atoi(argv[2]));
  } else if (argc >= 4 && strcmp(argv[1], "connect") == 0) {
    fatal_step = argc > 4 ? argv[4] : "";
    leaves = argc > 5;
    call(channel, argv[2], atoi(argv[3]));
  } else {
    fprintf(stderr,
            "usage: cm_steps listen PORT [STEP [leave]]\n"
            "       cm_steps connect ADDRESS PORT [STEP [leave]]\n");
    return 2;
  }
  return 0;
}
