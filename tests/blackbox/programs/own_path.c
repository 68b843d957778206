/* A connection over a path that the program brings (RDMA_OPTION_IB_PATH), with both ends in one
 * process. An rdma_cm program like any other: it knows nothing of Verbena.
 *
 *   own_path
 *
 * Prints what the active end's path record says, "mtu 2 class 0x68 label 0x12345 life 10"; the two
 * queue pairs when they are connected; the MTU of an endpoint that is made with that path; and what
 * rdma_resolve_route() finds for an identifier whose queue pair shall never time out. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { resolve_timeout_ms = 2000, traffic_class = 0x68, flow_label = 0x12345, life = 10 };

static void expect(int is_true, const char* what) {
  if (!is_true) {
    fprintf(stderr, "own_path: %s: %s\n", what, strerror(errno));
    exit(1);
  }
}

/* The identifier that the next event is for. */
static struct rdma_cm_id* take(struct rdma_event_channel* channel, enum rdma_cm_event_type type) {
  struct rdma_cm_event* event = NULL;
  expect(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  struct rdma_cm_id* id = event->id;
  if (event->event != type) {
    fprintf(stderr, "own_path: %s instead of %s\n", rdma_event_str(event->event),
            rdma_event_str(type));
    exit(1);
  }
  rdma_ack_cm_event(event);
  return id;
}

static void make_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr attr = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
  expect(rdma_create_qp(id, NULL, &attr) == 0, "rdma_create_qp");
}

static int set_path(struct rdma_cm_id* id, struct ibv_path_data* path, size_t length) {
  return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, length);
}

/* Nothing of them is taken: the right one still is afterwards. */
static void try_wrong_paths(struct rdma_cm_id* id, const struct ibv_path_data* right) {
  struct ibv_path_data path = *right;
  expect(set_path(id, &path, sizeof path - 1) == -1 && errno == EINVAL, "a part of a path");
  expect(set_path(id, &path, 0) == -1 && errno == EINVAL, "no path");
  path.flags = IBV_PATH_FLAG_ALTERNATE;
  expect(set_path(id, &path, sizeof path) == -1 && errno == EINVAL, "an alternate path");
  path = *right;
  path.path.mtu = IBV_MTU_4096 + 1;
  expect(set_path(id, &path, sizeof path) == -1 && errno == EINVAL, "an MTU that doesn't exist");
  path = *right;
  path.path.dgid.raw[15] ^= 1;
  expect(set_path(id, &path, sizeof path) == -1 && errno == EINVAL, "a path to somebody else");
}

int main(void) {
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* listener = NULL;
  struct rdma_cm_id* active = NULL;
  expect(channel != NULL && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0 &&
             rdma_create_id(channel, &active, NULL, RDMA_PS_TCP) == 0,
         "rdma_create_id");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  expect(rdma_bind_addr(listener, (struct sockaddr*)&address) == 0, "rdma_bind_addr");
  expect(rdma_listen(listener, 1) == 0, "rdma_listen");
  address.sin_port = rdma_get_src_port(listener);

  struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
                                        IBV_PATH_FLAG_BIDIRECTIONAL};
  expect(set_path(active, &path, sizeof path) == -1 && errno == EINVAL, "a path to nowhere");
  uint8_t endless = 0;
  expect(rdma_set_option(active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &endless,
                         sizeof endless) == 0,
         "rdma_set_option");
  expect(rdma_resolve_addr(active, NULL, (struct sockaddr*)&address, resolve_timeout_ms) == 0,
         "rdma_resolve_addr");
  take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  path.path.sgid = active->route.addr.addr.ibaddr.sgid;
  path.path.dgid = active->route.addr.addr.ibaddr.dgid;
  path.path.flowlabel_hoplimit = htonl(flow_label << 8 | 64);
  path.path.tclass = traffic_class;
  path.path.mtu = 2 << 6 | IBV_MTU_512;
  path.path.packetlifetime = 2 << 6 | life;
  try_wrong_paths(active, &path);
  expect(set_path(active, &path, sizeof path) == 0, "rdma_set_option");
  take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  const struct ibv_sa_path_rec* record = active->route.path_rec;
  printf("mtu %d class %#x label %#x life %d\n", record->mtu, record->traffic_class,
         ntohl(record->flow_label), record->packet_life_time);

  struct rdma_conn_param param = {.rnr_retry_count = 7};
  make_qp(active);
  expect(rdma_connect(active, &param) == 0, "rdma_connect");
  struct rdma_cm_id* passive = take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  make_qp(passive);
  expect(rdma_accept(passive, &param) == 0, "rdma_accept");
  take(channel, RDMA_CM_EVENT_ESTABLISHED);
  take(channel, RDMA_CM_EVENT_ESTABLISHED);
  struct rdma_cm_id* const ends[] = {active, passive};
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    expect(ibv_query_qp(ends[i]->qp, &attr, IBV_QP_PATH_MTU | IBV_QP_AV, &init) == 0,
           "ibv_query_qp");
    printf("mtu %d class %#x label %#x timeout %d\n", attr.path_mtu, attr.ah_attr.grh.traffic_class,
           attr.ah_attr.grh.flow_label, attr.timeout);
  }

  struct rdma_addrinfo info = {.ai_family = AF_INET,
                               .ai_qp_type = IBV_QPT_RC,
                               .ai_port_space = RDMA_PS_TCP,
                               .ai_dst_len = sizeof address,
                               .ai_dst_addr = (struct sockaddr*)&address,
                               .ai_route_len = sizeof path,
                               .ai_route = &path};
  struct rdma_cm_id* endpoint = NULL;
  expect(rdma_create_ep(&endpoint, &info, NULL, NULL) == 0, "rdma_create_ep");
  printf("endpoint: mtu %d\n", endpoint->route.path_rec->mtu);

  struct rdma_cm_id* found = NULL;
  expect(rdma_create_id(NULL, &found, NULL, RDMA_PS_TCP) == 0 &&
             rdma_set_option(found, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &endless,
                             sizeof endless) == 0 &&
             rdma_resolve_addr(found, NULL, (struct sockaddr*)&address, resolve_timeout_ms) == 0 &&
             rdma_resolve_route(found, resolve_timeout_ms) == 0,
         "rdma_resolve_route");
  printf("found: life %d\n", found->route.path_rec->packet_life_time);
  return 0;
}
