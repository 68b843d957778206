#include "lab/conformance/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { mapped_prefix_bytes = 12, backlog = 4 };

static void set_port(struct sockaddr_storage* address, uint16_t port) {
  // In the same place of both families (sockaddr_in, sockaddr_in6).
  ((struct sockaddr_in*)address)->sin_port = htons(port);
}

struct sockaddr_storage address_of_gid(const union ibv_gid* gid, uint16_t port) {
  static const uint8_t mapped[mapped_prefix_bytes] = {[10] = 0xff, [11] = 0xff};
  struct sockaddr_storage address = {0};
  if (memcmp(gid->raw, mapped, sizeof mapped) == 0) {
    struct sockaddr_in* ipv4 = (struct sockaddr_in*)&address;
    ipv4->sin_family = AF_INET;
    memcpy(&ipv4->sin_addr, gid->raw + sizeof mapped, sizeof ipv4->sin_addr);
  } else {
    struct sockaddr_in6* ipv6 = (struct sockaddr_in6*)&address;
    ipv6->sin6_family = AF_INET6;
    memcpy(&ipv6->sin6_addr, gid->raw, sizeof ipv6->sin6_addr);
  }
  set_port(&address, port);
  return address;
}

int read_address(const char* text, struct sockaddr_storage* address) {
  struct sockaddr_in* ipv4 = (struct sockaddr_in*)address;
  struct sockaddr_in6* ipv6 = (struct sockaddr_in6*)address;
  *address = (struct sockaddr_storage){.ss_family = AF_INET};
  if (inet_pton(AF_INET, text, &ipv4->sin_addr) == 1) {
    return 1;
  }
  address->ss_family = AF_INET6;
  return inet_pton(AF_INET6, text, &ipv6->sin6_addr) == 1;
}

// Returns NULL if rdma_cm doesn't know the device.
static struct ibv_context* context_of(const struct device* device) {
  struct ibv_context** all = rdma_get_devices(NULL);
  struct ibv_context* found = NULL;
  for (int i = 0; all != NULL && all[i] != NULL && found == NULL; ++i) {
    if (strcmp(all[i]->device->name, device->context->device->name) == 0) {
      found = all[i];
    }
  }
  if (all != NULL) {
    rdma_free_devices(all);
  }
  return found;
}

static int start(struct manager* manager) {
  manager->channel = rdma_create_event_channel();
  if (manager->channel == NULL) {
    return errno;
  }
  // An event that is gone again when it is fetched must hold nobody up.
  const int flags = fcntl(manager->channel->fd, F_GETFL);
  if (fcntl(manager->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      rdma_create_id(manager->channel, &manager->listener, NULL, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(manager->listener, (struct sockaddr*)&manager->own) != 0 ||
      rdma_listen(manager->listener, backlog) != 0) {
    return errno;
  }
  return 0;
}

int open_manager(struct manager* manager, const struct device* device, uint16_t port,
                 const struct sockaddr_storage* own, const struct sockaddr_storage* peer) {
  *manager = (struct manager){.device = *device, .own = *own, .peer = *peer};
  manager->device.context = context_of(device);
  if (!is_iwarp(device)) {
    manager->own = address_of_gid(&device->gid, 0);
  }
  set_port(&manager->own, port);
  const int failed = manager->device.context == NULL ? ENODEV : start(manager);
  set_port(&manager->own, 0);
  if (failed != 0) {
    close_manager(manager);
  }
  return failed;
}

void close_manager(struct manager* manager) {
  if (manager->listener != NULL) {
    drain_events(manager);
    rdma_destroy_id(manager->listener);
  }
  if (manager->channel != NULL) {
    rdma_destroy_event_channel(manager->channel);
  }
  *manager = (struct manager){0};
}

uint16_t manager_port(const struct manager* manager) {
  return manager->listener != NULL ? ntohs(rdma_get_src_port(manager->listener)) : 0;
}

void set_partner(struct manager* manager, const struct partner* partner) {
  if (manager->listener != NULL && !is_iwarp(&manager->device)) {
    manager->peer = address_of_gid(&partner->gid, 0);
  }
  if (is_iwarp(&manager->device) && partner->address.ss_family != AF_UNSPEC) {
    manager->peer = partner->address;
  }
  set_port(&manager->peer, partner->port);
}

static void copy(struct heard* heard, const struct rdma_cm_event* event) {
  *heard = (struct heard){.type = event->event, .status = event->status, .id = event->id};
  if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN) {
    heard->group = event->param.ud.ah_attr;
    heard->group_qpn = event->param.ud.qp_num;
    heard->group_qkey = event->param.ud.qkey;
    return;
  }
  const struct rdma_conn_param* conn = &event->param.conn;
  heard->data_bytes = conn->private_data_len;
  if (conn->private_data_len != 0) {
    memcpy(heard->data, conn->private_data, conn->private_data_len);
  }
  heard->responder_resources = conn->responder_resources;
  heard->initiator_depth = conn->initiator_depth;
}

int hear_event(struct manager* manager, struct heard* heard, int limit_ms) {
  const int64_t deadline = now_ms() + limit_ms;
  do {
    struct rdma_cm_event* event = NULL;
    if (rdma_get_cm_event(manager->channel, &event) == 0) {
      copy(heard, event);
      rdma_ack_cm_event(event);
      return 1;
    }
    struct pollfd ready = {.fd = manager->channel->fd, .events = POLLIN};
    const int64_t left = deadline - now_ms();
    if (left > 0) {
      poll(&ready, 1, (int)left);
    }
  } while (now_ms() < deadline);
  return 0;
}

void drain_events(struct manager* manager) {
  struct heard heard;
  while (manager->channel != NULL && hear_event(manager, &heard, 0)) {
    if (heard.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      rdma_reject(heard.id, NULL, 0);
      rdma_destroy_id(heard.id);
    }
  }
}
