// A byte ring in shared memory for frames: one process writes it, one reads it.
//
//   file:    [ RingHeader, one page ][ data_bytes, a power of two ]
//   record:  [ length, 10 bytes ][ frame ][ up to the next multiple of 64 ]
//
// `head` and `tail` count bytes since the ring was made and never wrap; their distance is what is
// published and not yet consumed. A record never crosses the end of the ring: a wrap marker says
// that the next one begins at its start. The producer writes any number of records and publishes
// them with one store of `head`; the consumer frees as many with one store of `tail`.
//
// Trust: the other side may be broken or hostile. Each side keeps its own index in private memory
// and never reads it back; what it reads of the other's is checked before use: an index that
// promises more than the ring holds, or a length that leaves what was published, makes the ring
// `broken()`, for good. Nothing outside the ring is ever read or written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace verbena::ports {

/// Who a ring belongs to: a slot of the fabric in one of its lives. 0 is nobody.
enum class SlotLife : std::uint64_t {};

/// The first page of a ring's file. `magic` to `data_bytes` are written before the ring is
/// announced and never change.
struct RingHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  SlotLife producer;
  SlotLife consumer;
  std::uint64_t data_bytes;

  // Each on a line of its own, and 128 bytes apart: the adjacent-line prefetcher of x86 fetches
  // pairs of lines.
  alignas(128) std::atomic<std::uint64_t> head;
  alignas(128) std::atomic<std::uint64_t> tail;
  /// Set by the consumer when it finds the ring broken: it will never read it again.
  std::atomic<std::uint32_t> abandoned;
  /// Set by a producer that found no room; cleared by the consumer when it made some.
  alignas(128) std::atomic<std::uint32_t> wants_room;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::uint64_t ring_magic = 0x474E'4952'4252'4556;  // "VERBRING"
inline constexpr std::uint32_t ring_version = 1;
inline constexpr std::size_t ring_header_bytes = 4096;
inline constexpr std::size_t ring_record_align_bytes = 64;
/// The longest frame a fabric carries: the longest RoCE packet has 4096 bytes of payload and less
/// than 200 of headers.
inline constexpr std::size_t frame_bytes_max = 8192;

inline constexpr std::size_t ring_data_bytes_min = 4 * frame_bytes_max;

static_assert(sizeof(RingHeader) <= ring_header_bytes);

/// In front of each frame: its length in 4 bytes, or record_wraps, and 6 unused ones. Ethernet,
/// IPv4, UDP and BTH have 54 bytes: the payload of a MIDDLE packet then begins on a cache line.
inline constexpr std::size_t record_header_bytes = 10;
inline constexpr std::uint32_t record_wraps = 0xFFFF'FFFF;

/// The writing side of a new ring. Not thread-safe.
class RingProducer {
 public:
  /// `data` has a power of two of bytes, at least ring_data_bytes_min, and begins on a cache line.
  RingProducer(RingHeader& header, MutableBytes data);

  /// Exactly `bytes` (1 to frame_bytes_max) of room for a frame. Empty if the ring is full, and
  /// then the consumer is told that room is wanted; or if the ring is broken or abandoned.
  [[nodiscard]] MutableBytes reserve(std::size_t bytes);
  /// The last reservation becomes a frame.
  void commit();
  /// Makes all committed frames visible to the consumer; true if there were any.
  bool publish();

  /// Whether the last reserve() failed for want of room.
  [[nodiscard]] bool is_blocked() const { return blocked_bytes_ != 0; }
  /// True once when there is room again for what the last reserve() asked in vain.
  [[nodiscard]] bool take_room_news();
  /// Whether the consumer has yet to take published frames, or to give their room back.
  [[nodiscard]] bool has_unread();
  /// What has_unread() saw: bytes that the consumer has given back since the ring was made.
  [[nodiscard]] std::uint64_t taken_bytes() const { return tail_seen_; }
  /// Nothing can be sent through this ring any more.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] std::size_t free_bytes();
  void refresh_tail();
  /// Bytes to skip at the end of the ring so that a record of `record_bytes` fits without a break.
  [[nodiscard]] std::size_t skip_before(std::size_t record_bytes) const;

  RingHeader& header_;
  MutableBytes data_;
  std::uint64_t head_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t tail_seen_ = 0;
  std::size_t reserved_skip_ = 0;
  std::size_t reserved_frame_ = 0;
  std::size_t blocked_bytes_ = 0;
  bool broken_ = false;
};

/// The reading side of a ring that nobody has read before. Not thread-safe.
class RingConsumer {
 public:
  RingConsumer(RingHeader& header, MutableBytes data);

  /// The next frame, or an empty view. Its bytes stay valid until release().
  [[nodiscard]] ByteView next();
  /// Gives the room of all frames that next() returned back to the producer. True if it waits for
  /// room and should be woken.
  [[nodiscard]] bool release();
  /// Bytes that next() took and release() has not given back.
  [[nodiscard]] std::size_t held_bytes() const { return static_cast<std::size_t>(tail_ - freed_); }
  /// Whether next() would find something.
  [[nodiscard]] bool has_frames();
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] bool refresh_head();
  ByteView give_up();

  RingHeader& header_;
  MutableBytes data_;
  std::uint64_t tail_ = 0;
  std::uint64_t freed_ = 0;
  std::uint64_t head_seen_ = 0;
  bool broken_ = false;
};

}  // namespace verbena::ports
