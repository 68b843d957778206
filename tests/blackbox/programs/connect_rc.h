// The three steps of a reliable connection that all programs here take.
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

struct rc_way {
  struct ibv_ah_attr ah;
  uint32_t peer;
  enum ibv_mtu mtu;
  int access;
  uint8_t timeout;
  uint8_t retry;
  uint8_t rnr_retry;
  uint8_t rd_atomic; /* at both ends */
};

/* A way to a GID from row `row` of the table of port 1. */
static inline struct ibv_ah_attr rc_way_to(union ibv_gid gid, int row) {
  return (struct ibv_ah_attr){.is_global = 1,
                              .port_num = 1,
                              .grh = {.dgid = gid, .sgid_index = (uint8_t)row, .hop_limit = 64}};
}

/* Moves a queue pair from RESET to RTS. 0, or the error of the step that failed. */
static inline int connect_rc(struct ibv_qp* qp, const struct rc_way* way) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)way->access};
  int error = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error) return error;
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .path_mtu = way->mtu,
                              .dest_qp_num = way->peer,
                              .max_dest_rd_atomic = way->rd_atomic,
                              .ah_attr = way->ah};
  error = ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error) return error;
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .timeout = way->timeout,
                              .retry_cnt = way->retry,
                              .rnr_retry = way->rnr_retry,
                              .max_rd_atomic = way->rd_atomic};
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}
