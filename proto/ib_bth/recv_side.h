// The receive queue of a queue pair together with what completes its requests.
#pragma once

#include <cstdint>
#include <utility>

#include "base/ids.h"
#include "base/result.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/recv_queue.h"
#include "proto/work.h"

namespace verbena::ib {

class RecvSide {
 public:
  /// `completions` must outlive it.
  RecvSide(Qpn qpn, RecvSource receives, CompletionSink& completions)
      : qpn_(qpn), queue_(std::move(receives)), completions_(&completions) {}

  [[nodiscard]] Qpn qpn() const { return qpn_; }
  [[nodiscard]] const RecvSource& queue() const { return queue_; }
  /// From now on requests come from `shared` and complete to `completions`. No message may be under
  /// way.
  void share(RecvQueue& shared, CompletionSink& completions) {
    queue_.share(shared);
    completions_ = &completions;
  }
  /// `shared` is about to go. Whether requests came from it: there are none from now on.
  [[nodiscard]] bool forget(const RecvQueue& shared);
  /// The next request becomes that of the message which begins.
  void hold() { queue_.hold(); }
  [[nodiscard]] Result<void, PostError> post(const RecvWr& wr) { return queue_.push(wr); }
  /// Completes the oldest request; what the request and the time tell is filled in.
  void complete(TransportEnv& env, WcStatus status, Completion completion, bool solicited);
  /// Completes what belongs to the queue pair alone with wr_flush_err.
  void flush(TransportEnv& env);
  /// Forgets everything; nothing completes.
  void reset();

 private:
  Qpn qpn_;
  RecvSource queue_;
  /// Of an XRC target, the one of the last message.
  CompletionSink* completions_;
};

}  // namespace verbena::ib
