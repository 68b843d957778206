// Holding back acknowledgements for a moment, so that they travel with the application's reply.
//
// A program that waits for a message in memory, as ib_write_lat does, doesn't poll its CQ
// meanwhile, so nobody runs its NIC but the background thread, microseconds later. What it does
// poll for is the completion of its own message: while it waits for that acknowledgement it
// receives whatever else has come. If the acknowledgement and the peer's next message arrive
// together, both programs always find what they wait for without a second thread. So a receiver
// may keep its acknowledgements until the program's next call, which in a loop is a fraction of a
// microsecond later.
//
// It does so only for a program that has shown to reply: that posts soon after frames came, time
// and again. Others would only wait longer for each other; and one that leaves by _exit() after its
// last message takes an acknowledgement with it that hardware would have sent.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace verbena::ports {

class AnswerPatience {
 public:
  /// A reply comes within `limit` after the frames.
  explicit AnswerPatience(Duration limit) : limit_(limit) {}

  /// Whether a reply is expected to the next frames that come.
  [[nodiscard]] bool willing() const { return trust_ >= trust_wanted; }
  /// Answers wait.
  [[nodiscard]] bool holding() const { return holding_; }

  /// Frames came; `held` tells whether their answers wait.
  void received(Time now, bool held) {
    if (reply_expected_) {
      lose_trust();
    }
    reply_expected_ = true;
    received_ = now;
    holding_ = holding_ || held;
  }
  /// The application posted a send request.
  void replied(Time now) {
    if (!reply_expected_) {
      return;
    }
    reply_expected_ = false;
    if (now - received_ <= limit_) {
      trust_ = std::min(trust_ + 1, trust_max);
    } else {
      lose_trust();
    }
  }
  /// All answers were sent.
  void sent() { holding_ = false; }

 private:
  /// High enough that a program that loses its processor now and then keeps its trust.
  static constexpr int trust_max = 16;
  static constexpr int trust_wanted = 8;

  void lose_trust() { trust_ = std::max(trust_ - 1, 0); }

  Duration limit_;
  int trust_ = 0;
  bool holding_ = false;
  bool reply_expected_ = false;
  Time received_{};
};

}  // namespace verbena::ports
