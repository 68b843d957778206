#include "examples/nvmf/exercise.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace nvmf {
namespace {

using Random = std::mt19937_64;

Command io_command(Opcode opcode, const NamespaceFacts& facts, std::uint64_t block,
                   std::uint64_t blocks) {
  Command command;
  command.opcode = static_cast<std::uint8_t>(opcode);
  command.nsid = facts.id;
  command.cdw10 = static_cast<std::uint32_t>(block);
  command.cdw11 = static_cast<std::uint32_t>(block >> 32);
  command.cdw12 = static_cast<std::uint32_t>(blocks - 1);
  return command;
}

void fill(std::span<std::uint8_t> data, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t at = 0; at < data.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t eight = random();
    std::memcpy(data.data() + at, &eight, std::min(sizeof eight, data.size() - at));
  }
}

// A command slot of one queue, and its part of the namespace.
class Worker {
 public:
  Worker(HostQueue& queue, std::size_t tag, const NamespaceFacts& facts, std::uint64_t first,
         std::uint64_t blocks)
      : queue_(queue), tag_(tag), facts_(facts), first_(first), blocks_(blocks) {}

  void start(std::uint32_t bytes, std::uint64_t seed) {
    const std::uint64_t count = bytes / facts_.block_bytes;
    Random random(seed);
    block_ = first_ + random() % (blocks_ - count + 1);
    bytes_ = bytes;
    seed_ = seed;
    is_written_ = false;
    fill(queue_.data(tag_).first(bytes), seed);
    submit(Opcode::write, Direction::from_host);
  }

  // Goes on after a completion. True if what was written was read.
  bool go_on(const Completion& completion) {
    const std::string what = (is_written_ ? "Read" : "Write") + where();
    expect_success(what, completion);
    const auto data = queue_.data(tag_).first(bytes_);
    if (!is_written_) {
      is_written_ = true;
      std::ranges::fill(data, std::uint8_t{0});
      submit(Opcode::read, Direction::to_host);
      return false;
    }
    expected_.resize(bytes_);
    fill(expected_, seed_);
    const auto [found, wanted] = std::ranges::mismatch(data, expected_);
    if (found != data.end()) {
      throw Failure(what + " differs from what was written, from byte " +
                    std::to_string(found - data.begin()) + " on");
    }
    return true;
  }

  [[nodiscard]] std::uint32_t bytes() const { return bytes_; }

 private:
  void submit(Opcode opcode, Direction direction) {
    queue_.submit(tag_, io_command(opcode, facts_, block_, bytes_ / facts_.block_bytes), direction,
                  bytes_);
  }

  [[nodiscard]] std::string where() const {
    return " of " + std::to_string(bytes_) + " bytes at block " + std::to_string(block_);
  }

  HostQueue& queue_;
  std::size_t tag_;
  const NamespaceFacts& facts_;
  std::uint64_t first_;
  std::uint64_t blocks_;
  std::uint64_t block_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint64_t seed_ = 0;
  bool is_written_ = false;
  std::vector<std::uint8_t> expected_;
};

// The workers of one queue, by their tags.
std::vector<Worker> workers_of(HostQueue& queue, const NamespaceFacts& facts, std::uint64_t first,
                               std::uint64_t blocks_each) {
  std::vector<Worker> workers;
  workers.reserve(queue.entries() - 1);
  for (std::size_t tag = 0; tag < queue.entries() - 1; ++tag) {
    workers.emplace_back(queue, tag, facts, first + tag * blocks_each, blocks_each);
  }
  return workers;
}

void check(std::span<const std::unique_ptr<HostQueue>> queues, const NamespaceFacts& facts,
           const Exercise& wishes, std::uint64_t blocks_each) {
  for (const std::uint32_t bytes : wishes.sizes) {
    if (bytes == 0 || bytes % facts.block_bytes != 0) {
      throw Failure(std::to_string(bytes) + " bytes are no whole blocks of " +
                    std::to_string(facts.block_bytes));
    }
    if (bytes / facts.block_bytes > blocks_each) {
      throw Failure("the namespace of " + std::to_string(facts.blocks) +
                    " blocks is too small for " + std::to_string(queues.size()) +
                    " queues and a size of " + std::to_string(bytes));
    }
  }
}

// Returns false if the target hasn't got it.
bool write_zeroes(HostQueue& queue, const NamespaceFacts& facts) {
  const Completion zeroed = queue.execute(io_command(Opcode::write_zeroes, facts, 0, 1));
  if (status_of(zeroed) == Status::command_not_supported) {
    return false;
  }
  expect_success("Write Zeroes", zeroed);
  const auto block = queue.data(0).first(facts.block_bytes);
  std::ranges::fill(block, std::uint8_t{0xff});
  expect_success("Read of block 0", queue.execute(io_command(Opcode::read, facts, 0, 1),
                                                  Direction::to_host, block.size()));
  if (std::ranges::count(block, 0) != std::ssize(block)) {
    throw Failure("Write Zeroes left something in block 0");
  }
  return true;
}

}  // namespace

ExerciseResult exercise(std::span<const std::unique_ptr<HostQueue>> queues,
                        const NamespaceFacts& facts, const Exercise& wishes) {
  // A queue that isn't full can be told from an empty one: one entry less is used.
  const std::uint64_t per_queue = queues.front()->entries() - 1;
  const std::uint64_t blocks_each = facts.blocks / (queues.size() * per_queue);
  check(queues, facts, wishes, blocks_each);
  std::vector<std::vector<Worker>> workers;
  for (const auto& queue : queues) {
    workers.push_back(
        workers_of(*queue, facts, workers.size() * per_queue * blocks_each, blocks_each));
  }
  ExerciseResult result;
  std::uint64_t started = 0;
  const auto start_next = [&](Worker& worker) {
    worker.start(wishes.sizes[started % wishes.sizes.size()], wishes.seed + started);
    ++started;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::uint64_t> busy(queues.size());
  for (std::size_t tag = 0; tag < per_queue; ++tag) {
    for (std::size_t q = 0; q < queues.size() && started < wishes.count; ++q) {
      start_next(workers[q][tag]);
      ++busy[q];
    }
  }
  while (result.verified < wishes.count) {
    for (std::size_t q = 0; q < queues.size(); ++q) {
      if (busy[q] == 0) {
        continue;
      }
      const Done done = queues[q]->wait();
      Worker& worker = workers[q][done.tag];
      if (!worker.go_on(done.completion)) {
        continue;
      }
      ++result.verified;
      result.bytes += 2ULL * worker.bytes();
      if (started < wishes.count) {
        start_next(worker);
      } else {
        --busy[q];
      }
    }
  }
  result.time = std::chrono::steady_clock::now() - begin;
  return result;
}

bool exercise_the_rest(HostQueue& queue, const NamespaceFacts& facts) {
  Command flush;
  flush.opcode = static_cast<std::uint8_t>(Opcode::flush);
  flush.nsid = facts.id;
  expect_success("Flush", queue.execute(flush));
  const Completion behind = queue.execute(io_command(Opcode::read, facts, facts.blocks, 1),
                                          Direction::to_host, facts.block_bytes);
  // Linux' target says the second of a namespace in a file.
  if (status_of(behind) != Status::lba_out_of_range &&
      status_of(behind) != Status::capacity_exceeded) {
    throw Failure("a Read behind the end: " + describe(status_of(behind)) + " instead of " +
                  describe(Status::lba_out_of_range));
  }
  return write_zeroes(queue, facts);
}

}  // namespace nvmf
