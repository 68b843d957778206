// What a segment does (RFC 9293, 3.10.7).

#include <algorithm>

#include "proto/inet/tcp/connection.h"

namespace verbena::inet {

namespace {

/// Bytes of sequence space that a segment takes (RFC 9293, 3.4: SEG.LEN).
std::uint32_t length_of(const TcpSegment& segment) {
  return static_cast<std::uint32_t>(segment.payload.size()) +
         (segment.header.has(TcpHeader::flag_syn) ? 1 : 0) +
         (segment.header.has(TcpHeader::flag_fin) ? 1 : 0);
}

/// What is out of place is answered by an ACK this often at most, unless it carries data: else two
/// ends that disagree about their numbers would answer each other for ever (RFC 5961, 7).
constexpr Duration stranger_interval = std::chrono::milliseconds(500);

TcpSeq sequence_of(const TcpSegment& segment) { return TcpSeq(segment.header.sequence.value()); }

TcpSeq acknowledgement_of(const TcpSegment& segment) {
  return TcpSeq(segment.header.acknowledgement.value());
}

}  // namespace

TcpVerdict TcpConnection::on_segment(Time now, const TcpSegment& segment) {
  ++statistics_.segments_received;
  TcpVerdict verdict{};
  switch (state_) {
    case TcpState::closed:
      return TcpVerdict::unknown;
    case TcpState::listen:
      return on_segment_in_listen(segment);
    case TcpState::syn_sent:
      verdict = on_segment_in_syn_sent(now, segment);
      break;
    default:
      verdict = on_synchronized(now, segment);
  }
  if (state_ != TcpState::closed) {
    update_retransmission_timer(now);
  }
  return verdict;
}

/// 3.10.7.2.
TcpVerdict TcpConnection::on_segment_in_listen(const TcpSegment& segment) {
  const TcpHeader& header = segment.header;
  if (header.has(TcpHeader::flag_rst)) {
    return TcpVerdict::ignored;
  }
  if (header.has(TcpHeader::flag_ack) || !header.has(TcpHeader::flag_syn)) {
    return TcpVerdict::unknown;
  }
  settings_.peer_port = header.source_port.value();
  take_syn(segment);
  state_ = TcpState::syn_received;
  return TcpVerdict::accepted;
}

/// 3.10.7.3.
TcpVerdict TcpConnection::on_segment_in_syn_sent(Time now, const TcpSegment& segment) {
  const TcpHeader& header = segment.header;
  const bool has_ack = header.has(TcpHeader::flag_ack);
  const TcpSeq acknowledged = acknowledgement_of(segment);
  if (has_ack && (!acknowledged.is_after(una_) || acknowledged.is_after(max_))) {
    return header.has(TcpHeader::flag_rst) ? TcpVerdict::ignored : TcpVerdict::unknown;
  }
  if (header.has(TcpHeader::flag_rst)) {
    if (!has_ack) {
      return TcpVerdict::ignored;
    }
    finish(TcpEnd::refused);
    return TcpVerdict::ended;
  }
  if (!header.has(TcpHeader::flag_syn)) {
    return TcpVerdict::ignored;
  }
  take_syn(segment);
  if (!has_ack) {
    // Both called at once: our SYN goes out again, with an ACK.
    state_ = TcpState::syn_received;
    next_ = una_;
    return TcpVerdict::accepted;
  }
  ack_is_due_ = true;
  state_ = TcpState::established;
  on_new_acknowledgement(now, acknowledged);
  return TcpVerdict::accepted;
}

void TcpConnection::take_syn(const TcpSegment& segment) {
  const TcpSynOptions options = parse_syn_options(segment.options);
  const std::uint16_t peer_mss = std::max(options.mss.value_or(tcp_mss_default), tcp_mss_min);
  mss_ = std::min<std::uint32_t>(settings_.mss, peer_mss);
  congestion_ = CongestionControl(mss_);
  scales_windows_ = options.window_shift.has_value();
  peer_window_shift_ = options.window_shift.value_or(0);
  rcv_next_ = acknowledged_ = rcv_edge_ = sequence_of(segment) + 1;
  // The window of a SYN is never scaled (RFC 7323, 2.2).
  window_ = window_max_ = segment.header.window.value();
  window_sequence_ = sequence_of(segment);
  window_acknowledgement_ = acknowledgement_of(segment);
}

/// 3.10.7.4.
TcpVerdict TcpConnection::on_synchronized(Time now, const TcpSegment& segment) {
  const TcpHeader& header = segment.header;
  const bool probes_closed_window = receive_window() == 0 && sequence_of(segment) == rcv_next_ &&
                                    header.has(TcpHeader::flag_ack) &&
                                    !header.has(TcpHeader::flag_rst);
  // Both called at once, and the peer's SYN comes again with the ACK of ours (3.5, figure 7).
  const bool ends_call = state_ == TcpState::syn_received && header.has(TcpHeader::flag_syn) &&
                         header.has(TcpHeader::flag_ack) && sequence_of(segment) + 1 == rcv_next_ &&
                         acknowledgement_of(segment) == max_;
  if (ends_call) {
    ack_is_due_ = true;
    return on_acknowledgement(now, segment).value_or(TcpVerdict::accepted);
  }
  if (!is_acceptable(sequence_of(segment), length_of(segment)) && !probes_closed_window) {
    return on_unacceptable(now, segment);
  }
  if (header.has(TcpHeader::flag_rst)) {
    return on_reset(now, segment);
  }
  if (header.has(TcpHeader::flag_syn)) {
    return challenge(now);  // RFC 5961, 4.
  }
  if (!header.has(TcpHeader::flag_ack)) {
    return TcpVerdict::ignored;
  }
  if (const auto refused = on_acknowledgement(now, segment)) {
    return *refused;
  }
  if (state_ == TcpState::closed) {
    return TcpVerdict::accepted;  // It was the ACK of our FIN, the last of all.
  }
  const bool peer_may_send = !fin_received_;
  if (!peer_may_send) {
    return TcpVerdict::accepted;
  }
  note_fin(segment);
  const TcpVerdict verdict = take_payload(now, segment);
  if (fin_at_ == rcv_next_) {
    take_fin(now);
  }
  return verdict;
}

/// The four cases of 3.10.7.4, first.
bool TcpConnection::is_acceptable(TcpSeq sequence, std::uint32_t length) const {
  const std::uint32_t window = receive_window();
  const auto is_inside = [&](TcpSeq number) {
    return !number.is_before(rcv_next_) && number.is_before(rcv_edge_);
  };
  if (length == 0) {
    return window == 0 ? sequence == rcv_next_ : is_inside(sequence);
  }
  return window > 0 && (is_inside(sequence) || is_inside(sequence + (length - 1)));
}

TcpVerdict TcpConnection::on_unacceptable(Time now, const TcpSegment& segment) {
  if (segment.header.has(TcpHeader::flag_rst)) {
    return TcpVerdict::ignored;
  }
  if (state_ == TcpState::time_wait && segment.header.has(TcpHeader::flag_fin)) {
    enter_time_wait(now);  // Our ACK was lost.
  }
  if (state_ == TcpState::syn_received) {
    next_ = una_;  // So was our SYN,ACK.
  }
  if (segment.payload.empty()) {
    answer_stranger(now);
  } else {
    ack_is_due_ = true;
  }
  const bool is_old = !(sequence_of(segment) + length_of(segment)).is_after(rcv_next_);
  return is_old ? TcpVerdict::duplicate : TcpVerdict::outside_window;
}

/// RFC 5961, 3: only the exact number counts.
TcpVerdict TcpConnection::on_reset(Time now, const TcpSegment& segment) {
  if (sequence_of(segment) != rcv_next_) {
    return challenge(now);
  }
  finish(state_ == TcpState::syn_received ? TcpEnd::refused : TcpEnd::reset);
  return TcpVerdict::ended;
}

TcpVerdict TcpConnection::challenge(Time now) {
  ++statistics_.challenges;
  answer_stranger(now);
  return TcpVerdict::challenged;
}

void TcpConnection::answer_stranger(Time now) {
  if (now < answers_strangers_from_) {
    ++statistics_.unanswered;
    return;
  }
  answers_strangers_from_ = now + stranger_interval;
  ack_is_due_ = true;
}

/// What ends the segment's way, if something does.
std::optional<TcpVerdict> TcpConnection::on_acknowledgement(Time now, const TcpSegment& segment) {
  const TcpSeq acknowledged = acknowledgement_of(segment);
  if (state_ == TcpState::syn_received) {
    if (!acknowledged.is_after(una_) || acknowledged.is_after(max_)) {
      return TcpVerdict::unknown;
    }
    state_ = closing_ ? TcpState::fin_wait_1 : TcpState::established;
  }
  // Neither what was never sent, nor what was acknowledged long ago (RFC 5961, 5).
  const bool is_too_old =
      acknowledged.is_before(una_) && bytes_between(acknowledged, una_) > window_max_;
  if (acknowledged.is_after(max_) || is_too_old) {
    return challenge(now);
  }
  if (acknowledged.is_after(una_)) {
    on_new_acknowledgement(now, acknowledged);
  } else if (acknowledged == una_) {
    on_duplicate_acknowledgement(segment);
  }
  update_window(segment.header);
  if (window_ == 0) {
    retries_ = 0;  // Whoever answers may keep its window closed for ever (RFC 9293, 3.8.6.1).
  }
  if (!fin_is_acknowledged()) {
    return std::nullopt;
  }
  if (state_ == TcpState::fin_wait_1) {
    state_ = TcpState::fin_wait_2;
  } else if (state_ == TcpState::closing) {
    enter_time_wait(now);
  } else if (state_ == TcpState::last_ack) {
    finish(TcpEnd::none);
  }
  return std::nullopt;
}

void TcpConnection::on_new_acknowledgement(Time now, TcpSeq acknowledged) {
  if (timing_ && !acknowledged.is_before(timing_->end)) {
    timeout_.measure(now - timing_->start);
    timing_.reset();
  }
  if (una_ == settings_.initial_sequence) {
    if (syn_was_lost_) {
      timeout_.syn_was_lost();
    }
    una_ = una_ + 1;
  }
  retries_ = 0;
  if (acknowledged.is_after(una_)) {
    const auto action = congestion_.on_new_ack(una_, acknowledged, max_);
    retransmit_first_ = action == CongestionControl::Action::retransmit_first;
    const std::size_t data =
        std::min<std::size_t>(bytes_between(sending_from_, acknowledged), sending_.size());
    sending_.drop_front(data);
    sending_from_ = sending_from_ + static_cast<std::uint32_t>(data);
    una_ = acknowledged;
    units_.drop_until(una_);
    probe_is_out_ = false;
  }
  next_ = later_of(next_, una_);
  // RFC 6298, (5.3); update_retransmission_timer() starts it again if something is in flight.
  retransmit_at_ = time_never;
}

/// RFC 5681, 2: which ACKs are duplicates.
void TcpConnection::on_duplicate_acknowledgement(const TcpSegment& segment) {
  const std::uint32_t told = std::uint32_t{segment.header.window.value()} << peer_window_shift_;
  if (una_ == max_ || length_of(segment) != 0 || told != window_) {
    return;
  }
  ++statistics_.duplicate_acks;
  if (congestion_.on_duplicate_ack(una_, max_) == CongestionControl::Action::retransmit_first) {
    ++statistics_.fast_retransmits;
    retransmit_first_ = true;
  }
}

void TcpConnection::update_window(const TcpHeader& header) {
  const TcpSeq sequence(header.sequence.value());
  const TcpSeq acknowledged(header.acknowledgement.value());
  if (acknowledged.is_before(una_) || window_sequence_.is_after(sequence) ||
      (window_sequence_ == sequence && window_acknowledgement_.is_after(acknowledged))) {
    return;
  }
  const std::uint32_t told = std::uint32_t{header.window.value()} << peer_window_shift_;
  if (window_ == 0 && told > 0 && probe_is_out_) {
    next_ = una_;  // The probe was refused: it is the first to be sent again, and now.
    probe_is_out_ = false;
    timeout_.forget_back_off();
    retransmit_at_ = time_never;
  }
  window_ = told;
  window_max_ = std::max(window_max_, window_);
  window_sequence_ = sequence;
  window_acknowledgement_ = acknowledged;
}

TcpVerdict TcpConnection::take_payload(Time now, const TcpSegment& segment) {
  ByteView payload = segment.payload;
  TcpSeq sequence = sequence_of(segment);
  if (payload.empty()) {
    return TcpVerdict::accepted;
  }
  if (sequence.is_before(rcv_next_)) {
    const std::size_t known =
        std::min<std::size_t>(bytes_between(sequence, rcv_next_), payload.size());
    payload = payload.subspan(known);
    sequence = rcv_next_;
  }
  const std::uint32_t ahead = bytes_between(rcv_next_, sequence);
  payload = payload.first(std::min<std::size_t>(payload.size(), receive_window() - ahead));
  if (payload.empty()) {
    ack_is_due_ = true;
    return TcpVerdict::duplicate;
  }
  const auto bytes = static_cast<std::uint32_t>(payload.size());
  if (ahead > 0) {
    // At once: duplicates tell the sender what is missing (RFC 5681, 4.2).
    ack_is_due_ = true;
    ++statistics_.early_segments;
    if (!early_.add(ahead, bytes)) {
      return TcpVerdict::not_kept;
    }
    received_.put(received_.size() + ahead, payload);
    return TcpVerdict::early;
  }
  received_.put(received_.size(), payload);
  // Also at once if it fills a gap.
  ack_is_due_ = ack_is_due_ || !early_.empty();
  const std::uint32_t in_order = bytes + early_.advance(bytes);
  received_.grow(in_order);
  rcv_next_ = rcv_next_ + in_order;
  acknowledge_later(now);
  return TcpVerdict::accepted;
}

/// RFC 9293, 3.8.6.3: at least every second full segment at once.
void TcpConnection::acknowledge_later(Time now) {
  if (bytes_between(acknowledged_, rcv_next_) >= 2 * mss_) {
    ack_is_due_ = true;
  } else {
    acknowledge_at_ = std::min(acknowledge_at_, now + settings_.acknowledgement_delay);
  }
}

/// A FIN may come ahead of its turn; what the peer sends behind it never counts.
void TcpConnection::note_fin(const TcpSegment& segment) {
  const TcpSeq at = sequence_of(segment) + static_cast<std::uint32_t>(segment.payload.size());
  const bool is_inside = !at.is_before(rcv_next_) && !at.is_after(rcv_edge_);
  if (segment.header.has(TcpHeader::flag_fin) && is_inside) {
    fin_at_ = at;
  }
}

void TcpConnection::take_fin(Time now) {
  fin_received_ = true;
  rcv_next_ = rcv_next_ + 1;
  rcv_edge_ = later_of(rcv_edge_, rcv_next_);
  ack_is_due_ = true;
  switch (state_) {
    case TcpState::established:
      state_ = TcpState::close_wait;
      break;
    case TcpState::fin_wait_1:
      state_ = TcpState::closing;
      break;
    case TcpState::fin_wait_2:
      enter_time_wait(now);
      break;
    default:
      break;
  }
}

}  // namespace verbena::inet
