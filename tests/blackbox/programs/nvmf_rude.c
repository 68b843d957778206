/* A host of NVMe over Fabrics that sends one capsule of whatever bytes it is told to, and tells
 * what comes of it. An rdma_cm program like any other: it knows nothing of Verbena.
 *
 *   nvmf_rude ADDRESS PORT QUEUE SEND_SIZE [CAPSULE]
 *
 * QUEUE and SEND_SIZE go into the private data; CAPSULE is in hexadecimal. A line is printed:
 * "rejected STATUS", "answered STATUS" or "closed". */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { resolve_timeout_ms = 2000, answer_timeout_ms = 60000, capsule_bytes_max = 8192 };

static uint8_t capsule[capsule_bytes_max];
/* Fields of the completion are little-endian, as this machine. */
static uint16_t answer[8];

static void expect(int is_true, const char* what) {
  if (is_true) return;
  printf("%s: %s\n", what, strerror(errno));
  exit(1);
}

static uint32_t parse(const char* text) {
  uint32_t count = 0;
  for (; text[0] != '\0' && text[1] != '\0' && count < capsule_bytes_max; text += 2) {
    unsigned byte = 0;
    expect(sscanf(text, "%2x", &byte) == 1, "the capsule");
    capsule[count++] = (uint8_t)byte;
  }
  return count;
}

/* Returns 0 if the target rejects, which is then told. */
static int connect_to(struct rdma_cm_id* id, const char* queue, const char* send_size) {
  uint16_t request[16] = {0, (uint16_t)atoi(queue), 32, (uint16_t)atoi(send_size)};
  struct rdma_conn_param param = {.private_data = request,
                                  .private_data_len = sizeof request,
                                  .responder_resources = 1,
                                  .initiator_depth = 1,
                                  .retry_count = 7,
                                  .rnr_retry_count = 7};
  if (rdma_connect(id, &param) == 0) return 1;
  const struct rdma_cm_event* event = id->event;
  const uint16_t* why = event == NULL ? NULL : event->param.conn.private_data;
  expect(why != NULL && event->event == RDMA_CM_EVENT_REJECTED, "rdma_connect");
  printf("rejected %d\n", why[1]);
  return 0;
}

/* Waits for a completion. Returns 0 if the connection is gone: the queue pair has flushed, or the
 * connection manager has an event, which can only be of the end. */
static int complete(struct rdma_cm_id* id, struct ibv_cq* cq, struct ibv_wc* wc) {
  struct pollfd sources[2] = {{.fd = id->recv_cq_channel->fd, .events = POLLIN},
                              {.fd = id->channel->fd, .events = POLLIN}};
  while (ibv_poll_cq(cq, 1, wc) == 0) {
    expect(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
    if (ibv_poll_cq(cq, 1, wc) != 0) break;
    expect(poll(sources, 2, answer_timeout_ms) > 0, "no answer");
    if (sources[0].revents == 0) return 0;
    struct ibv_cq* which;
    void* context;
    expect(ibv_get_cq_event(id->recv_cq_channel, &which, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(which, 1);
  }
  return wc->status == IBV_WC_SUCCESS;
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
  expect(inet_pton(AF_INET, argv[1], &to.sin_addr) == 1, "the address");
  struct rdma_cm_id* id;
  expect(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  expect(rdma_resolve_addr(id, NULL, (struct sockaddr*)&to, resolve_timeout_ms) == 0, "address");
  expect(rdma_resolve_route(id, resolve_timeout_ms) == 0, "route");
  struct ibv_qp_init_attr attr = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  expect(rdma_create_qp(id, NULL, &attr) == 0, "rdma_create_qp");
  struct ibv_mr* sent = ibv_reg_mr(id->pd, capsule, sizeof capsule, 0);
  struct ibv_mr* got = ibv_reg_mr(id->pd, answer, sizeof answer, IBV_ACCESS_LOCAL_WRITE);
  expect(sent != NULL && got != NULL, "ibv_reg_mr");
  struct ibv_sge sge = {(uintptr_t)answer, sizeof answer, got->lkey};
  struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
  expect(ibv_post_recv(id->qp, &recv, &bad_recv) == 0, "ibv_post_recv");
  if (!connect_to(id, argv[3], argv[4]) || argc < 6) return 0;

  struct ibv_sge data = {(uintptr_t)capsule, parse(argv[5]), sent->lkey};
  struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .sg_list = &data, .num_sge = 1}, *bad_send;
  send.send_flags = IBV_SEND_SIGNALED;
  expect(ibv_post_send(id->qp, &send, &bad_send) == 0, "ibv_post_send");
  struct ibv_wc wc;
  if (complete(id, id->recv_cq, &wc)) {
    printf("answered 0x%03x\n", (answer[7] >> 1) & 0x7ff);
  } else {
    printf("closed\n");
  }
  rdma_disconnect(id);
  return 0;
}
