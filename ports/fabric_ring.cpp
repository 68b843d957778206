#include "ports/fabric_ring.h"

#include <bit>

#include "base/check.h"

namespace verbena::ports {

namespace {

constexpr std::size_t record_bytes_for(std::size_t frame_bytes) {
  constexpr std::size_t mask = ring_record_align_bytes - 1;
  return (record_header_bytes + frame_bytes + mask) & ~mask;
}

void check_geometry(MutableBytes data) {
  VERBENA_CHECK(std::has_single_bit(data.size()));
  VERBENA_CHECK(data.size() >= ring_data_bytes_min);
  VERBENA_CHECK(reinterpret_cast<std::uintptr_t>(data.data()) % ring_record_align_bytes == 0);
}

/// The length in front of the record at `offset`, which is aligned. One load, one store: the other
/// side may change it at any time, and what was checked must be what is used.
std::atomic_ref<std::uint32_t> length_at(MutableBytes data, std::size_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(data.data() + offset));
}

}  // namespace

RingProducer::RingProducer(RingHeader& header, MutableBytes data) : header_(header), data_(data) {
  check_geometry(data);
}

void RingProducer::refresh_tail() {
  const std::uint64_t tail = header_.tail.load(std::memory_order_acquire);
  // The tail lies between what we saw last and what we published.
  if (tail - tail_seen_ > published_ - tail_seen_ ||
      header_.abandoned.load(std::memory_order_relaxed) != 0) {
    broken_ = true;
    return;
  }
  tail_seen_ = tail;
}

std::size_t RingProducer::free_bytes() {
  return data_.size() - static_cast<std::size_t>(head_ - tail_seen_);
}

std::size_t RingProducer::skip_before(std::size_t record_bytes) const {
  const std::size_t to_end = data_.size() - (head_ & (data_.size() - 1));
  return record_bytes <= to_end ? 0 : to_end;
}

MutableBytes RingProducer::reserve(std::size_t bytes) {
  VERBENA_CHECK(bytes > 0 && bytes <= frame_bytes_max);
  const std::size_t record = record_bytes_for(bytes);
  const std::size_t skip = skip_before(record);
  if (free_bytes() < skip + record) {
    refresh_tail();
    if (!broken_ && free_bytes() < skip + record) {
      // Ask first, then look once more: either the consumer sees the wish, or we see its room.
      header_.wants_room.store(1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      refresh_tail();
    }
  }
  if (broken_ || free_bytes() < skip + record) {
    blocked_bytes_ = broken_ ? 0 : skip + record;
    return {};
  }
  blocked_bytes_ = 0;
  reserved_skip_ = skip;
  reserved_frame_ = bytes;
  const std::size_t offset = (head_ + skip) & (data_.size() - 1);
  return data_.subspan(offset + record_header_bytes, bytes);
}

void RingProducer::commit() {
  VERBENA_CHECK(reserved_frame_ > 0);
  const std::size_t mask = data_.size() - 1;
  if (reserved_skip_ > 0) {
    length_at(data_, head_ & mask).store(record_wraps, std::memory_order_relaxed);
    head_ += reserved_skip_;
  }
  length_at(data_, head_ & mask)
      .store(static_cast<std::uint32_t>(reserved_frame_), std::memory_order_relaxed);
  head_ += record_bytes_for(reserved_frame_);
  reserved_frame_ = 0;
}

bool RingProducer::publish() {
  if (head_ == published_) {
    return false;
  }
  published_ = head_;
  header_.head.store(head_, std::memory_order_release);
  return true;
}

bool RingProducer::take_room_news() {
  if (blocked_bytes_ == 0) {
    return false;
  }
  refresh_tail();
  if (!broken_ && free_bytes() < blocked_bytes_) {
    return false;
  }
  blocked_bytes_ = 0;
  return true;
}

bool RingProducer::has_unread() {
  if (broken_ || published_ == tail_seen_) {
    return false;
  }
  refresh_tail();
  return !broken_ && published_ != tail_seen_;
}

RingConsumer::RingConsumer(RingHeader& header, MutableBytes data) : header_(header), data_(data) {
  check_geometry(data);
}

ByteView RingConsumer::give_up() {
  broken_ = true;
  header_.abandoned.store(1, std::memory_order_release);
  return {};
}

bool RingConsumer::refresh_head() {
  const std::uint64_t head = header_.head.load(std::memory_order_acquire);
  const std::uint64_t published = head - freed_;
  const bool sane = published <= data_.size() && published >= tail_ - freed_ &&
                    head % ring_record_align_bytes == 0;
  if (!sane) {
    give_up();
    return false;
  }
  head_seen_ = head;
  return true;
}

ByteView RingConsumer::next() {
  if (broken_ || (tail_ == head_seen_ && (!refresh_head() || tail_ == head_seen_))) {
    return {};
  }
  const std::size_t mask = data_.size() - 1;
  // At most one wrap marker precedes a frame, so two rounds suffice.
  for (int round = 0; round < 2; ++round) {
    const std::size_t offset = tail_ & mask;
    const std::uint64_t published = head_seen_ - tail_;
    const std::size_t frame_bytes = length_at(data_, offset).load(std::memory_order_relaxed);
    if (frame_bytes == record_wraps) {
      const std::size_t to_end = data_.size() - offset;
      if (offset == 0 || to_end >= published) {
        return give_up();
      }
      tail_ += to_end;
      continue;
    }
    if (frame_bytes == 0 || frame_bytes > frame_bytes_max) {
      return give_up();
    }
    const std::size_t record_bytes = record_bytes_for(frame_bytes);
    if (record_bytes > published || offset + record_bytes > data_.size()) {
      return give_up();
    }
    tail_ += record_bytes;
    return data_.subspan(offset + record_header_bytes, frame_bytes);
  }
  return give_up();
}

bool RingConsumer::release() {
  if (broken_ || tail_ == freed_) {
    return false;
  }
  freed_ = tail_;
  header_.tail.store(tail_, std::memory_order_release);
  // The other half of RingProducer::reserve(): publish the room, then look for the wish.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (header_.wants_room.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  // A producer that is woken for each freed frame would sleep and wake without end: half a ring is
  // worth waking for. Nothing is lost: whoever empties a ring frees more than half of it, at last.
  const bool roomy = head_seen_ - tail_ <= data_.size() / 2;
  return roomy && header_.wants_room.exchange(0, std::memory_order_relaxed) != 0;
}

bool RingConsumer::has_frames() {
  return !broken_ && (tail_ != head_seen_ || (refresh_head() && tail_ != head_seen_));
}

}  // namespace verbena::ports
