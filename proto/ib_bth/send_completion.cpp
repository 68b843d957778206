#include "proto/ib_bth/send_completion.h"

namespace verbena::ib {

void complete_oldest(SendQueue& queue, TransportEnv& env, WcStatus status, Qpn qpn, bool signal_all,
                     CompletionSink& completions) {
  const SendWqe& wqe = queue.at(queue.head());
  const bool failed = status != WcStatus::success;
  if (failed) {
    env.counters.add(Counter::req_cqe_error);
    if (status == WcStatus::wr_flush_err) {
      env.counters.add(Counter::req_cqe_flush_error);
    }
  } else if (completion_opcode(wqe.opcode) == WcOpcode::send) {
    env.counters.add(Counter::rdma_sends);
  }
  if (failed || signal_all || wqe.signaled) {
    completions.complete({.wr_id = wqe.wr_id,
                          .time = env.now,
                          .byte_len = wqe.length,
                          .qpn = qpn,
                          .status = status,
                          .opcode = completion_opcode(wqe.opcode)},
                         failed);
  }
  queue.pop();
}

}  // namespace verbena::ib
