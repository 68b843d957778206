#include "lab/conformance/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void fatal(const char* what) {
  fprintf(stderr, "conformance: %s: %s\n", what, strerror(errno));
  exit(1);
}

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// An IPv4 address is ::ffff:a.b.c.d in a GID. Link-local ones (fe80::) are no addresses of a
// version here: every device has one.
static int is_of_version(const union ibv_gid* gid, int ip_version) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  const int is_mapped = memcmp(gid->raw, mapped, sizeof mapped) == 0;
  return ip_version == 4 ? is_mapped : !is_mapped && gid->raw[0] != 0xfe;
}

static int choose_gid(struct ibv_context* context, int rows, int ip_version) {
  for (int i = 0; i < rows; ++i) {
    struct ibv_gid_entry entry;
    if (ibv_query_gid_ex(context, port_number, (uint32_t)i, &entry, 0) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_of_version(&entry.gid, ip_version)) {
      return i;
    }
  }
  return 0;
}

int is_iwarp(const struct device* device) {
  return device->context->device->transport_type == IBV_TRANSPORT_IWARP;
}

void open_device(struct device* device, const char* name, int ip_version) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  if (list == NULL) {
    fatal("ibv_get_device_list");
  }
  *device = (struct device){0};
  for (int i = 0; i < count && device->context == NULL; ++i) {
    if (name == NULL || strcmp(ibv_get_device_name(list[i]), name) == 0) {
      device->context = ibv_open_device(list[i]);
      if (device->context == NULL) {
        fatal("ibv_open_device");
      }
    }
  }
  ibv_free_device_list(list);
  if (device->context == NULL) {
    fprintf(stderr, "conformance: there is no device %s\n", name == NULL ? "" : name);
    exit(1);
  }
  if (ibv_query_device(device->context, &device->attr) != 0) {
    fatal("ibv_query_device");
  }
  if (ibv_query_port(device->context, port_number, &device->port) != 0) {
    fatal("ibv_query_port");
  }
  device->gid_index = choose_gid(device->context, device->port.gid_tbl_len, ip_version);
  if (ibv_query_gid(device->context, port_number, device->gid_index, &device->gid) != 0) {
    fatal("ibv_query_gid");
  }
}

// Memory on pages of its own, so that a peer's errors can't reach ours.
static uint8_t* make_memory(uint32_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, 4096, bytes) == 0 ? memset(memory, 0, bytes) : NULL;
}

int open_endpoint_without_qp(struct endpoint* endpoint, struct device* device, uint32_t bytes) {
  *endpoint = (struct endpoint){.device = device, .bytes = bytes};
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (device->attr.atomic_cap != IBV_ATOMIC_NONE) {
    access |= IBV_ACCESS_REMOTE_ATOMIC;
  }
  if (device->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) {
    access |= IBV_ACCESS_MW_BIND;
  }
  errno = 0;
  endpoint->pd = ibv_alloc_pd(device->context);
  endpoint->memory = make_memory(bytes);
  if (endpoint->pd != NULL && endpoint->memory != NULL) {
    endpoint->mr = ibv_reg_mr(endpoint->pd, endpoint->memory, bytes, access);
    endpoint->cq = ibv_create_cq(device->context, 2 * queue_entries, NULL, NULL, 0);
  }
  if (endpoint->mr != NULL && endpoint->cq != NULL) {
    return 0;
  }
  const int error = errno != 0 ? errno : EIO;
  close_endpoint(endpoint);
  return error;
}

struct ibv_qp_init_attr qp_attr_of(const struct endpoint* endpoint, enum ibv_qp_type type) {
  return (struct ibv_qp_init_attr){.send_cq = endpoint->cq,
                                   .recv_cq = endpoint->cq,
                                   .qp_type = type,
                                   .cap = {.max_send_wr = queue_entries,
                                           .max_recv_wr = queue_entries,
                                           .max_send_sge = 2,
                                           .max_recv_sge = 2}};
}

int open_endpoint(struct endpoint* endpoint, struct device* device, enum ibv_qp_type type,
                  uint32_t bytes) {
  const int failed = open_endpoint_without_qp(endpoint, device, bytes);
  if (failed != 0) {
    return failed;
  }
  struct ibv_qp_init_attr attr = qp_attr_of(endpoint, type);
  errno = 0;
  endpoint->qp = ibv_create_qp(endpoint->pd, &attr);
  if (endpoint->qp != NULL) {
    return 0;
  }
  const int error = errno != 0 ? errno : EIO;
  close_endpoint(endpoint);
  return error;
}

void close_endpoint(struct endpoint* endpoint) {
  if (endpoint->qp != NULL) {
    ibv_destroy_qp(endpoint->qp);
  }
  if (endpoint->cq != NULL) {
    ibv_destroy_cq(endpoint->cq);
  }
  if (endpoint->mr != NULL) {
    ibv_dereg_mr(endpoint->mr);
  }
  if (endpoint->pd != NULL) {
    ibv_dealloc_pd(endpoint->pd);
  }
  free(endpoint->memory);
  *endpoint = (struct endpoint){0};
}

int to_init(struct endpoint* endpoint) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port_number};
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (endpoint->qp->qp_type == IBV_QPT_UD) {
    attr.qkey = qkey;
    mask |= IBV_QP_QKEY;
  } else {
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (endpoint->qp->qp_type == IBV_QPT_RC) {
      attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ;
      if (endpoint->device->attr.atomic_cap != IBV_ATOMIC_NONE) {
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
      }
    }
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  return ibv_modify_qp(endpoint->qp, &attr, mask);
}

static struct ibv_ah_attr way_to(const struct device* device, const struct peer* peer) {
  return (struct ibv_ah_attr){
      .is_global = 1,
      .port_num = port_number,
      .grh = {.dgid = peer->gid, .sgid_index = (uint8_t)device->gid_index, .hop_limit = 64}};
}

int to_rtr(struct endpoint* endpoint, const struct peer* peer, enum ibv_mtu mtu) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
  int mask = IBV_QP_STATE;
  if (endpoint->qp->qp_type != IBV_QPT_UD) {
    attr.ah_attr = way_to(endpoint->device, peer);
    attr.path_mtu = mtu;
    attr.dest_qp_num = peer->qpn;
    attr.rq_psn = peer->psn;
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (endpoint->qp->qp_type == IBV_QPT_RC) {
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = rnr_timer_code;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return ibv_modify_qp(endpoint->qp, &attr, mask);
}

int to_rts(struct endpoint* endpoint, uint32_t psn, uint8_t rnr_retry) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = psn};
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (endpoint->qp->qp_type == IBV_QPT_RC) {
    attr.timeout = ack_timeout_code;
    attr.retry_cnt = retries;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = 4;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return ibv_modify_qp(endpoint->qp, &attr, mask);
}

struct peer self(const struct endpoint* endpoint, uint32_t psn) {
  return (struct peer){.qpn = endpoint->qp->qp_num,
                       .psn = psn,
                       .gid = endpoint->device->gid,
                       .address = (uintptr_t)endpoint->memory,
                       .rkey = endpoint->mr->rkey};
}

struct ibv_ah* address_of(struct endpoint* endpoint, const struct peer* peer) {
  struct ibv_ah_attr attr = way_to(endpoint->device, peer);
  return ibv_create_ah(endpoint->pd, &attr);
}

int wait_completion(struct ibv_cq* cq, struct ibv_wc* wc, int limit_ms) {
  const int64_t deadline = now_ms() + limit_ms;
  do {
    const int count = ibv_poll_cq(cq, 1, wc);
    if (count != 0) {
      return count;
    }
    usleep(100);
  } while (now_ms() < deadline);
  return 0;
}

void write_gid(char text[gid_text_bytes], const union ibv_gid* gid) {
  for (size_t i = 0; i < sizeof gid->raw; ++i) {
    snprintf(text + 2 * i, 3, "%02x", gid->raw[i]);
  }
}

int read_gid(const char* text, union ibv_gid* gid) {
  if (strlen(text) != gid_text_bytes - 1) {
    return 0;
  }
  for (size_t i = 0; i < sizeof gid->raw; ++i) {
    unsigned byte = 0;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
      return 0;
    }
    gid->raw[i] = (uint8_t)byte;
  }
  return 1;
}
