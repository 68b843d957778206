// What making and freeing objects returns, and what queue pairs say in each of their states.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lab/conformance/alone.h"
#include "lab/conformance/report.h"

// What a call that makes an object did: "made", or errno's name.
static const char* made(const void* object) { return object != NULL ? "made" : errno_name(errno); }

static void observe_port(const struct device* device) {
  const struct ibv_port_attr* port = &device->port;
  observe("port", "query", "state", "%s", ibv_port_state_str(port->state));
  observe("port", "query", "link_layer", "%d", port->link_layer);
  observe("port", "query", "max_mtu", "%d", 128 << port->max_mtu);
  observe("port", "query", "lid", "%u", port->lid);
  observe("port", "query", "pkey_tbl_len", "%u", port->pkey_tbl_len);
  __be16 pkey = 0;
  observe("port", "query_pkey", "return", "%s",
          errno_name(ibv_query_pkey(device->context, port_number, 0, &pkey)));
  observe("port", "query_pkey", "pkey", "0x%04x", be16toh(pkey));
  struct ibv_port_attr attr;
  observe("port", "query port 0", "return", "%s",
          errno_name(ibv_query_port(device->context, 0, &attr)));
  observe("port", "query port 2", "return", "%s",
          errno_name(ibv_query_port(device->context, 2, &attr)));
}

static void observe_mr(struct ibv_pd* pd, const char* step, void* address, size_t bytes,
                       unsigned access) {
  errno = 0;
  struct ibv_mr* mr = ibv_reg_mr(pd, address, bytes, access);
  observe("reg_mr", step, "return", "%s", made(mr));
  if (mr == NULL) {
    return;
  }
  observe("reg_mr", step, "length", "%zu", mr->length);
  observe("reg_mr", step, "dereg", "%s", errno_name(ibv_dereg_mr(mr)));
}

static void observe_regions(struct ibv_pd* pd) {
  static uint8_t memory[8192];
  static const uint8_t constant[64] = {1};
  observe_mr(pd, "local", memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  observe_mr(pd, "no access", memory, sizeof memory, 0);
  observe_mr(pd, "remote write alone", memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE);
  observe_mr(pd, "remote atomic alone", memory, sizeof memory, IBV_ACCESS_REMOTE_ATOMIC);
  observe_mr(pd, "remote read alone", memory, sizeof memory, IBV_ACCESS_REMOTE_READ);
  observe_mr(pd, "one byte", memory + 5, 1, IBV_ACCESS_LOCAL_WRITE);
  observe_mr(pd, "no byte", memory, 0, IBV_ACCESS_LOCAL_WRITE);
  observe_mr(pd, "nothing there", (void*)4096, 4096, IBV_ACCESS_LOCAL_WRITE);
  observe_mr(pd, "beyond the address space", memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE);
  observe_mr(pd, "constant memory, to read", (void*)(uintptr_t)constant, sizeof constant,
             IBV_ACCESS_REMOTE_READ);
  observe_mr(pd, "constant memory, to write", (void*)(uintptr_t)constant, sizeof constant,
             IBV_ACCESS_LOCAL_WRITE);
}

static void observe_cqs(struct ibv_context* context) {
  static const struct {
    const char* step;
    int entries, vector;
  } rows[] = {
      {"one entry", 1, 0}, {"no entry", 0, 0}, {"-1 entries", -1, 0}, {"vector 9999", 16, 9999}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    errno = 0;
    struct ibv_cq* cq = ibv_create_cq(context, rows[i].entries, NULL, NULL, rows[i].vector);
    observe("create_cq", rows[i].step, "return", "%s", made(cq));
    if (cq == NULL) {
      continue;
    }
    struct ibv_wc wc;
    observe("create_cq", rows[i].step, "enough entries", "%d", cq->cqe >= rows[i].entries);
    observe("create_cq", rows[i].step, "poll", "%d", ibv_poll_cq(cq, 1, &wc));
    observe("create_cq", rows[i].step, "resize to 64", "%s", errno_name(ibv_resize_cq(cq, 64)));
    observe("create_cq", rows[i].step, "destroy", "%s", errno_name(ibv_destroy_cq(cq)));
  }
}

static void observe_qp_creation(struct ibv_pd* pd, struct ibv_cq* cq,
                                const struct ibv_device_attr* limits) {
  const struct ibv_qp_init_attr plain = {
      .send_cq = cq,
      .recv_cq = cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  struct {
    const char* step;
    struct ibv_qp_init_attr attr;
  } rows[] = {{"RC", plain},
              {"UC", plain},
              {"UD", plain},
              {"type 99", plain},
              {"too many sends", plain},
              {"too many SGEs", plain},
              {"no queues", plain}};
  rows[1].attr.qp_type = IBV_QPT_UC;
  rows[2].attr.qp_type = IBV_QPT_UD;
  rows[3].attr.qp_type = (enum ibv_qp_type)99;
  rows[4].attr.cap.max_send_wr = (uint32_t)limits->max_qp_wr + 1;
  rows[5].attr.cap.max_send_sge = (uint32_t)limits->max_sge + 1;
  rows[6].attr.cap = (struct ibv_qp_cap){0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    errno = 0;
    struct ibv_qp* qp = ibv_create_qp(pd, &rows[i].attr);
    observe("create_qp", rows[i].step, "return", "%s", made(qp));
    if (qp == NULL) {
      continue;
    }
    // The call writes what there is over what was asked for. How much that is of nothing is the
    // device's.
    if (i + 1 < sizeof rows / sizeof *rows) {
      observe("create_qp", rows[i].step, "as many as asked", "%d",
              rows[i].attr.cap.max_send_wr >= plain.cap.max_send_wr);
    }
    observe("create_qp", rows[i].step, "state", "%d", qp->state);
    observe("create_qp", rows[i].step, "destroy", "%s", errno_name(ibv_destroy_qp(qp)));
  }
}

// Nothing may go while something hangs on it.
static void observe_order(struct device* device) {
  struct endpoint end;
  const int failed = open_endpoint(&end, device, IBV_QPT_RC, 4096);
  observe("order", "open", "return", "%s", errno_name(failed));
  if (failed != 0) {
    return;
  }
  observe("order", "destroy a CQ that a QP uses", "return", "%s",
          errno_name(ibv_destroy_cq(end.cq)));
  observe("order", "dealloc a PD that a QP uses", "return", "%s",
          errno_name(ibv_dealloc_pd(end.pd)));
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
  errno = 0;
  struct ibv_srq* srq = ibv_create_srq(end.pd, &attr);
  observe("order", "create_srq", "return", "%s", made(srq));
  if (srq != NULL) {
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
    observe("order", "post_srq_recv without SGE", "return", "%s",
            errno_name(ibv_post_srq_recv(srq, &wr, &bad)));
    observe("order", "destroy_srq", "return", "%s", errno_name(ibv_destroy_srq(srq)));
  }
  close_endpoint(&end);
}

void observe_objects(struct device* device) {
  observe_port(device);
  observe_cqs(device->context);
  struct ibv_pd* pd = ibv_alloc_pd(device->context);
  struct ibv_cq* cq = ibv_create_cq(device->context, 16, NULL, NULL, 0);
  if (pd == NULL || cq == NULL) {
    fatal("ibv_alloc_pd, ibv_create_cq");
  }
  observe_regions(pd);
  observe_qp_creation(pd, cq, &device->attr);
  observe("free", "cq", "return", "%s", errno_name(ibv_destroy_cq(cq)));
  observe("free", "pd", "return", "%s", errno_name(ibv_dealloc_pd(pd)));
  observe_order(device);
}
