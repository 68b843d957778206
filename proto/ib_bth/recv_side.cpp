#include "proto/ib_bth/recv_side.h"

namespace verbena::ib {

bool RecvSide::forget(const RecvQueue& shared) {
  if (!queue_.is(shared)) {
    return false;
  }
  queue_ = RecvSource(0, 0);
  return true;
}

void RecvSide::complete(TransportEnv& env, WcStatus status, Completion completion, bool solicited) {
  completion.wr_id = queue_.front().wr_id;
  completion.time = env.now;
  completion.qpn = qpn_;
  completion.status = status;
  queue_.pop();
  if (status != WcStatus::success) {
    env.counters.add(Counter::resp_cqe_error);
  }
  if (status == WcStatus::wr_flush_err) {
    env.counters.add(Counter::resp_cqe_flush_error);
  }
  completions_->complete(completion, solicited || status != WcStatus::success);
}

void RecvSide::flush(TransportEnv& env) {
  while (!queue_.owns_none()) {
    complete(env, WcStatus::wr_flush_err, {.opcode = WcOpcode::recv}, true);
  }
}

void RecvSide::reset() { queue_.clear(); }

}  // namespace verbena::ib
