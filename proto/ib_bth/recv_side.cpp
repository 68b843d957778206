#include "proto/ib_bth/recv_side.h"

namespace verbena::ib {

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
  completions_.complete(completion, solicited || status != WcStatus::success);
}

void RecvSide::flush(TransportEnv& env) {
  while (!queue_.empty()) {
    complete(env, WcStatus::wr_flush_err, {.opcode = WcOpcode::recv}, true);
  }
}

void RecvSide::reset() {
  while (!queue_.empty()) {
    queue_.pop();
  }
}

}  // namespace verbena::ib
