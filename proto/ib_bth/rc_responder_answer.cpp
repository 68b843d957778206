// What the responder answers: duplicates, gaps and refusals (IBTA vol 1, 9.7.5.1), and the ring of
// READs and atomics that it keeps for replay. The answers leave in rc_responder_transmit.cpp.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "proto/ib_bth/rc_operations.h"
#include "proto/ib_bth/rc_responder.h"

namespace verbena::ib {

/// Keeps the newest answers as far as there is room.
void RcResponder::resize_replies(std::uint32_t capacity) {
  auto replies = std::make_unique<Reply[]>(capacity);
  const std::uint32_t kept = std::min(capacity, replies_capacity_);
  replies_waiting_ = 0;
  for (std::uint32_t i = 0; i < kept; ++i) {
    const std::uint32_t from = replies_next_ + (replies_capacity_ - kept) + i;
    const Reply& reply = replies_[from % replies_capacity_];
    replies[capacity - kept + i] = reply;
    replies_waiting_ += reply.waiting ? 1 : 0;
  }
  replies_ = std::move(replies);
  replies_capacity_ = capacity;
  replies_next_ = 0;
}

/// IBTA vol 1, 9.7.5.1.3: a request behind the expected one is answered by a NAK, once.
RcResponder::Outcome RcResponder::on_gap(TransportEnv& env, const PacketView& packet) {
  env.counters.add(Counter::out_of_sequence);
  if (nak_sent_) {
    return {.verdict = RxVerdict::drop(RxCheck::psn, Counter::rx_drop_out_of_sequence,
                                       expected_psn_.value(), packet.psn().value())};
  }
  nak_sent_ = true;
  const Syndrome syndrome = Syndrome::nak(NakCode::psn_sequence_error);
  acknowledge(env, {.psn = expected_psn_, .syndrome = syndrome, .msn = msn_});
  return {.verdict = {.kind = RxVerdict::Kind::nak,
                      .check = RxCheck::psn,
                      .syndrome = syndrome.to_byte(),
                      .expected = expected_psn_.value(),
                      .got = packet.psn().value()}};
}

/// IBTA vol 1, 9.7.5.1.4: a duplicate is not executed again. SENDs and WRITEs are acknowledged up
/// to where we are, READs read again, atomics answered with the result kept.
RcResponder::Outcome RcResponder::on_duplicate(TransportEnv& env, const PacketView& packet) {
  env.counters.add(Counter::duplicate_request);
  const RxVerdict verdict{.kind = RxVerdict::Kind::duplicate,
                          .check = RxCheck::psn,
                          .counter = std::nullopt,
                          .expected = expected_psn_.value(),
                          .got = packet.psn().value()};
  if (!keeps_reply(packet.info().operation)) {
    acknowledge(
        env,
        {.psn = expected_psn_ + -1, .syndrome = Syndrome::ack(), .msn = msn_, .is_replay = true});
    return {.verdict = verdict};
  }
  if (!replay(packet)) {
    return {.verdict = RxVerdict::drop(RxCheck::psn, Counter::rx_drop_duplicate,
                                       expected_psn_.value(), packet.psn().value())};
  }
  return {.verdict = verdict};
}

/// Answers a READ or atomic again. False if it isn't kept, or isn't the one that is kept.
bool RcResponder::replay(const PacketView& packet) {
  Reply* const begin = replies_.get();
  Reply* const end = begin + replies_capacity_;
  Reply* const reply = std::find_if(begin, end, [&](const Reply& kept) {
    const std::int32_t at = packet.psn() - kept.first_psn;
    return at >= 0 && static_cast<std::uint32_t>(at) < kept.psn_count;
  });
  if (reply == end || reply->operation != packet.info().operation) {
    return false;
  }
  if (reply->operation == Operation::read_request) {
    // A READ may be asked again from any packet on (IBTA vol 1, 9.7.5.1.4), but only for what it
    // asked the first time.
    const Reth reth = packet.reth();
    const auto at = static_cast<std::uint32_t>(packet.psn() - reply->first_psn);
    const std::uint64_t offset = std::uint64_t{at} * connection_.mtu_bytes;
    if (reth.rkey() != reply->rkey || reth.va() != reply->va + offset ||
        offset + reth.length_bytes() > reply->length) {
      return false;
    }
    reply->next_packet = at;
    reply->bytes_left = reth.length_bytes();
    reply->begins = true;
  } else if (is_answered_without_data(reply->operation)) {
    reply->next_packet = 0;
    reply->begins = true;
  }
  if (!reply->waiting) {
    reply->waiting = reply->is_replay = true;
    ++replies_waiting_;
  }
  return true;
}

RcResponder::Outcome RcResponder::refuse(TransportEnv& env, const PacketView& packet,
                                         const Refusal& refusal) {
  const RxVerdict verdict{.kind = RxVerdict::Kind::nak,
                          .check = refusal.check,
                          .syndrome = refusal.syndrome.to_byte(),
                          .counter = refusal.counter,
                          .expected = refusal.expected,
                          .got = refusal.got};
  acknowledge(env, {.psn = packet.psn(), .syndrome = refusal.syndrome, .msn = msn_});
  if (refusal.syndrome.kind() == AethKind::rnr_nak) {
    nak_sent_ = true;
    env.counters.add(Counter::send_rnr_err);
    return {.verdict = verdict};
  }
  active_ = false;
  // Whoever waits for the message hears of it through the receive request that the message has or
  // would take (C9-222.1.1 ff.); otherwise the event tells.
  const bool has_receive =
      inbound_ == Inbound::send ||
      (takes_receive(packet) && refusal.check >= RxCheck::length && !queue().empty());
  if (has_receive) {
    const bool is_write = inbound_ != Inbound::send && packet.info().operation == Operation::write;
    complete_receive(env, refusal.recv_status,
                     {.opcode = is_write ? WcOpcode::recv_rdma_with_imm : WcOpcode::recv}, true);
    env.ended_with = refusal.recv_status;
    return {.verdict = verdict, .failure = QpFailure::told_by_completion};
  }
  return {.verdict = verdict,
          .failure = refusal.syndrome == Syndrome::nak(NakCode::remote_access_error)
                         ? QpFailure::access_error
                         : QpFailure::request_error};
}

/// Notes that everything up to ack.psn is acknowledged, or refused there. One that waits already is
/// covered by the later one, unless it is a NAK: that has the last word until it is sent.
void RcResponder::acknowledge(TransportEnv& env, const PendingAck& ack) {
  if (ack_) {
    env.counters.add(Counter::ack_deferred);
    if (ack_->syndrome.kind() != AethKind::ack && ack.is_replay) {
      return;
    }
  }
  ack_ = ack;
}

/// Whether the oldest slot may be used again. One that is only being replayed may: a peer that
/// keeps to max_dest_rd_atomic has got its answer long ago.
bool RcResponder::has_reply_slot() const {
  return replies_capacity_ > 0 &&
         (!replies_[replies_next_].waiting || replies_[replies_next_].is_replay);
}

/// The slot for a new READ or atomic: the oldest one.
RcResponder::Reply& RcResponder::add_reply() {
  VERBENA_CHECK(has_reply_slot());
  Reply& reply = replies_[replies_next_];
  replies_next_ = (replies_next_ + 1) % replies_capacity_;
  replies_waiting_ += reply.waiting ? 0 : 1;
  return reply;
}

}  // namespace verbena::ib
