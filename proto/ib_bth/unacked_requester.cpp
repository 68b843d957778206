#include "proto/ib_bth/unacked_requester.h"

namespace verbena::ib {

void UnackedRequester::flush(TransportEnv& env) {
  active_ = false;
  next_packet_ = 0;
  while (!queue_.empty()) {
    complete_head(env, WcStatus::wr_flush_err);
  }
}

void UnackedRequester::reset() {
  while (!queue_.empty()) {
    queue_.pop();
  }
  next_packet_ = 0;
  active_ = draining_ = false;
}

void UnackedRequester::packet_sent(TransportEnv& env, bool last) {
  next_psn_ = next_psn_.next();
  ++next_packet_;
  if (last) {
    next_packet_ = 0;
    complete_head(env, WcStatus::success);
  }
}

QpFailure UnackedRequester::fail_head(TransportEnv& env, WcStatus status) {
  active_ = false;
  next_packet_ = 0;
  env.ended_with = status;
  complete_head(env, status);
  return QpFailure::send_queue_error;
}

void UnackedRequester::complete_head(TransportEnv& env, WcStatus status) {
  const SendWqe& wqe = queue_.at(queue_.head());
  const bool failed = status != WcStatus::success;
  if (failed) {
    env.counters.add(Counter::req_cqe_error);
    if (status == WcStatus::wr_flush_err) {
      env.counters.add(Counter::req_cqe_flush_error);
    }
  } else if (completion_opcode(wqe.opcode) == WcOpcode::send) {
    env.counters.add(Counter::rdma_sends);
  }
  if (failed || signal_all_ || wqe.signaled) {
    completions_.complete({.wr_id = wqe.wr_id,
                           .time = env.now,
                           .byte_len = wqe.length,
                           .qpn = qpn_,
                           .status = status,
                           .opcode = completion_opcode(wqe.opcode)},
                          failed);
  }
  queue_.pop();
}

}  // namespace verbena::ib
