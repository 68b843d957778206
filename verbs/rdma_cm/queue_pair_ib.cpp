// The transitions of a queue pair that a connection of InfiniBand brings.

#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/fetched_event.h"
#include "verbs/rdma_cm/manager_ib.h"

namespace verbena::rdma_cm {

namespace {

/// What Linux asks of queue pairs that the connection manager connects: code 0, 655 ms.
constexpr std::uint8_t min_rnr_timer = 0;

ibv_ah_attr path_attr(const CmId& id) {
  ibv_ah_attr attr = address_of_peer(id, id.path.remote);
  attr.grh.flow_label = id.path.flow_label;
  return attr;
}

Errno init_attr(CmId& id, ibv_qp_attr& attr, int& mask) {
  attr.pkey_index = 0;
  attr.port_num = id.port_num;
  mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (id.is_datagram()) {
    attr.qkey = to_value(id.qkey);
    mask |= IBV_QP_QKEY;
    return 0;
  }
  attr.qp_access_flags = 0;
  mask |= IBV_QP_ACCESS_FLAGS;
  if (id.comm_id != ib::cm::CommId{}) {
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id.agreement.responder_resources > 0) {
      attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
  }
  return 0;
}

Errno rtr_attr(CmId& id, ibv_qp_attr& attr, int& mask) {
  mask = IBV_QP_STATE;
  if (id.is_datagram()) {
    return 0;
  }
  if (id.agreement.remote_qpn == Qpn{}) {
    return EINVAL;
  }
  attr.ah_attr = path_attr(id);
  attr.path_mtu = id.path.mtu;
  attr.dest_qp_num = to_value(id.agreement.remote_qpn);
  attr.rq_psn = id.agreement.receive_psn.value();
  mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (id.qp_type == IBV_QPT_RC || id.qp_type == IBV_QPT_XRC_RECV) {
    attr.max_dest_rd_atomic = id.agreement.responder_resources;
    attr.min_rnr_timer = min_rnr_timer;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return 0;
}

Errno rts_attr(CmId& id, ibv_qp_attr& attr, int& mask) {
  attr.sq_psn = id.is_datagram() ? 0 : id.agreement.send_psn.value();
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (id.qp_type == IBV_QPT_RC || id.qp_type == IBV_QPT_XRC_SEND) {
    attr.retry_cnt = id.agreement.retry_count;
    attr.rnr_retry = id.agreement.rnr_retry_count;
    attr.max_rd_atomic = id.agreement.initiator_depth;
    mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  // Targets of XRC have an ACK timeout too, for the table of states (IBTA vol 1, annex A14).
  if (!id.is_datagram() && id.qp_type != IBV_QPT_UC) {
    attr.timeout = id.ack_timeout_option.value_or(id.path.ack_timeout);
    mask |= IBV_QP_TIMEOUT;
  }
  return 0;
}

}  // namespace

Errno IbManager::init_qp_attr(CmId& id, ibv_qp_attr& attr, int& mask) {
  switch (attr.qp_state) {
    case IBV_QPS_INIT:
      return init_attr(id, attr, mask);
    case IBV_QPS_RTR:
      return rtr_attr(id, attr, mask);
    case IBV_QPS_RTS:
      return rts_attr(id, attr, mask);
    default:
      return EINVAL;
  }
}

Errno IbManager::make_qp_ready(CmId& id) {
  // INIT once more, as only now the rights are known.
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (const Errno error = move_qp(id, state)) {
      return error;
    }
  }
  return 0;
}

}  // namespace verbena::rdma_cm
