// What the requesters of the unreliable services have in common: a request is complete as soon as
// its last packet is sent, because nobody will ever acknowledge it. Read first: IBTA vol 1, 9.8.1.
//
//     posted ──its turn──► being sent ──last packet──► completed
//                             │
//                             └─ its own memory or length doesn't permit it ─► completes with an
//                                error; the queue pair goes to SQE, all behind it is flushed
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/result.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/packet_sink.h"
#include "proto/send_queue.h"
#include "proto/work.h"

namespace verbena::ib {

class UnackedRequester {
 public:
  /// `completions` must outlive the requester.
  UnackedRequester(Qpn qpn, const SendQueueLimits& limits, bool signal_all,
                   CompletionSink& completions)
      : qpn_(qpn), queue_(limits), signal_all_(signal_all), completions_(completions) {}

  // Getters.
  [[nodiscard]] const SendQueueLimits& limits() const { return queue_.limits(); }
  /// No request is half sent (IBTA vol 1, 10.3.1.5, SQ drained).
  [[nodiscard]] bool is_drained() const { return next_packet_ == 0; }
  /// Requests that can still be posted.
  [[nodiscard]] std::size_t room() const { return queue_.room(); }
  /// PSN of the next packet.
  [[nodiscard]] Psn next_psn() const { return next_psn_; }
  /// Whether poll_transmit() would find something to do.
  [[nodiscard]] bool wants_transmit() const {
    return active_ && !queue_.empty() && !(draining_ && is_drained());
  }

  // Commands.
  /// SQD: finish what was begun, begin nothing new.
  void set_draining(bool draining) { draining_ = draining; }
  /// The send queue is in error: completes everything posted with wr_flush_err. Sends nothing more
  /// until it is activated or resumed.
  void flush(TransportEnv& env);
  /// SQE to RTS: requests that are posted from now on are sent.
  void resume() { active_ = true; }
  /// Reset: forgets everything; nothing completes.
  void reset();

  struct Transmitted {
    TransmitResult result = TransmitResult::idle;
    QpFailure failure = QpFailure::none;
  };

 protected:
  void activate(Psn first_psn) {
    next_psn_ = first_psn;
    active_ = true;
  }
  /// Completes the oldest request.
  void complete_head(TransportEnv& env, WcStatus status);
  /// The oldest request can't be sent: completes it with the reason.
  [[nodiscard]] QpFailure fail_head(TransportEnv& env, WcStatus status);
  enum class Emitted : std::uint8_t { sent, no_room, no_access };
  /// Sends until there is nothing, `packets_max` is used up, or the way is blocked. `check()` tells
  /// what is wrong with the oldest request before its first packet; `emit()` sends one packet of
  /// it.
  template <class Check, class Emit>
  [[nodiscard]] Transmitted transmit(TransportEnv& env, std::uint32_t& packets_max, Check check,
                                     Emit emit) {
    while (wants_transmit()) {
      const WcStatus status = is_drained() ? check() : WcStatus::success;
      if (status != WcStatus::success) {
        return {.failure = fail_head(env, status)};
      }
      if (packets_max == 0) {
        return {.result = TransmitResult::more};
      }
      switch (emit()) {
        case Emitted::sent:
          --packets_max;
          break;
        case Emitted::no_room:
          return {.result = TransmitResult::blocked};
        case Emitted::no_access:
          return {.failure = fail_head(env, WcStatus::loc_prot_err)};
      }
    }
    return {};
  }
  /// A packet of the oldest request is out; completes it if that was its last.
  void packet_sent(TransportEnv& env, bool last);

  const Qpn qpn_;
  SendQueue queue_;
  /// Number of the packet of the oldest request that is sent next.
  std::uint32_t next_packet_ = 0;
  Psn next_psn_;

 private:
  const bool signal_all_;
  CompletionSink& completions_;
  bool active_ = false;
  bool draining_ = false;
};

}  // namespace verbena::ib
