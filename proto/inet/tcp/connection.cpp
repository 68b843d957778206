#include "proto/inet/tcp/connection.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::inet {

namespace {

constexpr std::uint32_t buffer_bytes_max = 1U << 30;
constexpr std::uint32_t window_field_max = 0xFFFF;

/// The smallest with which a window of the whole buffer can be told.
std::uint8_t window_shift_for(std::uint32_t buffer_bytes) {
  std::uint8_t shift = 0;
  while (shift < tcp_window_shift_max && buffer_bytes >> shift > window_field_max) {
    ++shift;
  }
  return shift;
}

}  // namespace

std::string_view name_of(TcpState state) noexcept {
  switch (state) {
    case TcpState::closed:
      return "CLOSED";
    case TcpState::listen:
      return "LISTEN";
    case TcpState::syn_sent:
      return "SYN-SENT";
    case TcpState::syn_received:
      return "SYN-RECEIVED";
    case TcpState::established:
      return "ESTABLISHED";
    case TcpState::fin_wait_1:
      return "FIN-WAIT-1";
    case TcpState::fin_wait_2:
      return "FIN-WAIT-2";
    case TcpState::close_wait:
      return "CLOSE-WAIT";
    case TcpState::closing:
      return "CLOSING";
    case TcpState::last_ack:
      return "LAST-ACK";
    case TcpState::time_wait:
      return "TIME-WAIT";
  }
  return "?";
}

TcpConnection::TcpConnection(const TcpSettings& settings)
    : settings_(settings),
      mss_(settings.mss),
      sending_(settings.send_buffer_bytes),
      sending_from_(settings.initial_sequence + 1),
      una_(settings.initial_sequence),
      next_(settings.initial_sequence),
      max_(settings.initial_sequence),
      congestion_(settings.mss),
      timeout_(settings.retransmission_timeout_min),
      received_(settings.receive_buffer_bytes),
      own_window_shift_(window_shift_for(settings.receive_buffer_bytes)) {
  VERBENA_CHECK(settings.mss > 0);
  VERBENA_CHECK(settings.send_buffer_bytes > 0 && settings.send_buffer_bytes <= buffer_bytes_max);
  VERBENA_CHECK(settings.receive_buffer_bytes > 0 &&
                settings.receive_buffer_bytes <= buffer_bytes_max);
}

void TcpConnection::connect() {
  VERBENA_CHECK(state_ == TcpState::closed && end_ == TcpEnd::none);
  state_ = TcpState::syn_sent;
}

void TcpConnection::listen() {
  VERBENA_CHECK(state_ == TcpState::closed && end_ == TcpEnd::none);
  state_ = TcpState::listen;
}

std::size_t TcpConnection::write(ByteView bytes) {
  const bool may_write = !closing_ && state_ != TcpState::closed && state_ != TcpState::listen;
  return may_write ? sending_.append(bytes) : 0;
}

bool TcpConnection::write_unit(ByteView bytes) {
  const TcpSeq begin = data_end();
  if (bytes.size() > sending_.room() || write(bytes) < bytes.size()) {
    return false;
  }
  units_.add(begin, data_end(), max_, mss_);
  return true;
}

void TcpConnection::close(Time now) {
  switch (state_) {
    case TcpState::listen:
    case TcpState::syn_sent:
      finish(TcpEnd::none);
      return;
    case TcpState::syn_received:
      break;  // The FIN goes out once the connection stands.
    case TcpState::established:
      state_ = TcpState::fin_wait_1;
      break;
    case TcpState::close_wait:
      state_ = TcpState::last_ack;
      break;
    default:
      return;
  }
  closing_ = true;
  update_retransmission_timer(now);
}

void TcpConnection::abort() {
  const bool peer_knows = is_synchronized() && state_ != TcpState::time_wait;
  if (state_ != TcpState::closed) {
    finish(TcpEnd::aborted);
    reset_is_due_ = peer_knows;
  }
}

void TcpConnection::consume(std::size_t bytes) {
  received_.drop_front(bytes);
  // Tells of room that is worth a segment (RFC 9293, 3.8.6.2.2).
  const std::size_t worth = std::min<std::size_t>(received_.capacity() / 2, 2 * std::size_t{mss_});
  if (!fin_received_ && is_synchronized() && received_.room() >= receive_window() + worth) {
    ack_is_due_ = true;
  }
}

std::uint32_t TcpConnection::unsent() const {
  const TcpSeq end = data_end() + (closing_ ? 1 : 0);
  return end.is_after(next_) ? bytes_between(next_, end) : 0;
}

void TcpConnection::finish(TcpEnd end) {
  state_ = TcpState::closed;
  end_ = end;
  retransmit_at_ = acknowledge_at_ = time_wait_until_ = time_never;
  ack_is_due_ = retransmit_first_ = probe_is_due_ = false;
}

void TcpConnection::enter_time_wait(Time now) {
  state_ = TcpState::time_wait;
  time_wait_until_ = now + 2 * settings_.segment_lifetime_max;
}

void TcpConnection::on_timer(Time now) {
  if (acknowledge_at_ <= now) {
    acknowledge_at_ = time_never;
    ack_is_due_ = true;
  }
  if (time_wait_until_ <= now) {
    finish(TcpEnd::none);
  }
  if (retransmit_at_ <= now) {
    on_retransmission_timeout(now);
  }
}

Time TcpConnection::next_timeout() const {
  return std::min({retransmit_at_, acknowledge_at_, time_wait_until_});
}

std::optional<TcpHeader> reset_for(const TcpSegment& segment) {
  const TcpHeader& header = segment.header;
  if (header.has(TcpHeader::flag_rst)) {
    return std::nullopt;
  }
  TcpHeader reset;
  reset.source_port = header.destination_port.value();
  reset.destination_port = header.source_port.value();
  reset.data_offset = tcp_header_bytes / 4 << 4;
  reset.flags = TcpHeader::flag_rst;
  if (header.has(TcpHeader::flag_ack)) {
    reset.sequence = header.acknowledgement.value();
  } else {
    const auto length = static_cast<std::uint32_t>(segment.payload.size()) +
                        (header.has(TcpHeader::flag_syn) ? 1 : 0) +
                        (header.has(TcpHeader::flag_fin) ? 1 : 0);
    reset.acknowledgement = header.sequence.value() + length;
    reset.flags |= TcpHeader::flag_ack;
  }
  return reset;
}

}  // namespace verbena::inet
