// A requester that doesn't get a turn: the answers of its queue pair's responder go first.
#include <catch2/catch.hpp>
#include <vector>

#include "proto/ib_bth/rc_requester.h"
#include "tests/support/plain_memory.h"

namespace verbena::test {

using namespace std::chrono_literals;

namespace {

class OnePage final : public PlainMemory {
 public:
  Result<std::byte*, AccessFault> local(PdId, Lkey, Va, std::uint64_t, Access) override {
    return page_.data();
  }
  Result<std::byte*, AccessFault> remote(const MemoryUser&, Rkey, Va, std::uint64_t,
                                         Access) override {
    return page_.data();
  }

 private:
  std::vector<std::byte> page_ = std::vector<std::byte>(4096);
};

class Completions final : public CompletionSink {
 public:
  void complete(const Completion& completion, bool) override { all.push_back(completion); }
  std::vector<Completion> all;
};

class CountingPackets final : public PacketSink {
 public:
  MutableBytes reserve(std::size_t bytes) override {
    buffer_.resize(bytes);
    return buffer_;
  }
  void commit(const PacketNote&) override { ++count; }
  std::size_t count = 0;

 private:
  std::vector<std::byte> buffer_;
};

}  // namespace

TEST_CASE("what is to be sent again is waited for from when it is sent") {
  OnePage memory;
  Counters counters;
  Completions completions;
  CountingPackets packets;
  ib::RcRequester requester(Qpn{1}, {.wr_max = 4, .sge_max = 1}, true, completions);
  constexpr Duration timeout = 1ms;
  requester.activate({.mtu_bytes = 4096},
                     {.first_psn = Psn(5), .ack_timeout = timeout, .retry_cnt = 1});
  Time now{};
  const auto env = [&] {
    return ib::TransportEnv{.now = now, .memory = memory, .counters = counters};
  };
  const auto send = [&] {
    auto at = env();
    std::uint32_t budget = 10;
    REQUIRE(requester.poll_transmit(at, packets, budget).result == ib::TransmitResult::idle);
  };
  const auto run_timer = [&] {
    auto at = env();
    return requester.on_timer(at);
  };
  const Sge sge{Va{0x1000}, 8, Lkey{1}};
  REQUIRE(requester.post({.opcode = WrOpcode::send, .sges = {&sge, 1}}));
  send();
  CHECK(packets.count == 1);
  CHECK(requester.next_timeout() == now + timeout);

  now += timeout;
  CHECK(run_timer() == ib::QpFailure::none);
  // No turn for as long as the responder has answers.
  CHECK(requester.next_timeout() == time_never);
  now += 100 * timeout;
  CHECK(run_timer() == ib::QpFailure::none);
  CHECK(counters[Counter::local_ack_timeout_err] == 1);

  send();
  CHECK(packets.count == 2);
  CHECK(requester.next_timeout() == now + timeout);
  now += timeout;
  CHECK(run_timer() == ib::QpFailure::told_by_completion);
  REQUIRE(completions.all.size() == 1);
  CHECK(completions.all[0].status == WcStatus::retry_exc_err);
}

}  // namespace verbena::test
