// Messages of 2^31 bytes, the longest there are (IBTA vol 1, 9.7.7): every counter of bytes and
// packets reaches its end. Memory of that size is imitated: all addresses of a message lie on the
// same few pages, and each half of the transport is driven alone.
#include <catch2/catch.hpp>
#include <vector>

#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/rc_requester.h"
#include "proto/ib_bth/rc_responder.h"
#include "tests/support/plain_memory.h"

namespace verbena::test {

using ib::Opcode;

namespace {

constexpr std::uint32_t longest = 1U << 31;
constexpr std::uint32_t mtu_bytes = 4096;
constexpr std::uint32_t packets_in_longest = longest / mtu_bytes;
constexpr Va base{0x1000};

/// Permits [base, base + 2^31) and no byte more; gives one page for all of it.
class FoldedMemory final : public PlainMemory {
 public:
  Result<std::byte*, AccessFault> local(PdId, Lkey, Va va, std::uint64_t length, Access) override {
    return find(va, length);
  }
  Result<std::byte*, AccessFault> remote(const MemoryUser&, Rkey, Va va, std::uint64_t length,
                                         Access) override {
    return find(va, length);
  }
  std::uint64_t highest_end = 0;

 private:
  Result<std::byte*, AccessFault> find(Va va, std::uint64_t length) {
    const std::uint64_t offset = to_value(va) - to_value(base);
    if (offset > longest || length > longest - offset) {
      return std::unexpected(AccessFault::out_of_range);
    }
    highest_end = std::max(highest_end, offset + length);
    return page_.data();
  }
  std::vector<std::byte> page_ = std::vector<std::byte>(mtu_bytes);
};

class CountingCompletions final : public CompletionSink {
 public:
  void complete(const Completion& completion, bool) override { all.push_back(completion); }
  std::vector<Completion> all;
};

/// Remembers the last packet only.
class LastPacket final : public PacketSink {
 public:
  MutableBytes reserve(std::size_t bytes) override {
    buffer_.resize(bytes);
    return buffer_;
  }
  void commit(const PacketNote&) override {
    ++count;
    fields = ib::parse_fields(*ib::PacketView::parse(buffer_));
  }
  std::uint32_t count = 0;
  ib::PacketFields fields;

 private:
  std::vector<std::byte> buffer_;
};

struct Bench {
  FoldedMemory memory;
  Counters counters;
  CountingCompletions completions;
  LastPacket out;
  [[nodiscard]] ib::TransportEnv env() {
    return {.now = Time{}, .memory = memory, .counters = counters};
  }
};

ib::RcRequester requester(Bench& bench) {
  ib::RcRequester requester(Qpn{1}, {.wr_max = 4, .sge_max = 2}, true, bench.completions);
  requester.activate({.mtu_bytes = mtu_bytes}, {.first_psn = Psn(0xFF'FF00)});
  return requester;
}

ib::RcResponder responder(Bench& bench) {
  ib::RcResponder responder(Qpn{1}, RecvSource(4, 1), bench.completions);
  responder.activate(
      {.mtu_bytes = mtu_bytes},
      {.first_psn = Psn(0xFF'FF00), .access = Access::remote_write | Access::remote_read});
  return responder;
}

/// A packet with a payload of zeros, in a buffer that the next call uses again.
class PacketMaker {
 public:
  [[nodiscard]] ib::PacketView make(const ib::PacketFields& fields, std::size_t payload_bytes) {
    const std::size_t size =
        ib::emit_packet(buffer_, fields, ByteView(payload_).first(payload_bytes));
    return *ib::PacketView::parse(ByteView(buffer_).first(size));
  }

 private:
  std::vector<std::byte> payload_ = std::vector<std::byte>(mtu_bytes);
  std::vector<std::byte> buffer_ =
      std::vector<std::byte>(mtu_bytes + ib::transport_header_bytes_max);
};

}  // namespace

TEST_CASE("a WRITE of 2^31 bytes is sent to its end and acknowledged") {
  Bench bench;
  ib::RcRequester sender = requester(bench);
  const Sge halves[] = {{base, longest / 2, Lkey{1}}, {base + longest / 2, longest / 2, Lkey{1}}};
  REQUIRE(sender.post({.opcode = WrOpcode::rdma_write, .sges = halves, .remote_addr = base}));
  auto env = bench.env();
  PacketMaker maker;
  while (bench.completions.all.empty()) {
    std::uint32_t budget = 1000;
    REQUIRE(sender.poll_transmit(env, bench.out, budget).result == ib::TransmitResult::idle);
    REQUIRE(bench.out.fields.ack_request);
    ib::PacketFields ack;
    ack.opcode = Opcode::rc_acknowledge;
    ack.psn = bench.out.fields.psn;
    ack.aeth.set_syndrome(ib::Syndrome::ack());
    REQUIRE(sender.on_response(env, maker.make(ack, 0)).failure == ib::QpFailure::none);
  }
  CHECK(bench.out.count == packets_in_longest);
  CHECK(bench.out.fields.opcode == Opcode::rc_write_last);
  CHECK(bench.completions.all[0].status == WcStatus::success);
  CHECK(bench.completions.all[0].byte_len == longest);
  CHECK(bench.memory.highest_end == longest);
}

TEST_CASE("a READ of 2^31 bytes is answered to its end and received") {
  Bench target;
  Bench source;
  ib::RcRequester reader = requester(target);
  ib::RcResponder answerer = responder(source);
  const Sge sge{base, longest, Lkey{1}};
  REQUIRE(reader.post({.opcode = WrOpcode::rdma_read, .sges = {&sge, 1}, .remote_addr = base}));
  auto reader_env = target.env();
  auto answerer_env = source.env();
  std::uint32_t budget = 1;
  REQUIRE(reader.poll_transmit(reader_env, target.out, budget).result == ib::TransmitResult::idle);
  PacketMaker maker;
  REQUIRE(answerer.on_request(answerer_env, maker.make(target.out.fields, 0)).failure ==
          ib::QpFailure::none);
  CHECK(answerer.expected_psn() == Psn(0xFF'FF00) + packets_in_longest);
  while (answerer.wants_transmit()) {
    budget = 1;
    REQUIRE(answerer.poll_transmit(answerer_env, source.out, budget).failure ==
            ib::QpFailure::none);
    const auto response = maker.make(source.out.fields, mtu_bytes);
    const auto outcome = reader.on_response(reader_env, response);
    REQUIRE(outcome.failure == ib::QpFailure::none);
  }
  CHECK(source.out.count == packets_in_longest);
  REQUIRE(target.completions.all.size() == 1);
  CHECK(target.completions.all[0].byte_len == longest);
  CHECK(target.memory.highest_end == longest);
}

TEST_CASE("a SEND of 2^31 bytes is received with its length, one byte more is refused") {
  for (const bool too_long : {false, true}) {
    Bench bench;
    ib::RcResponder receiver = responder(bench);
    const Sge sge{base, longest, Lkey{1}};
    REQUIRE(receiver.post({.wr_id = 7, .sges = {&sge, 1}}));
    auto env = bench.env();
    PacketMaker maker;
    ib::PacketFields fields;
    fields.psn = Psn(0xFF'FF00);
    for (std::uint32_t i = 0; i < packets_in_longest; ++i) {
      const bool last = i + 1 == packets_in_longest && !too_long;
      fields.opcode = i == 0 ? Opcode::rc_send_first
                      : last ? Opcode::rc_send_last
                             : Opcode::rc_send_middle;
      REQUIRE(receiver.on_request(env, maker.make(fields, mtu_bytes)).verdict.kind ==
              RxVerdict::Kind::accepted);
      fields.psn = fields.psn.next();
    }
    if (too_long) {
      fields.opcode = Opcode::rc_send_last;
      const auto verdict = receiver.on_request(env, maker.make(fields, 1)).verdict;
      CHECK(verdict.check == RxCheck::length);
      CHECK(verdict.got == std::uint64_t{longest} + 1);
    }
    REQUIRE(bench.completions.all.size() == 1);
    CHECK(bench.completions.all[0].status ==
          (too_long ? WcStatus::loc_len_err : WcStatus::success));
    CHECK(bench.completions.all[0].byte_len == (too_long ? 0 : longest));
  }
}

TEST_CASE("at the smallest MTU a READ of 2^31 bytes spans half of all PSNs and no more is begun") {
  Bench bench;
  ib::RcRequester reader(Qpn{1}, {.wr_max = 4, .sge_max = 1}, true, bench.completions);
  reader.activate({.mtu_bytes = 256}, {.first_psn = Psn(5), .max_rd_atomic = 4});
  const Sge sge{base, longest, Lkey{1}};
  for (int i = 0; i < 2; ++i) {
    REQUIRE(reader.post({.opcode = WrOpcode::rdma_read, .sges = {&sge, 1}, .remote_addr = base}));
  }
  auto env = bench.env();
  std::uint32_t budget = 10;
  REQUIRE(reader.poll_transmit(env, bench.out, budget).result == ib::TransmitResult::idle);
  CHECK(bench.out.count == 1);
  CHECK(reader.next_psn() == Psn(5) + (1 << 23));
}

}  // namespace verbena::test
