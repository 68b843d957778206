// What is sent, and when again (RFC 9293, 3.8; RFC 6298, 5).

#include <algorithm>

#include "base/check.h"
#include "proto/inet/tcp/connection.h"

namespace verbena::inet {

TcpTransmitted TcpConnection::poll_transmit(Time now, TcpSegmentSink& sink,
                                            std::uint32_t& segments_max) {
  while (segments_max > 0) {
    switch (emit_next(now, sink)) {
      case Emitted::nothing:
        if (state_ != TcpState::closed) {
          update_retransmission_timer(now);  // A closed window may hold back what was just written.
        }
        return TcpTransmitted::idle;
      case Emitted::no_room:
        return TcpTransmitted::blocked;
      case Emitted::sent:
        --segments_max;
    }
  }
  return TcpTransmitted::more;
}

TcpConnection::Emitted TcpConnection::emit_next(Time now, TcpSegmentSink& sink) {
  const std::optional<Plan> plan = next_plan(now);
  if (!plan) {
    return Emitted::nothing;
  }
  if (!write_segment(sink, *plan)) {
    return Emitted::no_room;
  }
  note_sent(now, *plan);
  return Emitted::sent;
}

std::optional<TcpConnection::Plan> TcpConnection::next_plan(Time now) {
  if (reset_is_due_) {
    return Plan{.sequence = sequence_without_data(),
                .flags = TcpHeader::flag_rst | TcpHeader::flag_ack};
  }
  if (state_ == TcpState::closed || state_ == TcpState::listen) {
    return std::nullopt;
  }
  if (una_ == settings_.initial_sequence) {
    return plan_syn();
  }
  if (retransmit_first_) {
    Plan plan = plan_data(una_, mss_);
    plan.why = TcpResend::duplicate_acks;
    return plan;
  }
  if (probe_is_due_) {
    return plan_probe();
  }
  if (auto plan = plan_new_data(now)) {
    return plan;
  }
  if (ack_is_due_) {
    return Plan{.sequence = sequence_without_data()};
  }
  return std::nullopt;
}

std::optional<TcpConnection::Plan> TcpConnection::plan_syn() const {
  if (next_ != una_) {
    return std::nullopt;
  }
  const bool answers = state_ != TcpState::syn_sent;
  return Plan{
      .sequence = una_,
      .flags = static_cast<std::uint8_t>(TcpHeader::flag_syn | (answers ? TcpHeader::flag_ack : 0)),
      .why = syn_was_lost_ ? TcpResend::timeout : TcpResend::none};
}

/// Up to so many bytes from `sequence`, in whole units if there are any, and the FIN if it follows
/// them.
TcpConnection::Plan TcpConnection::plan_data(TcpSeq sequence, std::uint32_t bytes_max) const {
  const std::uint32_t written =
      data_end().is_after(sequence) ? bytes_between(sequence, data_end()) : 0;
  Plan plan{.sequence = sequence, .payload_bytes = std::min({written, bytes_max, mss_})};
  if (const auto end = units_.last_within(sequence, plan.payload_bytes)) {
    plan.payload_bytes = bytes_between(sequence, *end);
  }
  if (plan.payload_bytes == written) {
    plan.flags |= written > 0 ? TcpHeader::flag_psh : 0;
    plan.flags |= closing_ && bytes_max > written ? TcpHeader::flag_fin : 0;
  }
  if (sequence.is_before(max_)) {
    plan.why = TcpResend::timeout;
  }
  return plan;
}

/// What waits behind a window that is closed, or that is open a little and not worth a segment: the
/// peer tells of its window when it has got something, or refused it (RFC
/// 9293, 3.8.6.1, 3.8.6.2.1).
TcpConnection::Plan TcpConnection::plan_probe() const {
  return plan_data(next_, std::max(std::min(window_, congestion_.window_bytes()), 1U));
}

/// SND.NXT, unless the peer's window doesn't reach so far: it would refuse the segment, and with it
/// what it tells of our own window.
TcpSeq TcpConnection::sequence_without_data() const {
  const TcpSeq edge = una_ + window_;
  const bool is_opening = una_ == settings_.initial_sequence;
  return is_opening || !max_.is_after(edge) ? max_ : edge;
}

/// From next_ on, as far as the peer's window and the network's allow.
std::optional<TcpConnection::Plan> TcpConnection::plan_new_data(Time now) {
  const std::uint32_t waiting = unsent();
  if (waiting == 0) {
    return std::nullopt;
  }
  if (una_ == max_ && now - last_sent_ > timeout_.value()) {
    congestion_.on_idle();
  }
  const TcpSeq edge = una_ + std::min(window_, congestion_.window_bytes());
  const std::uint32_t allowed = edge.is_after(next_) ? bytes_between(next_, edge) : 0;
  // No silly small segments because a window is small (RFC 9293, 3.8.6.2.1).
  const bool is_worth_it = allowed >= std::min({waiting, mss_, std::max(window_max_ / 2, 1U)});
  // Neither is a unit cut because of that, unless nothing would move.
  const auto unit_end = units_.first_behind(next_);
  const bool cuts =
      unit_end && next_ != una_ && allowed < std::min(bytes_between(next_, *unit_end), mss_);
  return allowed > 0 && is_worth_it && !cuts ? std::optional(plan_data(next_, allowed))
                                             : std::nullopt;
}

bool TcpConnection::write_segment(TcpSegmentSink& sink, const Plan& plan) {
  const bool is_syn = (plan.flags & TcpHeader::flag_syn) != 0;
  TcpSynOptions options;
  if (is_syn) {
    options.mss = settings_.mss;
    if (state_ == TcpState::syn_sent || scales_windows_) {
      options.window_shift = own_window_shift_;
    }
  }
  const std::size_t header_bytes = tcp_header_bytes + syn_options_bytes(options);
  const MutableBytes bytes = sink.reserve(header_bytes + plan.payload_bytes);
  if (bytes.empty()) {
    return false;
  }
  TcpHeader header;
  header.source_port = settings_.local_port;
  header.destination_port = settings_.peer_port;
  header.sequence = plan.sequence.value();
  header.data_offset = static_cast<std::uint8_t>(header_bytes / 4 << 4);
  header.flags = plan.flags;
  if ((plan.flags & TcpHeader::flag_ack) != 0) {
    header.acknowledgement = rcv_next_.value();
  }
  header.window = window_field(is_syn);
  write_struct(bytes, header);
  emit_syn_options(bytes.subspan(tcp_header_bytes, header_bytes - tcp_header_bytes), options);
  if (plan.payload_bytes > 0) {
    sending_.copy_out(bytes_between(sending_from_, plan.sequence), bytes.subspan(header_bytes));
  }
  sink.commit(plan.why);
  return true;
}

/// The window that a segment tells. Its right edge moves on only if that is worth it (RFC 9293,
/// 3.8.6.2.2), and never back.
std::uint16_t TcpConnection::window_field(bool is_syn) {
  constexpr std::uint32_t field_max = 0xFFFF;
  const std::uint8_t shift = is_syn || !scales_windows_ ? 0 : own_window_shift_;
  const auto room = static_cast<std::uint32_t>(received_.room());
  if (state_ == TcpState::syn_sent) {
    return static_cast<std::uint16_t>(std::min(room, field_max));
  }
  const auto worth = std::min(static_cast<std::uint32_t>(received_.capacity() / 2), mss_);
  if (room >= receive_window() + worth) {
    const std::uint32_t told = std::min(room >> shift, field_max) << shift;
    rcv_edge_ = later_of(rcv_edge_, rcv_next_ + told);
  }
  return static_cast<std::uint16_t>(std::min(receive_window() >> shift, field_max));
}

void TcpConnection::note_sent(Time now, const Plan& plan) {
  const bool takes_one = (plan.flags & (TcpHeader::flag_syn | TcpHeader::flag_fin)) != 0;
  const TcpSeq end = plan.sequence + plan.payload_bytes + (takes_one ? 1 : 0);
  ++statistics_.segments_sent;
  statistics_.retransmitted += plan.why == TcpResend::none ? 0 : 1;
  reset_is_due_ = false;
  if ((plan.flags & TcpHeader::flag_ack) != 0) {
    ack_is_due_ = false;
    acknowledge_at_ = time_never;
    acknowledged_ = rcv_next_;
  }
  if (end == plan.sequence) {
    return;
  }
  retransmit_first_ = false;
  statistics_.window_probes += probe_is_due_ ? 1 : 0;
  probe_is_out_ = probe_is_out_ || (probe_is_due_ && window_ == 0);
  probe_is_due_ = false;
  last_sent_ = now;
  // One segment at a time is measured, and none that was sent twice (RFC 6298, 3).
  if (plan.sequence.is_before(max_)) {
    timing_.reset();
  } else if (!timing_) {
    timing_ = Timing{.end = end, .start = now};
  }
  next_ = later_of(next_, end);
  max_ = later_of(max_, end);
  update_retransmission_timer(now);
}

/// Runs while something is in flight, or while a closed window holds back what is to be sent.
void TcpConnection::update_retransmission_timer(Time now) {
  const bool in_flight = una_ != max_;
  const bool held_back = unsent() > 0 && is_synchronized() && state_ != TcpState::closed;
  if (!in_flight && !held_back) {
    retransmit_at_ = time_never;
    retries_ = 0;
  } else if (retransmit_at_ == time_never) {
    retransmit_at_ = now + timeout_.value();
  }
}

/// RFC 6298, (5.4) to (5.7).
void TcpConnection::on_retransmission_timeout(Time now) {
  const bool is_opening = una_ == settings_.initial_sequence;
  if (retries_ >= (is_opening ? settings_.syn_retries_max : settings_.retries_max)) {
    finish(TcpEnd::timed_out);
    return;
  }
  ++retries_;
  ++statistics_.timeouts;
  timeout_.back_off();
  timing_.reset();
  if (is_opening) {
    syn_was_lost_ = true;
    next_ = una_;
  } else if (window_ == 0 || una_ == max_) {
    next_ = una_;
    probe_is_due_ = true;
  } else {
    congestion_.on_timeout(una_, max_, retries_ > 1);
    retransmit_first_ = false;
    next_ = una_;
  }
  retransmit_at_ = now + timeout_.value();
}

}  // namespace verbena::inet
