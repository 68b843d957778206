// The receive queue of a queue pair together with what completes its requests.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/result.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/recv_queue.h"
#include "proto/work.h"

namespace verbena::ib {

class RecvSide {
 public:
  /// `completions` must outlive it.
  RecvSide(Qpn qpn, std::uint32_t wr_max, std::uint32_t sge_max, CompletionSink& completions)
      : qpn_(qpn), queue_(wr_max, sge_max), completions_(completions) {}

  [[nodiscard]] const RecvQueue& queue() const { return queue_; }
  [[nodiscard]] Result<void, PostError> post(const RecvWr& wr) { return queue_.push(wr); }
  /// Completes the oldest request; what the request and the time tell is filled in.
  void complete(TransportEnv& env, WcStatus status, Completion completion, bool solicited);
  /// Completes everything posted with wr_flush_err.
  void flush(TransportEnv& env);
  /// Forgets everything; nothing completes.
  void reset();

 private:
  Qpn qpn_;
  RecvQueue queue_;
  CompletionSink& completions_;
};

}  // namespace verbena::ib
