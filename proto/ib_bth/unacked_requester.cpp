#include "proto/ib_bth/unacked_requester.h"

#include "proto/ib_bth/send_completion.h"

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
  complete_oldest(queue_, env, status, qpn_, signal_all_, completions_);
}

}  // namespace verbena::ib
