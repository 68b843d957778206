#include "lab/conformance/pair_by_cm.h"

#include <arpa/inet.h>
#include <errno.h>

#include "lab/conformance/report.h"

enum {
  // READs at a time, each way: as many as pairs without rdma_cm have.
  depth = 4,
};

static int errno_of(int result) { return result == 0 ? 0 : errno != 0 ? errno : EIO; }

// Returns 0 if this event comes next.
static int expect(struct manager* manager, enum rdma_cm_event_type wanted, struct heard* heard) {
  if (!hear_event(manager, heard, event_limit_ms)) {
    return ETIMEDOUT;
  }
  return heard->type == wanted ? 0 : EPROTO;
}

static int make_qp(struct endpoint* end, struct rdma_cm_id* id) {
  struct ibv_qp_init_attr attr = qp_attr_of(end, IBV_QPT_RC);
  const int failed =
      id->verbs == end->device->context ? errno_of(rdma_create_qp(id, end->pd, &attr)) : ENODEV;
  end->qp = id->qp;
  return failed;
}

// The one who connects, up to its request.
static int request_connection(struct pair* pair, struct manager* manager) {
  struct sockaddr_storage from = manager->own, to = manager->peer;
  struct heard heard;
  int failed = errno_of(rdma_create_id(manager->channel, &pair->requester_id, NULL, RDMA_PS_TCP));
  if (failed == 0) {
    failed = errno_of(rdma_resolve_addr(pair->requester_id, (struct sockaddr*)&from,
                                        (struct sockaddr*)&to, resolve_limit_ms));
  }
  if (failed == 0) {
    failed = expect(manager, RDMA_CM_EVENT_ADDR_RESOLVED, &heard);
  }
  if (failed == 0) {
    failed = errno_of(rdma_resolve_route(pair->requester_id, resolve_limit_ms));
  }
  if (failed == 0) {
    failed = expect(manager, RDMA_CM_EVENT_ROUTE_RESOLVED, &heard);
  }
  if (failed == 0) {
    failed = make_qp(&pair->requester, pair->requester_id);
  }
  struct rdma_conn_param param = {.responder_resources = depth, .initiator_depth = depth};
  return failed == 0 ? errno_of(rdma_connect(pair->requester_id, &param)) : failed;
}

static int accept_connection(struct pair* pair, struct manager* manager) {
  struct heard heard;
  int failed = expect(manager, RDMA_CM_EVENT_CONNECT_REQUEST, &heard);
  if (failed == 0) {
    pair->responder_id = heard.id;
    failed = make_qp(&pair->responder, pair->responder_id);
  }
  struct rdma_conn_param param = {.responder_resources = depth, .initiator_depth = depth};
  return failed == 0 ? errno_of(rdma_accept(pair->responder_id, &param)) : failed;
}

int connect_pair(struct pair* pair, struct manager* manager) {
  struct heard heard;
  pair->manager = manager;
  errno = 0;
  int failed = request_connection(pair, manager);
  if (failed == 0) {
    failed = accept_connection(pair, manager);
  }
  // One for each end, in whichever order.
  for (int i = 0; i < 2 && failed == 0; ++i) {
    failed = expect(manager, RDMA_CM_EVENT_ESTABLISHED, &heard);
  }
  return failed;
}

static void end_side(struct rdma_cm_id* id, struct endpoint* end) {
  if (id == NULL) {
    return;
  }
  if (id->qp != NULL) {
    rdma_disconnect(id);
    rdma_destroy_qp(id);
  }
  rdma_destroy_id(id);
  end->qp = NULL;
}

void end_connection(struct pair* pair) {
  end_side(pair->requester_id, &pair->requester);
  end_side(pair->responder_id, &pair->responder);
  if (pair->manager != NULL) {
    drain_events(pair->manager);
  }
}

void observe_end(struct pair* pair, const char* name, int limit_ms) {
  const int64_t deadline = now_ms() + limit_ms;
  int requester = 0, responder = 0;
  while (requester == 0 || responder == 0) {
    const int64_t left = deadline - now_ms();
    struct heard heard;
    if (left <= 0 || !hear_event(pair->manager, &heard, (int)left)) {
      break;
    }
    if (heard.type == RDMA_CM_EVENT_DISCONNECTED) {
      requester += heard.id == pair->requester_id;
      responder += heard.id == pair->responder_id;
    }
  }
  observe(name, "requester", "DISCONNECTED", "%d", requester);
  observe(name, "responder", "DISCONNECTED", "%d", responder);
}
