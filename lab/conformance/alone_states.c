// What a queue pair answers in each state: to transitions, allowed and not, to posted work, and
// when it is asked for its attributes.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>

#include "lab/conformance/alone.h"
#include "lab/conformance/report.h"

enum { receive_id = 1, send_id = 2 };

static const char* const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const char* type_name(enum ibv_qp_type type) {
  return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

// Attributes that the consumer set. Which others are told, and with which values, is the device's.
static void observe_attributes(const char* name, const char* step, struct endpoint* end) {
  struct ibv_qp_attr attr = {0};
  struct ibv_qp_init_attr init = {0};
  const int all = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                  IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                  IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP |
                  IBV_QP_DEST_QPN;
  const int result = ibv_query_qp(end->qp, &attr, all, &init);
  observe(name, step, "query_qp", "%s", errno_name(result));
  if (result != 0) {
    return;
  }
  observe(name, step, "qp_state", "%s", state_names[attr.qp_state % 7]);
  observe(name, step, "object's state", "%s", state_names[end->qp->state % 7]);
  const enum ibv_qp_type type = end->qp->qp_type;
  if (attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR) {
    return;
  }
  observe(name, step, "port_num", "%u", attr.port_num);
  observe(name, step, type == IBV_QPT_UD ? "qkey" : "qp_access_flags", "0x%x",
          type == IBV_QPT_UD ? attr.qkey : attr.qp_access_flags);
  if (attr.qp_state == IBV_QPS_INIT || type == IBV_QPT_UD) {
    return;
  }
  observe(name, step, "path_mtu", "%d", 128 << attr.path_mtu);
  observe(name, step, "is_global", "%u", attr.ah_attr.is_global);
  observe(name, step, "hop_limit", "%u", attr.ah_attr.grh.hop_limit);
  observe(name, step, "destination is itself", "%d", attr.dest_qp_num == end->qp->qp_num);
  observe(name, step, "rq_psn", "0x%x", attr.rq_psn);
  if (type != IBV_QPT_RC) {
    return;
  }
  observe(name, step, "max_dest_rd_atomic", "%u", attr.max_dest_rd_atomic);
  observe(name, step, "min_rnr_timer", "%u", attr.min_rnr_timer);
  if (attr.qp_state != IBV_QPS_RTS) {
    return;
  }
  observe(name, step, "sq_psn", "0x%x", attr.sq_psn);
  observe(name, step, "timeout", "%u", attr.timeout);
  observe(name, step, "retry_cnt", "%u", attr.retry_cnt);
  observe(name, step, "rnr_retry", "%u", attr.rnr_retry);
  observe(name, step, "max_rd_atomic", "%u", attr.max_rd_atomic);
}

// A request without data, of which the queue pair in ERR or RTS makes a completion.
static void observe_posts(const char* name, const char* step, struct endpoint* end) {
  struct ibv_recv_wr receive = {.wr_id = receive_id}, *bad_receive = NULL;
  observe(name, step, "post_recv", "%s",
          errno_name(ibv_post_recv(end->qp, &receive, &bad_receive)));
  if (end->qp->qp_type == IBV_QPT_UD || end->qp->state == IBV_QPS_RTS) {
    return;
  }
  struct ibv_send_wr send = {.wr_id = send_id,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                     *bad = NULL;
  const int result = ibv_post_send(end->qp, &send, &bad);
  observe(name, step, "post_send", "%s", errno_name(result));
  if (result != 0) {
    observe(name, step, "bad_wr is the request", "%d", bad == &send);
  }
}

// How many of each kind: the order between the two queues is nobody's promise.
static void observe_flushed(const char* name, const char* step, struct endpoint* end) {
  int receives = 0, sends = 0, others = 0;
  struct ibv_wc wc;
  while (wait_completion(end->cq, &wc, 300) == 1 && receives + sends + others < queue_entries) {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) {
      ++others;
    } else if (wc.wr_id == receive_id) {
      ++receives;
    } else {
      ++sends;
    }
  }
  observe(name, step, "receives flushed", "%d", receives);
  observe(name, step, "sends flushed", "%d", sends);
  observe(name, step, "other completions", "%d", others);
}

static void observe_path(struct device* device, enum ibv_qp_type type) {
  char name[32];
  snprintf(name, sizeof name, "states of %s", type_name(type));
  struct endpoint end;
  const int failed = open_endpoint(&end, device, type, 4096);
  observe(name, "create_qp", "return", "%s", errno_name(failed));
  if (failed != 0) {
    return;
  }
  const struct peer itself = self(&end, 0x123456);
  observe_attributes(name, "RESET", &end);
  observe_posts(name, "RESET", &end);
  observe(name, "INIT", "modify_qp", "%s", errno_name(to_init(&end)));
  observe_attributes(name, "INIT", &end);
  observe_posts(name, "INIT", &end);
  observe(name, "RTR", "modify_qp", "%s", errno_name(to_rtr(&end, &itself, IBV_MTU_1024)));
  observe_attributes(name, "RTR", &end);
  observe_posts(name, "RTR", &end);
  observe(name, "RTS", "modify_qp", "%s", errno_name(to_rts(&end, 0xabcdef, 3)));
  observe_attributes(name, "RTS", &end);
  observe_posts(name, "RTS", &end);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  observe(name, "ERR", "modify_qp", "%s", errno_name(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE)));
  observe_attributes(name, "ERR", &end);
  observe_posts(name, "ERR", &end);
  observe_flushed(name, "ERR", &end);
  attr.qp_state = IBV_QPS_RESET;
  observe(name, "RESET again", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE)));
  observe_attributes(name, "RESET again", &end);
  close_endpoint(&end);
}

// Transitions that the specification forbids, or that lack what it requires (IBTA vol 1, 11.2.5.2).
static void observe_refusals(struct device* device) {
  struct endpoint end;
  if (open_endpoint(&end, device, IBV_QPT_RC, 4096) != 0) {
    return;
  }
  const struct peer itself = self(&end, 1);
  const char* const name = "refused transitions";
  observe(name, "RESET to RTR", "modify_qp", "%s", errno_name(to_rtr(&end, &itself, IBV_MTU_1024)));
  observe(name, "RESET to RTS", "modify_qp", "%s", errno_name(to_rts(&end, 1, 3)));
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port_number};
  observe(name, "INIT without access flags", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)));
  attr.port_num = 9;
  const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  observe(name, "INIT on port 9", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, init)));
  attr.port_num = port_number;
  attr.pkey_index = 999;
  observe(name, "INIT with pkey 999", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, init)));
  attr.pkey_index = 0;
  observe(name, "INIT with a Q_Key", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, init | IBV_QP_QKEY)));
  observe(name, "INIT", "modify_qp", "%s", errno_name(to_init(&end)));
  observe(name, "INIT to RTS", "modify_qp", "%s", errno_name(to_rts(&end, 1, 3)));
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
  observe(name, "RTR without anything", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE)));
  observe(name, "RTR with MTU 7", "modify_qp", "%s",
          errno_name(to_rtr(&end, &itself, (enum ibv_mtu)7)));
  observe(name, "RTR", "modify_qp", "%s", errno_name(to_rtr(&end, &itself, IBV_MTU_1024)));
  attr.qp_state = IBV_QPS_INIT;
  observe(name, "RTR to INIT", "modify_qp", "%s",
          errno_name(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE)));
  observe_attributes(name, "after all that", &end);
  close_endpoint(&end);
}

void observe_transitions(struct device* device) {
  observe_path(device, IBV_QPT_RC);
  observe_path(device, IBV_QPT_UC);
  observe_path(device, IBV_QPT_UD);
  observe_refusals(device);
}
