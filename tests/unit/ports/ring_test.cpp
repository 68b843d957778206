// The fabric's rings as pure memory: order, wrap-around, a full ring, and bytes that make no sense.
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "ports/fabric_ring.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using test::fill_pattern;
using test::has_pattern;

/// A ring in ordinary memory, with nothing behind its end: ASan sees every byte outside.
struct Memory {
  explicit Memory(std::size_t bytes = ring_data_bytes_min)
      : header(new RingHeader{}),
        data(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), &std::free),
        size(bytes) {
    fill_pattern(bytes_of_data(), 1);
  }
  MutableBytes bytes_of_data() { return {data.get(), size}; }

  std::unique_ptr<RingHeader> header;
  std::unique_ptr<std::byte, void (*)(void*)> data;
  std::size_t size;
};

struct Ring : Memory {
  explicit Ring(std::size_t bytes = ring_data_bytes_min) : Memory(bytes) {}
  RingProducer producer{*header, bytes_of_data()};
  RingConsumer consumer{*header, bytes_of_data()};

  bool send(std::size_t bytes, std::uint64_t number) {
    const MutableBytes frame = producer.reserve(bytes);
    if (frame.empty()) {
      return false;
    }
    fill_pattern(frame, number);
    producer.commit();
    return true;
  }
};

TEST_CASE("a ring delivers frames of every length in order, many times around") {
  Ring ring;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  Prng prng(7);
  while (received < 20'000) {
    const std::size_t batch = prng.below(8);
    for (std::size_t i = 0; i < batch; ++i) {
      sent += ring.send(1 + (sent * 37) % frame_bytes_max, sent) ? 1 : 0;
    }
    ring.producer.publish();
    for (ByteView frame = ring.consumer.next(); !frame.empty(); frame = ring.consumer.next()) {
      REQUIRE(frame.size() == 1 + (received * 37) % frame_bytes_max);
      REQUIRE(has_pattern(frame.first(std::min<std::size_t>(frame.size(), 64)), received));
      ++received;
    }
    static_cast<void>(ring.consumer.release());
  }
  CHECK(sent == received);
}

TEST_CASE("frames are invisible until they are published") {
  Ring ring;
  REQUIRE(ring.send(100, 0));
  CHECK_FALSE(ring.consumer.has_frames());
  CHECK(ring.consumer.next().empty());
  CHECK(ring.producer.publish());
  CHECK_FALSE(ring.producer.publish());
  CHECK(ring.consumer.has_frames());
  CHECK(has_pattern(ring.consumer.next(), 0));
}

TEST_CASE("a reservation that is not committed is forgotten by the next") {
  Ring ring;
  fill_pattern(ring.producer.reserve(5000), 1);
  REQUIRE(ring.send(60, 2));
  ring.producer.publish();
  CHECK(has_pattern(ring.consumer.next(), 2));
  CHECK(ring.consumer.next().empty());
}

TEST_CASE("a full ring refuses, asks for room, and is told once there is some") {
  Ring ring;
  std::uint64_t sent = 0;
  while (ring.send(1000, sent)) {
    ++sent;
  }
  ring.producer.publish();
  CHECK(ring.producer.is_blocked());
  CHECK_FALSE(ring.producer.take_room_news());

  // One frame is not worth waking the producer for; half a ring is, and only once.
  std::uint64_t received = 0;
  bool woken = false;
  while (!woken) {
    REQUIRE(has_pattern(ring.consumer.next(), received++));
    woken = ring.consumer.release();
  }
  CHECK(received > 1);
  CHECK(received <= sent);
  CHECK(ring.producer.take_room_news());
  CHECK_FALSE(ring.producer.take_room_news());
  REQUIRE(has_pattern(ring.consumer.next(), received++));
  CHECK_FALSE(ring.consumer.release());

  // And nothing was lost.
  REQUIRE(ring.send(1000, sent++));
  ring.producer.publish();
  while (received < sent) {
    REQUIRE(has_pattern(ring.consumer.next(), received++));
  }
}

TEST_CASE("a consumer that empties the ring always answers a wish for room") {
  Ring ring;
  while (ring.send(frame_bytes_max, 0)) {
  }
  ring.producer.publish();
  while (!ring.consumer.next().empty()) {
  }
  CHECK(ring.consumer.release());
}

TEST_CASE("a consumer gives a ring up whose head promises more than it holds") {
  const std::uint64_t head =
      GENERATE(std::uint64_t{1}, std::uint64_t{63}, ring_data_bytes_min + ring_record_align_bytes,
               ~std::uint64_t{63}, ~std::uint64_t{0});
  Ring ring;
  ring.header->head = head;
  CHECK(ring.consumer.next().empty());
  CHECK(ring.consumer.broken());
  // The producer learns of it and sends nothing more.
  while (!ring.producer.broken()) {
    if (ring.producer.reserve(frame_bytes_max).empty()) {
      break;
    }
    ring.producer.commit();
  }
  CHECK(ring.producer.broken());
}

TEST_CASE("a consumer gives a ring up whose lengths leave what was published") {
  const std::uint32_t length = GENERATE(0U, 1U + frame_bytes_max, 55U, record_wraps, 0x8000'0000U);
  Ring ring;
  const std::uint32_t stored = length;
  write_struct(ring.bytes_of_data(), stored);
  // 64 bytes are published: 54 bytes of frame is the most that fits.
  ring.header->head = 64;
  CHECK(ring.consumer.next().empty());
  CHECK(ring.consumer.broken());
  CHECK_FALSE(ring.consumer.has_frames());
}

TEST_CASE("a producer gives a ring up whose tail runs ahead of what it published") {
  const std::uint64_t tail =
      GENERATE(std::uint64_t{1} << 40, ~std::uint64_t{0}, ring_data_bytes_min * 2);
  Ring ring;
  while (!ring.producer.reserve(frame_bytes_max).empty()) {
    ring.producer.commit();
  }
  ring.producer.publish();
  ring.header->tail = tail;
  CHECK(ring.producer.reserve(frame_bytes_max).empty());
  CHECK(ring.producer.broken());
}

TEST_CASE("no bytes in a ring make either side leave it") {
  // ASan watches; without it, the frames' bounds are checked here.
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Prng prng(seed);
    Ring ring;
    for (int step = 0; step < 40; ++step) {
      switch (prng.below(7)) {
        case 0:
          ring.header->head = prng.below(2) == 0 ? prng.next() : prng.below(2048) * 64;
          break;
        case 1:
          ring.header->tail = prng.below(2) == 0 ? prng.next() : prng.below(2048) * 64;
          break;
        case 2:
          write_struct(
              ring.bytes_of_data().subspan(prng.below(ring.size / 64) * 64),
              static_cast<std::uint32_t>(prng.below(3) == 0 ? record_wraps : prng.below(10'000)));
          break;
        case 3:
          fill_pattern(ring.bytes_of_data(), prng.next());
          break;
        case 4:
          ring.send(1 + prng.below(frame_bytes_max), seed);
          ring.producer.publish();
          break;
        case 5:
          static_cast<void>(ring.consumer.release());
          break;
        default: {
          const ByteView frame = ring.consumer.next();
          if (!frame.empty()) {
            REQUIRE(frame.data() >= ring.data.get());
            REQUIRE(frame.data() + frame.size() <= ring.data.get() + ring.size);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace verbena::ports
