// Memory that is not simply registered once and for all: null regions, device memory, demand-paged
// memory, regions that change.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/support/pair.h"

namespace verbena::test {

using nic::NicError;

TEST_CASE("a null region swallows what is written to it and reads as zeros") {
  Pair pair;
  const Connection qps = pair.connect();
  const nic::Mr* const null = *pair.b.nic.alloc_null_mr(*pair.b.pd);
  // The middle of the message is unwanted.
  nic::Qp& qp = *qps.b;
  const std::vector<Sge> into = {
      pair.b.sge({0, 100}), {Va{0xDEAD'BEEF'0000}, 9000, null->lkey}, pair.b.sge({100, 100})};
  REQUIRE(pair.b.nic.post_recv(pair.now(), qp, {.wr_id = 7, .sges = into}));
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 9200}));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"7 recv success +9200"});
  CHECK(std::ranges::equal(pair.b.bytes(0, 100), pair.a.bytes(0, 100)));
  CHECK(std::ranges::equal(pair.b.bytes(100, 100), pair.a.bytes(9100, 100)));

  Work zeros = pair.b.write(2, {}, pair.a, 0);
  zeros.pieces = {{Va{1}, 5000, null->lkey}};
  pair.post(Side::b, qp, zeros);
  pair.run_until_idle();
  CHECK(std::ranges::count(pair.a.bytes(0, 5000), std::byte{0}) == 5000);
}

TEST_CASE("peers can't reach a null region") {
  Pair pair;
  const Connection qps = pair.connect();
  Work write = pair.a.write(1, {0, 8}, pair.b, 0);
  write.rkey = (*pair.b.nic.alloc_null_mr(*pair.b.pd))->rkey;
  pair.post(Side::a, *qps.a, write);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write rem_access_err"});
}

TEST_CASE("device memory is reached by offset, and only where it is registered") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::DeviceMemory& dm = **pair.b.nic.alloc_dm(256);
  const Access access = all_access | Access::zero_based;
  const nic::Mr& mr = **pair.b.nic.reg_dm_mr(*pair.b.pd, dm, 64, 128, access);
  Work write = pair.a.write(1, {0, 128}, pair.b, 0);
  write.rkey = mr.rkey;
  write.remote_addr = Va{0};
  pair.post(Side::a, *qps.a, write);
  Work beyond = write;
  beyond.wr_id = 2;
  beyond.remote_addr = Va{1};
  pair.post(Side::a, *qps.a, beyond);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success", "2 write rem_access_err"});
  const ByteView bytes(dm.bytes.get(), dm.length);
  CHECK(std::ranges::equal(bytes.subspan(64, 128), pair.a.bytes(0, 128)));
  CHECK(std::ranges::count(bytes.first(64), std::byte{0}) == 64);
}

TEST_CASE("device memory: limits, and what must be said at registration") {
  Host host(1);
  const std::uint64_t all = host.nic.profile().dm_bytes_max;
  CHECK(host.nic.alloc_dm(0).error() == NicError::invalid_argument);
  CHECK(host.nic.alloc_dm(all + 1).error() == NicError::limit_reached);
  nic::DeviceMemory& dm = **host.nic.alloc_dm(all);
  CHECK(host.nic.alloc_dm(1).error() == NicError::limit_reached);
  const auto refused = [&](std::uint64_t offset, std::uint64_t length, Access access) {
    const auto mr = host.nic.reg_dm_mr(*host.pd, dm, offset, length, access);
    return !mr && mr.error() == NicError::invalid_argument;
  };
  CHECK(refused(0, all, Access::local_write));
  CHECK(refused(0, all + 1, Access::zero_based));
  CHECK(refused(1, all, Access::zero_based));
  CHECK(refused(~std::uint64_t{0}, 2, Access::zero_based));
  nic::Mr* const mr = *host.nic.reg_dm_mr(*host.pd, dm, 0, all, Access::zero_based);
  CHECK(host.nic.free_dm(dm).error() == NicError::busy);
  REQUIRE(host.nic.dereg_mr(*mr));
  REQUIRE(host.nic.free_dm(dm));
  CHECK(host.nic.alloc_dm(all));
}

namespace {

/// Has all pages but those that a test takes away.
class TestPager final : public nic::Pager {
 public:
  bool make_present(std::byte* start, std::uint64_t bytes, bool for_writing) noexcept override {
    largest = std::max(largest, bytes);
    calls += 1;
    writes += for_writing ? 1 : 0;
    return missing == nullptr || missing < start || missing >= start + bytes;
  }
  std::uint64_t largest = 0;
  int calls = 0;
  int writes = 0;
  std::byte* missing = nullptr;
};

/// Two hosts, and at b a NIC with a pager, whose memory is all demand-paged.
struct Paged : Pair {
  Paged() : Pair({.b = {.pager = &test_pager()}}) {
    test_pager() = TestPager{};
    mr = *b.nic.reg_mr(*b.pd, b.bytes().data(), b.bytes().size(), Va{0x1000},
                       all_access | Access::on_demand);
    qps = connect();
  }
  static TestPager& test_pager() {
    static TestPager pager;
    return pager;
  }
  [[nodiscard]] Work write(std::uint32_t bytes) const {
    Work work = a.write(1, {0, bytes}, b, 0);
    work.rkey = mr->rkey;
    work.remote_addr = Va{0x1000};
    return work;
  }
  nic::Mr* mr = nullptr;
  Connection qps;
};

}  // namespace

TEST_CASE("demand-paged memory is made present a packet at a time, before it is touched") {
  Paged pair;
  pair.post(Side::a, *pair.qps.a, pair.write(5000));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(Paged::test_pager().calls == 5);
  CHECK(Paged::test_pager().writes == 5);
  CHECK(Paged::test_pager().largest == 1024);
  Work read = pair.write(8);
  read.opcode = WrOpcode::rdma_read;
  pair.post(Side::a, *pair.qps.a, read);
  pair.run_until_idle();
  CHECK(Paged::test_pager().calls == 6);
  CHECK(Paged::test_pager().writes == 5);
}

TEST_CASE("a page that isn't there ends a peer's request as an access error") {
  Paged pair;
  Paged::test_pager().missing = pair.b.bytes().data() + 3000;
  pair.post(Side::a, *pair.qps.a, pair.write(5000));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write rem_access_err"});
  CHECK(std::ranges::equal(pair.b.bytes(0, 2048), pair.a.bytes(0, 2048)));
}

TEST_CASE("a page that isn't there ends a request of one's own with loc_prot_err") {
  Paged pair;
  Paged::test_pager().missing = pair.b.bytes().data();
  Work send = pair.b.send(1, {});
  send.pieces = {{Va{0x1000}, 8, pair.mr->lkey}};
  pair.post(Side::b, *pair.qps.b, send);
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"1 send loc_prot_err"});
}

TEST_CASE("memory that is not demand-paged is not asked for") {
  Paged pair;
  pair.post(Side::a, *pair.qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(Paged::test_pager().calls == 0);
}

TEST_CASE("a region keeps its keys when its rights, its memory or its domain change") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = **pair.b.nic.reg_mr(*pair.b.pd, pair.b.bytes().data(), 64, Va{0x1000}, all_access);
  const Rkey rkey = mr.rkey;
  Work write = pair.a.write(1, {0, 8}, pair.b, 0);
  write.rkey = rkey;
  write.remote_addr = Va{0x1000};

  SECTION("rights") {
    REQUIRE(pair.b.nic.rereg_mr(mr, {.access = Access::local_write}));
    pair.post(Side::a, *qps.a, write);
    pair.run_until_idle();
    CHECK(pair.a.completions() == Lines{"1 write rem_access_err"});
  }
  SECTION("memory") {
    REQUIRE(pair.b.nic.rereg_mr(
        mr, {.translation = {{.host = pair.b.bytes().data() + 512, .length = 8, .iova = Va{0}}}}));
    write.remote_addr = Va{0};
    pair.post(Side::a, *qps.a, write);
    pair.run_until_idle();
    CHECK(pair.a.completions() == Lines{"1 write success"});
    CHECK(std::ranges::equal(pair.b.bytes(512, 8), pair.a.bytes(0, 8)));
  }
  SECTION("domain") {
    nic::Pd* const other = *pair.b.nic.alloc_pd();
    REQUIRE(pair.b.nic.rereg_mr(mr, {.pd = other}));
    CHECK(pair.b.nic.dealloc_pd(*other).error() == NicError::busy);
    pair.post(Side::a, *qps.a, write);
    pair.run_until_idle();
    CHECK(pair.a.completions() == Lines{"1 write rem_access_err"});
  }
  CHECK(mr.rkey == rkey);
}

TEST_CASE("a change that a registration would refuse is refused and changes nothing") {
  Host host(1);
  nic::Mr& mr = **host.nic.reg_mr(*host.pd, host.bytes().data(), 64, Va{0}, Access::none);
  CHECK(host.nic.rereg_mr(mr, {.access = Access::remote_write}).error() ==
        NicError::invalid_argument);
  CHECK(host.nic
            .rereg_mr(mr, {.translation = {{.host = host.bytes().data(),
                                            .length = ~std::uint64_t{0},
                                            .iova = Va{0}}}})
            .error() == NicError::invalid_argument);
  CHECK(mr.access == Access::none);
  CHECK(mr.length == 64);
}

}  // namespace verbena::test
