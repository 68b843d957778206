// Random work in both directions over streams that are cut anywhere and hold
// little: everything completes once and in order, the bytes are where they
// belong, and bytes that nobody asked to move don't.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <deque>

#include "tests/unit/iwarp/stream_pair.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {
namespace {

using iwarp::MpaAgreement;
using iwarp::RtrType;
using iwarp::StreamState;

constexpr std::uint32_t source_key = 0x100;
constexpr std::uint32_t target_key = 0x200;
constexpr std::uint64_t base = 0x4000;
constexpr std::size_t slot_bytes = 6000;
constexpr std::size_t slots = 40;

/// One side's work, each request with a slot of its own in the memories of
/// both, so that the outcome doesn't depend on the order of what overlaps.
struct Worker {
  StreamSide& side;
  StreamSide& peer;
  /// Slots of the peer's target region that SENDs were told to fill.
  std::deque<std::pair<std::uint64_t, std::uint32_t>> sends{};
  std::size_t posted = 0;
  Bytes expected_here{};
  Bytes expected_there{};
};

void post_one(Worker& worker, Prng& prng) {
  const std::uint64_t slot = worker.posted * slot_bytes;
  const auto length =
      static_cast<std::uint32_t>(prng.chance({1, 5}) ? prng.below(4) : prng.below(slot_bytes + 1));
  const auto cut = static_cast<std::uint32_t>(prng.below(length + 1));
  const auto pieces_of = [&](std::uint32_t key) {
    return std::vector<Sge>{
        {.addr = Va{base + slot}, .length = cut, .lkey = Lkey{key}},
        {.addr = Va{base + slot + cut}, .length = length - cut, .lkey = Lkey{key}}};
  };
  const auto copy = [&](const Bytes& from, Bytes& to) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(slot), length,
                to.begin() + static_cast<std::ptrdiff_t>(slot));
  };
  SendWr wr{.wr_id = worker.posted,
            .signaled = true,
            .solicited = prng.chance({1, 2}),
            .fence = prng.chance({1, 4}),
            .sges = {},
            .remote_addr = Va{base + slot}};
  std::vector<Sge> sges = pieces_of(source_key);
  switch (prng.below(5)) {
    case 0: {
      wr.opcode = WrOpcode::send;
      const std::vector<Sge> into = pieces_of(target_key);
      REQUIRE(worker.peer.receive(worker.posted, into));
      copy(worker.side.memory.at(source_key).bytes, worker.expected_there);
      worker.sends.emplace_back(worker.posted, length);
      break;
    }
    case 1:
      wr.opcode = WrOpcode::rdma_write;
      wr.rkey = Rkey{target_key};
      copy(worker.side.memory.at(source_key).bytes, worker.expected_there);
      break;
    case 2:
      wr.opcode = WrOpcode::rdma_write_with_imm;
      wr.rkey = Rkey{target_key};
      REQUIRE(worker.peer.receive(worker.posted, {}));
      copy(worker.side.memory.at(source_key).bytes, worker.expected_there);
      worker.sends.emplace_back(worker.posted, length);
      break;
    case 3: {
      wr.opcode = WrOpcode::atomic_fetch_and_add;
      wr.rkey = Rkey{target_key};
      wr.compare_add = worker.posted + 1;
      // The value before goes behind the one that is added to.
      sges = {{.addr = Va{base + slot + 8}, .length = 8, .lkey = Lkey{target_key}}};
      std::ranges::copy(bytes_of(wr.compare_add),
                        worker.expected_there.begin() + static_cast<std::ptrdiff_t>(slot));
      break;
    }
    default:
      wr.opcode = WrOpcode::rdma_read;
      wr.rkey = Rkey{source_key};
      sges = pieces_of(target_key);
      copy(worker.peer.memory.at(source_key).bytes, worker.expected_here);
      break;
  }
  wr.sges = sges;
  REQUIRE(worker.side.send(wr));
  ++worker.posted;
}

void check_done(Worker& worker) {
  REQUIRE(worker.side.sent.completions.size() == worker.posted);
  for (std::size_t i = 0; i < worker.posted; ++i) {
    REQUIRE(worker.side.sent.completions[i].wr_id == i);
    REQUIRE(worker.side.sent.completions[i].status == WcStatus::success);
  }
  REQUIRE(worker.peer.received.completions.size() == worker.sends.size());
  for (std::size_t i = 0; i < worker.sends.size(); ++i) {
    const Completion& completion = worker.peer.received.completions[i];
    REQUIRE(completion.status == WcStatus::success);
    REQUIRE(completion.wr_id == worker.sends[i].first);
    REQUIRE(completion.byte_len == worker.sends[i].second);
  }
}

}  // namespace

TEST_CASE(
    "random work over streams cut anywhere is done once, in order, and "
    "in its place") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    Prng prng(seed);
    MpaAgreement agreement = StreamPair::plain_agreement();
    agreement.send_format = {.markers = prng.chance({1, 2}), .crc = prng.chance({1, 2})};
    agreement.receive_format = {.markers = prng.chance({1, 2}), .crc = agreement.send_format.crc};
    const auto depth = static_cast<std::uint16_t>(1 + prng.below(8));
    agreement.depths = {.ird = depth, .ord = depth};
    agreement.rtr =
        std::array{RtrType::zero_length_fpdu, RtrType::write, RtrType::read}[prng.below(3)];
    StreamPair pair(agreement, 200 + prng.below(9000), extended_limits, extended_limits);
    for (StreamSide* side : {&pair.a, &pair.b}) {
      side->memory.add(source_key, base, slots * slot_bytes).bytes =
          random_bytes(prng, slots * slot_bytes);
      side->memory.add(target_key, base, slots * slot_bytes, Access::local_write | all_remote);
      side->out.room = 12'000 + prng.below(40'000);
    }
    Worker worker{.side = pair.a, .peer = pair.b};
    worker.expected_here = pair.a.memory.at(target_key).bytes;
    worker.expected_there = pair.b.memory.at(target_key).bytes;
    const std::size_t piece_bytes_max = prng.chance({1, 3}) ? 50 : 5000;
    while (worker.posted < slots) {
      const std::size_t batch = 1 + prng.below(8);
      for (std::size_t i = 0; i < batch && worker.posted < slots; ++i) {
        post_one(worker, prng);
      }
      pair.run(prng, piece_bytes_max);
    }
    check_done(worker);
    REQUIRE(pair.a.memory.at(target_key).bytes == worker.expected_here);
    REQUIRE(pair.b.memory.at(target_key).bytes == worker.expected_there);
    REQUIRE(pair.a.qp.state() == StreamState::rts);
    REQUIRE(pair.b.qp.state() == StreamState::rts);
  }
}

TEST_CASE("work of both sides at once is done once and in order") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    Prng prng(seed);
    MpaAgreement agreement = StreamPair::plain_agreement();
    agreement.rtr = RtrType::write;
    StreamPair pair(agreement, 500 + prng.below(3000), extended_limits, extended_limits);
    for (StreamSide* side : {&pair.a, &pair.b}) {
      side->memory.add(source_key, base, slots * slot_bytes).bytes =
          random_bytes(prng, slots * slot_bytes);
      side->memory.add(target_key, base, slots * slot_bytes, Access::local_write | all_remote);
      side->out.room = 12'000;
    }
    Worker workers[] = {{.side = pair.a, .peer = pair.b}, {.side = pair.b, .peer = pair.a}};
    for (Worker& worker : workers) {
      worker.expected_here.resize(slots * slot_bytes);
      worker.expected_there.resize(slots * slot_bytes);
    }
    for (std::size_t i = 0; i < slots; ++i) {
      post_one(workers[0], prng);
      post_one(workers[1], prng);
      if (prng.chance({1, 3})) {
        pair.run(prng, 3000);
      }
    }
    pair.run(prng, 3000);
    check_done(workers[0]);
    check_done(workers[1]);
  }
}

TEST_CASE("random bytes never do more than end the stream") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    StreamPair pair;
    pair.b.memory.add(source_key, base, 1000, Access::remote_read);
    REQUIRE(pair.b.receive(1, {}));
    while (pair.b.qp.state() == StreamState::rts) {
      Bytes bytes = random_bytes(prng, 1 + prng.below(300));
      bytes[0] = std::byte{0};
      pair.b.on_stream(bytes);
    }
    REQUIRE(pair.b.qp.state() == StreamState::terminate);
    REQUIRE(pair.b.received.take().status == WcStatus::wr_flush_err);
  }
}

}  // namespace verbena::test
