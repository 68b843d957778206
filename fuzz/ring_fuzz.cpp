// A ring of the fabric whose other side writes what it likes: the input is a list of steps, ours in
// good faith on one side, hostile stores into the shared memory on the other. Whatever comes: no
// frame lies outside the ring (and nothing outside is touched, which ASan sees), what was given up
// stays given up, and neither side loops.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "base/check.h"
#include "ports/fabric_ring.h"

namespace verbena::ports {
namespace {

constexpr std::align_val_t cache_line{64};

struct FreeAligned {
  void operator()(std::byte* data) const { ::operator delete(data, cache_line); }
};

class Target {
 public:
  void run(FuzzedDataProvider& input);

 private:
  void step(FuzzedDataProvider& input);
  void send(FuzzedDataProvider& input);
  void receive();
  void check_lasting();
  [[nodiscard]] std::uint64_t any_index(FuzzedDataProvider& input);

  static constexpr std::size_t ring_bytes = ring_data_bytes_min;
  RingHeader header_{};
  std::unique_ptr<std::byte, FreeAligned> memory_{
      static_cast<std::byte*>(::operator new(ring_bytes, cache_line))};
  MutableBytes data_{memory_.get(), ring_bytes};
  RingProducer producer_{header_, data_};
  RingConsumer consumer_{header_, data_};
  bool producer_was_broken_ = false;
  bool consumer_was_broken_ = false;
};

/// What an index may become: anything, or something that is nearly right.
std::uint64_t Target::any_index(FuzzedDataProvider& input) {
  switch (input.ConsumeIntegralInRange(0, 2)) {
    case 0:
      return input.ConsumeIntegral<std::uint64_t>();
    case 1:
      return std::uint64_t{input.ConsumeIntegral<std::uint16_t>()} * ring_record_align_bytes;
    default:
      return header_.head.load() +
             input.ConsumeIntegralInRange<std::uint64_t>(0, 8) * ring_record_align_bytes;
  }
}

void Target::send(FuzzedDataProvider& input) {
  const auto bytes = input.ConsumeIntegralInRange<std::size_t>(1, frame_bytes_max);
  const MutableBytes frame = producer_.reserve(bytes);
  if (frame.empty()) {
    return;
  }
  VERBENA_CHECK(frame.size() == bytes);
  VERBENA_CHECK(frame.data() >= data_.data() &&
                frame.data() + bytes <= data_.data() + data_.size());
  std::memset(frame.data(), 0x5A, bytes);
  producer_.commit();
}

void Target::receive() {
  std::size_t taken = 0;
  for (ByteView frame = consumer_.next(); !frame.empty(); frame = consumer_.next()) {
    VERBENA_CHECK(frame.data() >= data_.data() &&
                  frame.data() + frame.size() <= data_.data() + data_.size());
    volatile std::byte last = frame.back();
    static_cast<void>(last);
    // Records are at least a cache line, so a ring holds no more than this before release().
    VERBENA_CHECK(++taken <= ring_bytes / ring_record_align_bytes);
  }
  VERBENA_CHECK(consumer_.broken() || consumer_.held_bytes() <= ring_bytes);
}

void Target::check_lasting() {
  VERBENA_CHECK(producer_.broken() || !producer_was_broken_);
  VERBENA_CHECK(consumer_.broken() || !consumer_was_broken_);
  VERBENA_CHECK(!consumer_.broken() || !consumer_.has_frames());
  producer_was_broken_ = producer_.broken();
  consumer_was_broken_ = consumer_.broken();
}

void Target::step(FuzzedDataProvider& input) {
  switch (input.ConsumeIntegralInRange(0, 9)) {
    case 0:
    case 1:
      send(input);
      break;
    case 2:
      producer_.publish();
      break;
    case 3:
      static_cast<void>(producer_.take_room_news());
      break;
    case 4:
      receive();
      break;
    case 5:
      static_cast<void>(consumer_.release());
      break;
    case 6:
      header_.head.store(any_index(input));
      break;
    case 7:
      header_.tail.store(any_index(input));
      break;
    case 8:
      header_.wants_room.store(input.ConsumeIntegral<std::uint32_t>());
      header_.abandoned.store(input.ConsumeBool() ? 1 : 0);
      break;
    default: {
      const auto line =
          input.ConsumeIntegralInRange<std::size_t>(0, ring_bytes / ring_record_align_bytes - 1);
      const auto length =
          input.ConsumeBool() ? record_wraps : input.ConsumeIntegral<std::uint32_t>();
      std::memcpy(data_.data() + line * ring_record_align_bytes, &length, sizeof(length));
      break;
    }
  }
}

void Target::run(FuzzedDataProvider& input) {
  std::memset(data_.data(), 0, data_.size());
  constexpr int steps_max = 500;
  for (int i = 0; i < steps_max && input.remaining_bytes() > 0; ++i) {
    step(input);
    check_lasting();
  }
}

}  // namespace
}  // namespace verbena::ports

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  verbena::ports::Target target;
  target.run(input);
  return 0;
}
