/* Many connections through librdmacm, one batch after the other: connect, exchange a message,
 * disconnect, destroy. An rdma_cm program like any other: it knows nothing of Verbena.
 *
 *   cm_cycles listen PORT TOTAL
 *   cm_cycles connect ADDRESS PORT TOTAL AT_ONCE
 *
 * All connections of a batch are up before the first of them is used. At its end each side must
 * be able to free what its connections shared, and must have as many descriptors open as before
 * the first; otherwise it fails. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { cq_entries = 8192, resolve_timeout_ms = 2000, listen_backlog = 1024 };

/* What all connections of a side share. */
struct side {
  struct rdma_event_channel* events;
  struct ibv_context* device;
  struct ibv_pd* pd;
  struct ibv_comp_channel* completions;
  struct ibv_cq* cq;
};

/* In id->context of each connection. */
struct connection {
  struct rdma_cm_id* id;
  struct ibv_mr* mr;
  uint64_t message[2]; /* what we send, and what we receive */
  int sent, received;
};

static void fail(const char* what) {
  fprintf(stderr, "cm_cycles: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void expect(int is_true, const char* what) {
  if (!is_true) fail(what);
}

static int open_descriptors(void) {
  DIR* directory = opendir("/proc/self/fd");
  expect(directory != NULL, "opendir");
  int count = 0;
  while (readdir(directory)) ++count;
  closedir(directory);
  return count;
}

static void open_side(struct side* side) {
  int devices = 0;
  struct ibv_context** list = rdma_get_devices(&devices);
  expect(list != NULL && devices > 0, "rdma_get_devices");
  side->device = list[0];
  rdma_free_devices(list);
  side->events = rdma_create_event_channel();
  expect(side->events != NULL, "rdma_create_event_channel");
  side->pd = ibv_alloc_pd(side->device);
  side->completions = ibv_create_comp_channel(side->device);
  expect(side->pd != NULL && side->completions != NULL, "ibv_alloc_pd");
  side->cq = ibv_create_cq(side->device, cq_entries, NULL, side->completions, 0);
  expect(side->cq != NULL && ibv_req_notify_cq(side->cq, 0) == 0, "ibv_create_cq");
}

static void close_side(struct side* side) {
  /* Each of these is refused as long as anything of a connection is left. */
  expect(ibv_destroy_cq(side->cq) == 0, "ibv_destroy_cq");
  expect(ibv_destroy_comp_channel(side->completions) == 0, "ibv_destroy_comp_channel");
  expect(ibv_dealloc_pd(side->pd) == 0, "ibv_dealloc_pd");
  rdma_destroy_event_channel(side->events);
}

static struct connection* make_connection(struct side* side, struct rdma_cm_id* id) {
  struct connection* made = calloc(1, sizeof *made);
  expect(made != NULL, "calloc");
  made->id = id;
  id->context = made;
  struct ibv_qp_init_attr attr = {
      .send_cq = side->cq,
      .recv_cq = side->cq,
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1,
      .qp_context = made,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  expect(rdma_create_qp(id, side->pd, &attr) == 0, "rdma_create_qp");
  made->mr = ibv_reg_mr(side->pd, made->message, sizeof made->message, IBV_ACCESS_LOCAL_WRITE);
  expect(made->mr != NULL, "ibv_reg_mr");
  struct ibv_sge sge = {.addr = (uintptr_t)&made->message[1],
                        .length = sizeof made->message[1],
                        .lkey = made->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = (uintptr_t)made, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  expect(ibv_post_recv(id->qp, &wr, &bad) == 0, "ibv_post_recv");
  return made;
}

static void end_connection(struct connection* connection) {
  rdma_destroy_qp(connection->id);
  expect(ibv_dereg_mr(connection->mr) == 0, "ibv_dereg_mr");
  expect(rdma_destroy_id(connection->id) == 0, "rdma_destroy_id");
  free(connection);
}

static void send_message(struct connection* connection, uint64_t message) {
  connection->message[0] = message;
  struct ibv_sge sge = {.addr = (uintptr_t)&connection->message[0],
                        .length = sizeof connection->message[0],
                        .lkey = connection->mr->lkey};
  struct ibv_send_wr wr = {
      .wr_id = (uintptr_t)connection, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr* bad = NULL;
  expect(ibv_post_send(connection->id->qp, &wr, &bad) == 0, "ibv_post_send");
}

/* Counts a completion. Receives that a disconnected queue pair gives back count for nothing. */
static struct connection* note_completion(const struct ibv_wc* wc) {
  if (wc->status == IBV_WC_WR_FLUSH_ERR) return NULL;
  if (wc->status != IBV_WC_SUCCESS) {
    fprintf(stderr, "cm_cycles: completion with status %d\n", wc->status);
    exit(1);
  }
  struct connection* connection = (struct connection*)(uintptr_t)wc->wr_id;
  if (wc->opcode == IBV_WC_RECV)
    ++connection->received;
  else
    ++connection->sent;
  return wc->opcode == IBV_WC_RECV ? connection : NULL;
}

/* Sleeps until the completion queue has something, and arms it again. */
static void take_notification(struct side* side) {
  struct ibv_cq* cq = NULL;
  void* context = NULL;
  expect(ibv_get_cq_event(side->completions, &cq, &context) == 0, "ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
  expect(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
}

/* The next event, which must be of that type if one is given. Returns its identifier. */
static struct rdma_cm_id* next_event(struct side* side, int wanted, enum rdma_cm_event_type* type) {
  struct rdma_cm_event* event = NULL;
  expect(rdma_get_cm_event(side->events, &event) == 0, "rdma_get_cm_event");
  struct rdma_cm_id* id = event->id;
  if (type) *type = event->event;
  if (wanted >= 0 && (int)event->event != wanted) {
    fprintf(stderr, "cm_cycles: %s with status %d instead of %s\n", rdma_event_str(event->event),
            event->status, rdma_event_str(wanted));
    exit(event->event == RDMA_CM_EVENT_REJECTED ? 3 : 1);
  }
  rdma_ack_cm_event(event);
  return id;
}

/* --- Passive */

/* Returns how many connections have ended: one or none. */
static int serve_event(struct side* side) {
  enum rdma_cm_event_type type;
  struct rdma_cm_id* id = next_event(side, -1, &type);
  struct rdma_conn_param param = {.rnr_retry_count = 7};
  switch (type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      make_connection(side, id);
      expect(rdma_accept(id, &param) == 0, "rdma_accept");
      return 0;
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return 0;
    case RDMA_CM_EVENT_DISCONNECTED:
      expect(rdma_disconnect(id) == 0, "rdma_disconnect");
      end_connection(id->context);
      return 1;
    default:
      fprintf(stderr, "cm_cycles: unexpected %s\n", rdma_event_str(type));
      exit(1);
  }
}

static void answer_messages(struct side* side) {
  take_notification(side);
  struct ibv_wc wc;
  while (ibv_poll_cq(side->cq, 1, &wc) > 0) {
    struct connection* connection = note_completion(&wc);
    if (connection) send_message(connection, connection->message[1] + 1);
  }
}

static void serve(struct side* side, int port, long total) {
  struct rdma_cm_id* listener = NULL;
  expect(rdma_create_id(side->events, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  expect(rdma_bind_addr(listener, (struct sockaddr*)&any) == 0, "rdma_bind_addr");
  expect(rdma_listen(listener, listen_backlog) == 0, "rdma_listen");
  struct pollfd wait[] = {{.fd = side->events->fd, .events = POLLIN},
                          {.fd = side->completions->fd, .events = POLLIN}};
  const int before = open_descriptors();
  for (long ended = 0; ended < total;) {
    expect(poll(wait, 2, -1) > 0, "poll");
    /* Messages first: their connection's end may be waiting as well. */
    if (wait[1].revents) answer_messages(side);
    if (wait[0].revents) ended += serve_event(side);
  }
  const int after = open_descriptors();
  printf("descriptors: %d before, %d after\n", before, after);
  expect(after == before, "descriptors leaked");
  expect(rdma_destroy_id(listener) == 0, "rdma_destroy_id");
}

/* --- Active */

static void connect_batch(struct side* side, const struct sockaddr_in* to,
                          struct connection** batch, long count) {
  struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
  for (long i = 0; i < count; ++i) {
    struct rdma_cm_id* id = NULL;
    expect(rdma_create_id(side->events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    struct sockaddr_in address = *to;
    expect(rdma_resolve_addr(id, NULL, (struct sockaddr*)&address, resolve_timeout_ms) == 0,
           "rdma_resolve_addr");
    expect(next_event(side, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) == id, "another identifier");
    expect(rdma_resolve_route(id, resolve_timeout_ms) == 0, "rdma_resolve_route");
    expect(next_event(side, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) == id, "another identifier");
    batch[i] = make_connection(side, id);
  }
  for (long i = 0; i < count; ++i) expect(rdma_connect(batch[i]->id, &param) == 0, "rdma_connect");
  for (long i = 0; i < count; ++i) next_event(side, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static void exchange(struct side* side, struct connection** batch, long count) {
  for (long i = 0; i < count; ++i) send_message(batch[i], (uint64_t)i);
  for (long completed = 0; completed < 2 * count;) {
    struct ibv_wc wc;
    while (ibv_poll_cq(side->cq, 1, &wc) > 0) {
      note_completion(&wc);
      ++completed;
    }
    if (completed < 2 * count) take_notification(side);
  }
  for (long i = 0; i < count; ++i)
    expect(batch[i]->message[1] == (uint64_t)i + 1, "a wrong answer");
}

static void disconnect_batch(struct side* side, struct connection** batch, long count) {
  for (long i = 0; i < count; ++i) expect(rdma_disconnect(batch[i]->id) == 0, "rdma_disconnect");
  for (long ended = 0; ended < count;) {
    enum rdma_cm_event_type type;
    next_event(side, -1, &type);
    ended += type == RDMA_CM_EVENT_DISCONNECTED;
  }
  for (long i = 0; i < count; ++i) end_connection(batch[i]);
}

static void call(struct side* side, const char* address, int port, long total, long at_once) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  expect(inet_pton(AF_INET, address, &to.sin_addr) == 1, "inet_pton");
  struct connection** batch = calloc((size_t)at_once, sizeof *batch);
  expect(batch != NULL, "calloc");
  const int before = open_descriptors();
  for (long done = 0; done < total; done += at_once) {
    connect_batch(side, &to, batch, at_once);
    exchange(side, batch, at_once);
    disconnect_batch(side, batch, at_once);
  }
  const int after = open_descriptors();
  printf("descriptors: %d before, %d after\n", before, after);
  expect(after == before, "descriptors leaked");
  free(batch);
}

int main(int argc, char** argv) {
  struct side side;
  setvbuf(stdout, NULL, _IOLBF, 0);
  open_side(&side);
  if (argc == 4 && strcmp(argv[1], "listen") == 0) {
    serve(&side, atoi(argv[2]), atol(argv[3]));
  } else if (argc == 6 && strcmp(argv[1], "connect") == 0) {
    call(&side, argv[2], atoi(argv[3]), atol(argv[4]), atol(argv[5]));
  } else {
    fprintf(stderr, "usage: cm_cycles listen PORT TOTAL | connect ADDRESS PORT TOTAL AT_ONCE\n");
    return 2;
  }
  close_side(&side);
  puts("everything is freed");
  return 0;
}
