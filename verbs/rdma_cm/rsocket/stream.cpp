#include "verbs/rdma_cm/rsocket/stream.h"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cstring>

#include "verbs/rdma_cm/rsocket/memory.h"
#include "verbs/rdma_cm/rsocket/work_ids.h"

namespace verbena::rsocket {

namespace {

/// Control messages that may be under way; their places in the send queue are kept free for them.
constexpr std::uint32_t controls_max = 4;
/// A send waits until the ring has this much room, so that no trickle of tiny writes begins.
constexpr std::size_t send_low_water = 2048;
/// The first write of a long send is short, so that the peer may begin; each is twice the last.
constexpr std::size_t first_write_bytes = 2048;
constexpr std::uint16_t queue_size_min = 16;
/// What the largest message that isn't data needs.
constexpr std::uint32_t inline_bytes_min = sizeof(MapEntry);

/// Serial numbers modulo 2^16: whether `a` has come to `b`.
constexpr bool has_reached(std::uint16_t a, std::uint16_t b) {
  return static_cast<std::int16_t>(a - b) >= 0;
}

Sge from_wire(const WireSge& wire) {
  return {.address = wire.address.value(), .key = wire.key.value(), .length = wire.length.value()};
}

WireSge to_wire(std::uint64_t address, std::uint32_t key, std::uint32_t length) {
  WireSge wire;
  wire.address = address;
  wire.key = key;
  wire.length = length;
  return wire;
}

}  // namespace

// --- Life

Result<std::unique_ptr<Stream>, Errno> Stream::create(rdma_cm_id& id, const StreamSizes& sizes) {
  StreamSizes possible = sizes;
  possible.sends = std::max(possible.sends, queue_size_min);
  possible.receives = std::max(possible.receives, queue_size_min);
  std::unique_ptr<Stream> stream(new Stream(id, possible));
  if (const Errno error = stream->open()) {
    return std::unexpected(error);
  }
  return stream;
}

Stream::Stream(rdma_cm_id& id, const StreamSizes& sizes)
    : id_(id),
      sizes_(sizes),
      has_immediate_(id.verbs->device->transport_type != IBV_TRANSPORT_IWARP) {}

Stream::~Stream() {
  if (id_.qp != nullptr) {
    rdma_destroy_qp(&id_);
  }
  for (const LocalMap& map : maps_) {
    if (map.mr != nullptr) {
      ibv_dereg_mr(map.mr);
    }
  }
  for (ibv_mr* mr : {send_ring_.mr, receive_ring_.mr, offers_mr_, messages_mr_}) {
    if (mr != nullptr) {
      ibv_dereg_mr(mr);
    }
  }
  if (cq_ != nullptr) {
    ibv_destroy_cq(cq_);
  }
  if (channel_ != nullptr) {
    ibv_destroy_comp_channel(channel_);
  }
}

Errno Stream::open() {
  if (const Errno error = create_queue_pair()) {
    return error;
  }
  send_ring_.bytes.resize(sizes_.send_bytes);
  receive_ring_.bytes.resize(sizes_.receive_bytes & ~1U);
  const std::size_t words =
      (targets * sizeof(Sge) + sizes_.map_entries * sizeof(MapEntry)) / sizeof(std::uint64_t);
  offers_.resize(words);
  remote_maps_.resize(sizes_.map_entries);
  constexpr int remote_write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  send_ring_.mr =
      ibv_reg_mr(id_.pd, send_ring_.bytes.data(), send_ring_.bytes.size(), IBV_ACCESS_LOCAL_WRITE);
  receive_ring_.mr =
      ibv_reg_mr(id_.pd, receive_ring_.bytes.data(), receive_ring_.bytes.size(), remote_write);
  offers_mr_ =
      ibv_reg_mr(id_.pd, offers_.data(), offers_.size() * sizeof(std::uint64_t), remote_write);
  arrived_.resize(sizes_.receives + controls_max);
  messages_mr_ = ibv_reg_mr(id_.pd, arrived_.data(), arrived_.size() * sizeof(std::uint32_t),
                            IBV_ACCESS_LOCAL_WRITE);
  if (send_ring_.mr == nullptr || receive_ring_.mr == nullptr || offers_mr_ == nullptr ||
      messages_mr_ == nullptr) {
    return ENOMEM;
  }
  send_free_ = send_ring_.bytes.size();
  send_slots_ = sizes_.sends - controls_max;
  // The first half is offered with the connection, the second as soon as there is one.
  free_ = offer_at_ = receive_ring_.bytes.size() / 2;
  grant_again_at_ = sizes_.receives / 2;
  for (std::uint32_t place = 0; place < arrived_.size(); ++place) {
    if (const Errno error = post_receive(place)) {
      return error;
    }
  }
  return 0;
}

Errno Stream::create_queue_pair() {
  channel_ = ibv_create_comp_channel(id_.verbs);
  if (channel_ == nullptr) {
    return errno;
  }
  // Without immediate data a message is a request of its own.
  const std::uint32_t sends = has_immediate_ ? sizes_.sends : sizes_.sends * 2U;
  const auto entries = static_cast<int>(sends + sizes_.receives + controls_max);
  cq_ = ibv_create_cq(id_.verbs, entries, nullptr, channel_, 0);
  if (cq_ == nullptr) {
    return errno;
  }
  ibv_qp_init_attr attr{};
  attr.send_cq = cq_;
  attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap.max_send_wr = sends;
  attr.cap.max_recv_wr = sizes_.receives + controls_max;
  attr.cap.max_send_sge = 2;
  attr.cap.max_recv_sge = 1;
  attr.cap.max_inline_data = std::max<std::uint32_t>(sizes_.inline_bytes, inline_bytes_min);
  return rdma_create_qp(&id_, nullptr, &attr) == 0 ? 0 : errno;
}

ConnectData Stream::offer() const {
  ConnectData data;
  data.credits = sizes_.receives;
  data.map_entries = scaled_map_entries(sizes_.map_entries);
  data.targets = to_wire(address_of(offers_.data()), offers_mr_->rkey, targets);
  data.first_half = to_wire(address_of(receive_ring_.bytes.data()), receive_ring_.mr->rkey,
                            static_cast<std::uint32_t>(receive_ring_.bytes.size() / 2));
  return data;
}

Errno Stream::begin(const ConnectData& theirs) {
  const std::lock_guard guard(mutex_);
  remote_targets_ = from_wire(theirs.targets);
  if (theirs.version != protocol_version || remote_targets_.length == 0) {
    return ENOTSUP;
  }
  swaps_bytes_ = (theirs.flags & ConnectData::is_big_endian) != 0;
  if ((theirs.flags & ConnectData::knows_maps) != 0) {
    remote_map_entries_ = map_entries(theirs.map_entries);
  }
  target_[0] = from_wire(theirs.first_half);
  granted_ = theirs.credits.value();
  connected_ = readable_ = writable_ = true;
  process();
  return 0;
}

// --- What comes

void Stream::process() {
  std::array<ibv_wc, 16> done;
  int count = 0;
  while ((count = ibv_poll_cq(cq_, static_cast<int>(done.size()), done.data())) > 0) {
    for (const ibv_wc& wc : std::span(done).first(static_cast<std::size_t>(count))) {
      if ((wc.wr_id & wr_receive) == 0) {
        on_sent(wc);
      } else if (wc.status == IBV_WC_SUCCESS) {
        on_message(wc);
      }
    }
  }
  if (connected_) {
    announce_maps();
    give_room();
  }
}

void Stream::on_message(const ibv_wc& wc) {
  const auto place = static_cast<std::uint32_t>(wc.wr_id);
  if (!has_immediate_ && wc.byte_len != sizeof(std::uint32_t)) {
    fail(EPROTO);
    return;
  }
  const Message message =
      decode(has_immediate_ ? boost::endian::big_to_native(wc.imm_data) : arrived_[place]);
  switch (message.operation) {
    case Operation::data:
      on_data(message.value);
      break;
    case Operation::sgl:
      granted_ = static_cast<std::uint16_t>(message.value);
      // Only the number of messages, if nothing was written besides.
      if (!has_immediate_ || wc.byte_len == sizeof(Sge)) {
        take_target();
      }
      break;
    case Operation::map:
      if (message.value < remote_maps_.size()) {
        std::memcpy(&remote_maps_[message.value],
                    reinterpret_cast<const std::byte*>(offers_.data()) + targets * sizeof(Sge) +
                        message.value * sizeof(MapEntry),
                    sizeof(MapEntry));
      }
      break;
    case Operation::control:
      on_control(Control{static_cast<std::uint8_t>(message.value)});
      break;
    default:
      fail(EPROTO);
      break;
  }
  if (connected_ && post_receive(place) != 0) {
    fail(ECONNRESET);
  }
}

void Stream::on_data(std::uint32_t length) {
  // More than was offered, or more messages than were granted, only an impostor sends.
  if (unread_ + length > receive_ring_.bytes.size() || messages_.size() >= sizes_.receives) {
    fail(EPROTO);
    return;
  }
  if (length > 0) {
    messages_.push_back(length);
    unread_ += length;
  } else {
    ++read_;
  }
}

void Stream::take_target() {
  Sge offered;
  std::byte* const from = reinterpret_cast<std::byte*>(offers_.data()) + next_target_ * sizeof(Sge);
  std::memcpy(&offered, from, sizeof offered);
  if (offered.length == 0) {
    return;
  }
  Sge& target = target_[next_target_];
  if (target.length != 0) {
    fail(EPROTO);
    return;
  }
  target = offered;
  std::memset(from, 0, sizeof offered);
  next_target_ = (next_target_ + 1) % targets;
}

void Stream::on_control(Control control) {
  if (control == Control::shutdown && writable_) {
    readable_ = false;
  } else if (control == Control::shutdown || control == Control::disconnect) {
    connected_ = readable_ = writable_ = false;
  }
}

void Stream::fail(Errno error) {
  error_ = error;
  connected_ = readable_ = writable_ = false;
}

void Stream::take_cm_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(id_.channel, &event) == 0) {
    const bool is_over = event->event == RDMA_CM_EVENT_DISCONNECTED;
    rdma_ack_cm_event(event);
    if (is_over) {
      const std::lock_guard guard(mutex_);
      process();  // What was sent before has come before.
      connected_ = readable_ = writable_ = false;
      looked_.notify_all();
    }
  }
}

// --- Sending

bool Stream::has_send_room() const {
  return send_slots_ > 0 && send_free_ >= std::min(send_low_water, send_ring_.bytes.size());
}

bool Stream::can_send() const {
  return writable_ && has_send_room() && sent_ != granted_ && target_[target_in_use_].length > 0;
}

bool Stream::all_sent() const {
  return controls_in_flight_ == 0 && send_slots_ == sizes_.sends - controls_max;
}

void Stream::post_from_ring(std::size_t length, const Sge& to, const Message* message,
                            const std::function<void(std::span<std::byte>)>& fill) {
  const std::span ring(send_ring_.bytes);
  const std::size_t before_end = std::min(length, ring.size() - send_ring_.offset);
  const std::array<std::span<std::byte>, 2> pieces{ring.subspan(send_ring_.offset, before_end),
                                                   ring.first(length - before_end)};
  std::array<ibv_sge, 2> sges{};
  int count = 0;
  for (const std::span<std::byte> piece : pieces) {
    if (!piece.empty()) {
      fill(piece);
      sges[static_cast<std::size_t>(count++)] = {.addr = address_of(piece.data()),
                                                 .length = static_cast<std::uint32_t>(piece.size()),
                                                 .lkey = send_ring_.mr->lkey};
    }
  }
  send_ring_.offset = (send_ring_.offset + length) % ring.size();
  send_free_ -= length;
  --send_slots_;
  ibv_send_wr wr{};
  wr.sg_list = sges.data();
  wr.num_sge = count;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = length <= sizes_.inline_bytes ? unsigned{IBV_SEND_INLINE} : 0U;
  wr.wr.rdma.remote_addr = to.address;
  wr.wr.rdma.rkey = to.key;
  if (message != nullptr) {
    post_with_message(wr, *message, length);
  } else {
    post(wr, length);
  }
}

Result<std::size_t, Errno> Stream::send(std::span<const iovec> parts, const Patience& patience) {
  std::unique_lock lock(mutex_);
  const std::size_t total = total_of(parts);
  Parts from(parts);
  std::size_t done = 0;
  std::size_t write_bytes = first_write_bytes;
  while (done < total) {
    if (!can_send()) {
      Errno error = wait(lock, patience, [&] { return can_send() || !writable_; });
      error = error == 0 && !writable_ ? (error_ != 0 ? error_ : ECONNRESET) : error;
      if (error != 0) {
        return done > 0 ? Result<std::size_t, Errno>(done) : std::unexpected(error);
      }
    }
    Sge& target = target_[target_in_use_];
    const std::size_t length =
        std::min({total - done, write_bytes, send_free_, std::size_t{target.length}});
    const Sge to = target;
    const Message message{.operation = Operation::data,
                          .value = static_cast<std::uint32_t>(length)};
    // The target changes first: as soon as the peer has the message, it may offer the next half.
    target.address += length;
    target.length -= static_cast<std::uint32_t>(length);
    if (target.length == 0) {
      target_in_use_ = (target_in_use_ + 1) % targets;
    }
    ++sent_;
    post_from_ring(length, to, &message, [&](std::span<std::byte> piece) {
      while (!piece.empty()) {
        const auto part = from.next(piece.size());
        std::ranges::copy(part, piece.begin());
        piece = piece.subspan(part.size());
      }
    });
    done += length;
    write_bytes = std::min(write_bytes * 2, write_bytes_max);
  }
  return done;
}

// --- Receiving

Result<std::size_t, Errno> Stream::receive(std::span<const iovec> parts, const ReceiveFlags& flags,
                                           const Patience& patience) {
  std::unique_lock lock(mutex_);
  const std::size_t wanted = total_of(parts);
  if (wanted == 0) {
    return 0;
  }
  const std::size_t enough = flags.all && !flags.peek ? wanted : std::min<std::size_t>(wanted, 1);
  Parts to(parts);
  std::size_t done = 0;
  do {
    if (!has_data()) {
      const Errno error = wait(lock, patience, [&] { return has_data() || !readable_; });
      if (error != 0) {
        return done > 0 ? Result<std::size_t, Errno>(done) : std::unexpected(error);
      }
      if (!has_data()) {
        // The end: of a connection that broke, the error comes once.
        const Errno broken = done == 0 ? std::exchange(error_, 0) : 0;
        return broken != 0 ? Result<std::size_t, Errno>(std::unexpected(broken)) : done;
      }
    }
    const std::span ring(receive_ring_.bytes);
    std::size_t offset = receive_ring_.offset;
    std::size_t left = std::min(wanted - done, unread_);
    const std::size_t taken = left;
    while (left > 0) {
      const auto part = to.next(std::min(left, ring.size() - offset));
      std::ranges::copy(ring.subspan(offset, part.size()), part.begin());
      offset = (offset + part.size()) % ring.size();
      left -= part.size();
    }
    done += taken;
    if (flags.peek) {
      return done;
    }
    receive_ring_.offset = offset;
    unread_ -= taken;
    free_ += taken;
    std::size_t consumed = taken;
    while (consumed > 0) {
      const auto part =
          static_cast<std::uint32_t>(std::min<std::size_t>(consumed, messages_.front()));
      messages_.front() -= part;
      consumed -= part;
      if (messages_.front() == 0) {
        messages_.pop_front();
        ++read_;
      }
    }
    if (connected_) {
      give_room();
    }
  } while (done < enough);
  return done;
}

void Stream::give_room() {
  const std::size_t half = receive_ring_.bytes.size() / 2;
  while (connected_ && controls_in_flight_ < controls_max &&
         (free_ >= half || has_reached(read_, grant_again_at_))) {
    grant_again_at_ = static_cast<std::uint16_t>(read_ + sizes_.receives / 2);
    const Message message{.operation = Operation::sgl,
                          .value = static_cast<std::uint16_t>(read_ + sizes_.receives)};
    if (free_ < half) {
      post_control(message, {}, 0, 0);
      continue;
    }
    Sge half_again{.address = address_of(&receive_ring_.bytes[offer_at_]),
                   .key = receive_ring_.mr->rkey,
                   .length = static_cast<std::uint32_t>(half)};
    if (swaps_bytes_) {
      swap_bytes(half_again);
    }
    post_control(message, std::as_bytes(std::span(&half_again, 1)),
                 remote_targets_.address + remote_target_ * sizeof(Sge), remote_targets_.key);
    remote_target_ = (remote_target_ + 1) % remote_targets_.length;
    free_ -= half;
    offer_at_ = (offer_at_ + half) % receive_ring_.bytes.size();
  }
}

void Stream::send_keep_alive() {
  const std::lock_guard guard(mutex_);
  process();
  if (connected_ && controls_in_flight_ < controls_max) {
    post_control(
        {.operation = Operation::control, .value = static_cast<std::uint32_t>(Control::keepalive)},
        {}, 0, 0);
  }
}

// --- Ends

Errno Stream::shutdown(bool receiving, bool sending) {
  std::unique_lock lock(mutex_);
  if (!connected_) {
    return 0;
  }
  readable_ = readable_ && !receiving;
  const bool was_writable = std::exchange(writable_, writable_ && !sending);
  const bool is_over = !readable_ && !writable_;
  if (is_over || (sending && was_writable)) {
    const Control control = is_over ? Control::disconnect : Control::shutdown;
    Errno error = wait(lock, Patience::endless(),
                       [&] { return controls_in_flight_ < controls_max || !connected_; });
    if (error == 0 && connected_) {
      post_control({.operation = Operation::control, .value = static_cast<std::uint32_t>(control)},
                   {}, 0, 0);
    }
  }
  const Errno error = wait(lock, Patience::endless(), [&] { return all_sent() || !connected_; });
  connected_ = connected_ && !is_over;
  looked_.notify_all();
  return error;
}

}  // namespace verbena::rsocket
