// Making and destroying the NIC's objects: limits, who may go while others use it, numbers and keys
// that come again (IBTA vol 1, C11-17; users.md rows 20 and 38).
#include <catch2/catch.hpp>
#include <set>

#include "tests/support/pair.h"

namespace verbena::test {

using nic::NicError;

TEST_CASE("what others use can't be destroyed") {
  Host host(1);
  nic::Pd* const pd = host.nic.alloc_pd().value();
  nic::Cq* const cq = host.nic.create_cq(16, 0).value();
  nic::Mr* const mr =
      host.nic.reg_mr(*pd, host.bytes().data(), 64, Va{0x1000}, Access::none).value();
  CHECK(host.nic.dealloc_pd(*pd).error() == NicError::busy);
  REQUIRE(host.nic.dereg_mr(*mr));
  nic::Qp* const qp = host.nic.create_qp(*pd, {.send_cq = cq, .recv_cq = cq}).value();
  CHECK(host.nic.dealloc_pd(*pd).error() == NicError::busy);
  CHECK(host.nic.destroy_cq(*cq).error() == NicError::busy);
  REQUIRE(host.nic.destroy_qp(*qp));
  CHECK(host.nic.destroy_cq(*cq));
  CHECK(host.nic.dealloc_pd(*pd));
}

TEST_CASE("after a thousand connections nothing is left over") {
  Pair pair;
  const auto before = pair.a.nic.object_counts();
  for (int i = 0; i < 1000; ++i) {
    const Connection qps = pair.connect();
    pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
    pair.post(Side::b, *qps.b, pair.b.send(2, {0, 8}));
    pair.step();
    REQUIRE(pair.a.nic.destroy_qp(*qps.a));
    REQUIRE(pair.b.nic.destroy_qp(*qps.b));
    pair.run_until_idle();
    static_cast<void>(pair.a.poll());
    static_cast<void>(pair.b.poll());
  }
  const auto after = pair.a.nic.object_counts();
  CHECK(after.qps == before.qps);
  CHECK(after.cqs == before.cqs);
  CHECK(after.mrs == before.mrs);
  CHECK(after.pds == before.pds);
}

TEST_CASE("a queue pair's number is used again as late as possible") {
  // A late packet shall not meet a new queue pair.
  Host host(1, {.first_qpn = Qpn{0x100}, .qpn_count = 16});
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 16; ++i) {
    nic::Qp* const qp =
        host.nic.create_qp(*host.pd, {.send_cq = host.cq, .recv_cq = host.cq}).value();
    seen.insert(to_value(nic::qpn_of(*qp)));
    REQUIRE(host.nic.destroy_qp(*qp));
  }
  CHECK(seen.size() == 16);
  CHECK(*seen.begin() == 0x100);
  CHECK(*seen.rbegin() == 0x10F);
}

TEST_CASE("when all numbers are taken another block helps") {
  Host host(1, {.first_qpn = Qpn{0x100}, .qpn_count = 2});
  const nic::QpInitAttr attr{.send_cq = host.cq, .recv_cq = host.cq};
  REQUIRE(host.nic.create_qp(*host.pd, attr));
  REQUIRE(host.nic.create_qp(*host.pd, attr));
  CHECK(host.nic.create_qp(*host.pd, attr).error() == NicError::qpns_exhausted);
  host.nic.add_qpn_block(Qpn{0x5000}, 1);
  nic::Qp* const qp = host.nic.create_qp(*host.pd, attr).value();
  CHECK(nic::qpn_of(*qp) == Qpn{0x5000});
  CHECK(host.nic.find_qp(Qpn{0x5000}) == qp);
  CHECK(host.nic.find_qp(Qpn{0x5001}) == nullptr);
}

TEST_CASE("queue pairs beyond the device's limits are refused") {
  Host host(1);
  const nic::DeviceProfile& limits = host.nic.profile();
  const nic::QpInitAttr good{.send_cq = host.cq, .recv_cq = host.cq};
  const auto refused = [&](auto change) {
    nic::QpInitAttr attr = good;
    change(attr);
    const auto qp = host.nic.create_qp(*host.pd, attr);
    return !qp && qp.error() == NicError::invalid_argument;
  };
  CHECK(refused([&](auto& attr) { attr.caps.send_wr_max = limits.qp_wr_max + 1; }));
  CHECK(refused([&](auto& attr) { attr.caps.recv_wr_max = limits.qp_wr_max + 1; }));
  CHECK(refused([&](auto& attr) { attr.caps.send_sge_max = limits.sge_max + 1; }));
  CHECK(refused([&](auto& attr) { attr.caps.recv_sge_max = limits.sge_max + 1; }));
  CHECK(refused([&](auto& attr) { attr.caps.inline_bytes_max = limits.inline_bytes_max + 1; }));
  CHECK(refused([&](auto& attr) { attr.send_cq = nullptr; }));
  CHECK(refused([&](auto& attr) { attr.recv_cq = nullptr; }));
  CHECK(host.nic.object_counts().qps == 0);
}

TEST_CASE("what a queue pair can hold is at least what was asked for") {
  Host host(1);
  const nic::QpCaps asked{.send_wr_max = 3,
                          .recv_wr_max = 5,
                          .send_sge_max = 2,
                          .recv_sge_max = 1,
                          .inline_bytes_max = 33};
  nic::Qp& qp = create_qp(host, {.caps = asked});
  const nic::QpCaps& told = nic::qp_caps(qp);
  CHECK(told.send_wr_max >= 3);
  CHECK(told.recv_wr_max >= 5);
  CHECK(told.send_sge_max >= 2);
  CHECK(told.recv_sge_max >= 1);
  CHECK(told.inline_bytes_max >= 33);
}

TEST_CASE("a key changes with every registration, also in the same place") {
  Host host(1);
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 200; ++i) {
    nic::Mr* const mr =
        host.nic.reg_mr(*host.pd, host.bytes().data(), 64, Va{0x1000}, Access::none).value();
    CHECK(to_value(mr->lkey) == to_value(mr->rkey));
    CHECK(keys.insert(to_value(mr->rkey)).second);
    REQUIRE(host.nic.dereg_mr(*mr));
  }
}

TEST_CASE("registrations that can't be are refused") {
  Host host(1);
  std::byte* const memory = host.bytes().data();
  const auto refused = [&](std::uint64_t length, Va iova, Access access) {
    const auto mr = host.nic.reg_mr(*host.pd, memory, length, iova, access);
    return !mr && mr.error() == NicError::invalid_argument;
  };
  // IBTA vol 1, 10.6.3.1: who may write from afar must be able to write at home.
  CHECK(refused(64, Va{0}, Access::remote_write));
  CHECK(refused(64, Va{0}, Access::remote_atomic));
  CHECK(refused(~std::uint64_t{0}, Va{0}, Access::none));
  CHECK(refused(64, Va{~std::uint64_t{0} - 10}, Access::none));
  CHECK(host.nic.reg_mr(*host.pd, memory, 64, Va{0}, Access::remote_read));
}

TEST_CASE("a region is named by the address that its owner chose") {
  Pair pair;
  const Connection qps = pair.connect();
  const auto mr = pair.b.nic.reg_mr(*pair.b.pd, pair.b.bytes().data() + 512, 64, Va{0}, all_access);
  REQUIRE(mr);
  Work write = pair.a.write(1, {0, 8}, pair.b, 0);
  write.remote_addr = Va{56};
  write.rkey = (*mr)->rkey;
  pair.post(Side::a, *qps.a, write);
  Work over = write;
  over.wr_id = 2;
  over.remote_addr = Va{57};
  pair.post(Side::a, *qps.a, over);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success", "2 write rem_access_err"});
  CHECK(std::ranges::equal(pair.b.bytes(512 + 56, 8), pair.a.bytes(0, 8)));
}

TEST_CASE("events of objects that are gone are gone") {
  Pair pair;
  const Connection qps = pair.connect();
  Work bad = pair.a.write(1, {0, 8}, pair.b, 0);
  bad.rkey = Rkey{1};
  pair.post(Side::a, *qps.a, bad);
  pair.run_until_idle();
  REQUIRE(pair.b.nic.destroy_qp(*qps.b));
  CHECK(pair.b.events().empty());
}

TEST_CASE("events that nobody fetches are counted when there are too many") {
  // More queue pairs over one queue than events fit: its overflow is an event of each.
  PairOptions options;
  options.a = {.cqe = 1, .qpn_count = 5000};
  Pair pair(options);
  nic::Qp* victim = nullptr;
  for (int i = 0; i < 4200; ++i) {
    nic::Qp& qp = create_qp(pair.a, {.caps = {.recv_wr_max = 4}});
    to_init(pair.a, pair.now(), qp, {});
    victim = &qp;
  }
  for (std::uint64_t id = 0; id < 3; ++id) {
    pair.post_recv(Side::a, *victim, id, {});
  }
  to_state(pair.a, pair.now(), *victim, nic::QpState::err);
  const std::size_t fetched = pair.a.events().size();
  CHECK(fetched == 4096);
  CHECK(fetched + pair.a.count(Counter::async_event_overflow) == 4200);
}

}  // namespace verbena::test
