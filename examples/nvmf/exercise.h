// What the initiator does with a namespace: writes, reads back, compares.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "examples/nvmf/host_controller.h"
#include "examples/nvmf/host_queue.h"

namespace nvmf {

struct Exercise {
  // Each a write, and a read that must find the same.
  std::uint64_t count = 1000;
  // Bytes, taken in turns; multiples of the namespace's blocks.
  std::vector<std::uint32_t> sizes;
  std::uint64_t seed = 1;
};

struct ExerciseResult {
  std::uint64_t verified = 0;
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds time{};
};

// All commands of all queues are under way at once, each in a part of the namespace of its own.
// Throws a Failure at the first difference, or status that isn't success.
ExerciseResult exercise(std::span<const std::unique_ptr<HostQueue>> queues,
                        const NamespaceFacts& facts, const Exercise& wishes);

// Flush, Write Zeroes, and a Read behind the end, which must be refused. Returns whether there is
// Write Zeroes: a target may lack it.
bool exercise_the_rest(HostQueue& queue, const NamespaceFacts& facts);

}  // namespace nvmf
