// Memory windows: who may bind what to what, who reaches memory through them and for how long
// (IBTA vol 1, 10.6.7; users.md row 38).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

using nic::MwType;
using nic::NicError;

namespace {

constexpr std::uint64_t region_bytes = 4096;

/// Two connected hosts; a region of b's that windows may be bound to, named from `first` on.
struct Windows : Pair {
  static constexpr Va first{0x10'0000};

  explicit Windows(Access access = all_access | Access::mw_bind)
      : region(*b.nic.reg_mr(*b.pd, b.bytes().data(), region_bytes, first, access)),
        qps(connect()) {}

  [[nodiscard]] nic::Mw& window(MwType type) { return **b.nic.alloc_mw(*b.pd, type); }

  /// The key that `mw` has after the next bind.
  [[nodiscard]] static Rkey next_key(const nic::Mw& mw) {
    const std::uint32_t key = to_value(mw.rkey);
    return Rkey{(key & 0xFFFF'FF00) | ((key + 1) & 0xFF)};
  }

  [[nodiscard]] Work bind(std::uint64_t id, const nic::Mw& mw, std::uint64_t offset,
                          std::uint64_t length, Access access = Access::remote_write) const {
    Work work;
    work.wr_id = id;
    work.opcode = WrOpcode::bind_mw;
    work.signaled = true;
    work.binding = {.key = next_key(mw),
                    .region = region->lkey,
                    .addr = first + offset,
                    .length = length,
                    .access = access};
    return work;
  }

  [[nodiscard]] Work write(std::uint64_t id, Rkey key, Va to, std::uint32_t bytes = 8) const {
    Work work = a.write(id, {0, bytes}, b, 0);
    work.rkey = key;
    work.remote_addr = to;
    return work;
  }

  /// Posts at b, lets everything happen and tells how it completed there.
  [[nodiscard]] Lines at_b(const Work& work) {
    post(Side::b, *qps.b, work);
    run_until_idle();
    return b.completions();
  }
  [[nodiscard]] Lines at_a(const Work& work) {
    post(Side::a, *qps.a, work);
    run_until_idle();
    return a.completions();
  }

  nic::Mr* region;
  Connection qps;
};

Work invalidate(std::uint64_t id, Rkey key, WrOpcode opcode = WrOpcode::local_inv) {
  Work work;
  work.wr_id = id;
  work.opcode = opcode;
  work.signaled = true;
  work.invalidate_rkey = key;
  return work;
}

}  // namespace

TEST_CASE("through a window peers reach its part of the region with its rights, and no byte more") {
  const auto type = GENERATE(MwType::type_1, MwType::type_2);
  Windows pair;
  nic::Mw& mw = pair.window(type);
  REQUIRE(pair.at_b(pair.bind(1, mw, 100, 200)) == Lines{"1 bind_mw success"});
  CHECK(mw.region == pair.region);

  SECTION("inside") {
    CHECK(pair.at_a(pair.write(2, mw.rkey, Windows::first + 100, 200)) == Lines{"2 write success"});
    CHECK(std::ranges::equal(pair.b.bytes(100, 200), pair.a.bytes(0, 200)));
  }
  SECTION("a byte before") {
    CHECK(pair.at_a(pair.write(2, mw.rkey, Windows::first + 99)) ==
          Lines{"2 write rem_access_err"});
  }
  SECTION("a byte behind") {
    CHECK(pair.at_a(pair.write(2, mw.rkey, Windows::first + 293)) ==
          Lines{"2 write rem_access_err"});
  }
  SECTION("a right that only the region has") {
    Work read = pair.write(2, mw.rkey, Windows::first + 100);
    read.opcode = WrOpcode::rdma_read;
    CHECK(pair.at_a(read) == Lines{"2 read rem_access_err"});
  }
}

TEST_CASE("a window that isn't bound opens nothing") {
  Windows pair;
  const nic::Mw& mw = pair.window(GENERATE(MwType::type_1, MwType::type_2));
  CHECK(pair.at_a(pair.write(1, mw.rkey, Windows::first)) == Lines{"1 write rem_access_err"});
}

TEST_CASE("a window of type 2 may be bound under any of its 256 keys") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  for (std::uint32_t tag = 0; tag < 256; ++tag) {
    Work bind = pair.bind(tag, mw, 0, 8);
    bind.signaled = false;
    bind.binding.key = Rkey{(to_value(mw.rkey) & 0xFFFF'FF00) | tag};
    REQUIRE(pair.at_b(bind).empty());
    REQUIRE(mw.rkey == bind.binding.key);
    REQUIRE(pair.at_b(invalidate(1000, mw.rkey)) == Lines{"1000 local_inv success"});
  }
}

TEST_CASE("a bound window of type 2 must be invalidated before it is bound again") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  CHECK(pair.at_b(pair.bind(2, mw, 8, 8)) == Lines{"2 bind_mw mw_bind_err"});
  CHECK(nic::state_of(*pair.qps.b) == nic::QpState::err);
}

TEST_CASE("a window of type 1 moves with each bind, and with no bytes is closed") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_1);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  const Rkey before = mw.rkey;
  REQUIRE(pair.at_b(pair.bind(2, mw, 64, 8)) == Lines{"2 bind_mw success"});
  CHECK(mw.rkey != before);
  CHECK(pair.region->windows == 1);
  CHECK(pair.at_a(pair.write(3, mw.rkey, Windows::first + 64)) == Lines{"3 write success"});
  REQUIRE(pair.at_b(pair.bind(4, mw, 0, 0)) == Lines{"4 bind_mw success"});
  CHECK(pair.region->windows == 0);
  CHECK(pair.at_a(pair.write(5, mw.rkey, Windows::first + 64)) == Lines{"5 write rem_access_err"});
}

TEST_CASE("binds that the region doesn't permit fail with mw_bind_err") {
  const auto refused = [](Windows& pair, const Work& bind) {
    return pair.at_b(bind) == Lines{"1 bind_mw mw_bind_err"};
  };
  SECTION("a region without the right to be bound to") {
    Windows pair(all_access);
    CHECK(refused(pair, pair.bind(1, pair.window(MwType::type_2), 0, 8)));
  }
  SECTION("a window to write over a region that is only read") {
    Windows pair(Access::remote_read | Access::mw_bind);
    CHECK(refused(pair, pair.bind(1, pair.window(MwType::type_2), 0, 8)));
  }
  SECTION("beyond the region") {
    Windows pair;
    CHECK(refused(pair, pair.bind(1, pair.window(MwType::type_2), region_bytes - 7, 8)));
  }
  SECTION("type 2 with no bytes") {
    Windows pair;
    CHECK(refused(pair, pair.bind(1, pair.window(MwType::type_2), 0, 0)));
  }
  SECTION("type 1 that counts from 0") {
    Windows pair;
    const Access access = Access::remote_write | Access::zero_based;
    CHECK(refused(pair, pair.bind(1, pair.window(MwType::type_1), 0, 8, access)));
  }
  SECTION("a region of another protection domain") {
    Windows pair;
    nic::Pd* const other = *pair.b.nic.alloc_pd();
    nic::Mr* const mr = *pair.b.nic.reg_mr(*other, pair.b.bytes().data(), 64, Windows::first,
                                           all_access | Access::mw_bind);
    Work bind = pair.bind(1, pair.window(MwType::type_2), 0, 8);
    bind.binding.region = mr->lkey;
    CHECK(refused(pair, bind));
  }
  SECTION("a window of another protection domain") {
    Windows pair;
    nic::Mw* const mw = *pair.b.nic.alloc_mw(**pair.b.nic.alloc_pd(), MwType::type_2);
    CHECK(refused(pair, pair.bind(1, *mw, 0, 8)));
  }
  SECTION("a key that is no window's") {
    Windows pair;
    Work bind = pair.bind(1, pair.window(MwType::type_2), 0, 8);
    bind.binding.key = pair.region->rkey;
    CHECK(refused(pair, bind));
  }
}

TEST_CASE("a window of type 2 that counts from 0 is named by offsets") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  const Access access = Access::remote_write | Access::zero_based;
  REQUIRE(pair.at_b(pair.bind(1, mw, 100, 200, access)) == Lines{"1 bind_mw success"});
  CHECK(pair.at_a(pair.write(2, mw.rkey, Va{192})) == Lines{"2 write success"});
  CHECK(std::ranges::equal(pair.b.bytes(100 + 192, 8), pair.a.bytes(0, 8)));
  CHECK(pair.at_a(pair.write(3, mw.rkey, Va{193})) == Lines{"3 write rem_access_err"});
}

TEST_CASE(
    "a window of type 2 serves the queue pair that bound it, one of type 1 all of the domain") {
  const auto type = GENERATE(MwType::type_1, MwType::type_2);
  Windows pair;
  const Connection others = pair.connect();
  nic::Mw& mw = pair.window(type);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  pair.post(Side::a, *others.a, pair.write(2, mw.rkey, Windows::first));
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{type == MwType::type_1 ? "2 write success" : "2 write rem_access_err"});
}

TEST_CASE("a SEND with invalidate closes a window of type 2 and tells which") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  pair.post_recv(Side::b, *pair.qps.b, 7, {{1024, 3000}});
  Work send = pair.a.send(2, {0, 2500});
  send.opcode = WrOpcode::send_with_inv;
  send.invalidate_rkey = mw.rkey;
  pair.clear_log();
  CHECK(pair.at_a(send) == Lines{"2 send success"});
  CHECK(pair.wire(Side::a).back().starts_with("send_last_inv"));
  const auto received = pair.b.poll();
  REQUIRE(received.size() == 1);
  CHECK(received[0].with_inv);
  CHECK_FALSE(received[0].with_imm);
  CHECK(Rkey{received[0].imm_or_rkey} == mw.rkey);
  CHECK(received[0].byte_len == 2500);
  CHECK(mw.region == nullptr);
  CHECK(pair.at_a(pair.write(3, mw.rkey, Windows::first)) == Lines{"3 write rem_access_err"});
}

TEST_CASE("what can't be invalidated from afar is refused as an access error") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_1);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  pair.post_recv(Side::b, *pair.qps.b, 7, {{1024, 64}});
  Work send = pair.a.send(2, {0, 8});
  send.opcode = WrOpcode::send_with_inv;
  SECTION("a region") { send.invalidate_rkey = pair.region->rkey; }
  SECTION("a window of type 1") { send.invalidate_rkey = mw.rkey; }
  SECTION("nothing") { send.invalidate_rkey = Rkey{0x1234}; }
  CHECK(pair.at_a(send) == Lines{"2 send rem_access_err"});
  CHECK(pair.b.completions() == Lines{"7 recv loc_access_err"});
  CHECK(mw.region == pair.region);
}

TEST_CASE(
    "a local invalidate of what isn't a bound window of type 2 is an error of the queue pair") {
  Windows pair;
  CHECK(pair.at_b(invalidate(1, pair.region->rkey)) == Lines{"1 local_inv loc_qp_op_err"});
  CHECK(nic::state_of(*pair.qps.b) == nic::QpState::err);
}

TEST_CASE("binds complete in their place among requests, whatever is lost in between") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  pair.drop(Side::b, any_packet(), 2);
  pair.post(Side::b, *pair.qps.b, pair.b.write(1, {0, 2000}, pair.a, 0));
  pair.post(Side::b, *pair.qps.b, pair.bind(2, mw, 0, 8));
  pair.post(Side::b, *pair.qps.b, pair.b.read(3, {2048, 8}, pair.a, 0));
  pair.post(Side::b, *pair.qps.b, invalidate(4, Windows::next_key(mw)));
  pair.post(Side::b, *pair.qps.b, pair.b.write(5, {0, 8}, pair.a, 0));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"1 write success", "2 bind_mw success", "3 read success",
                                      "4 local_inv success", "5 write success"});
}

TEST_CASE("a fenced invalidate waits for the READs before it") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  pair.post(Side::b, *pair.qps.b, pair.b.read(2, {2048, 8}, pair.a, 0));
  Work fenced = invalidate(3, mw.rkey);
  fenced.fence = true;
  pair.post(Side::b, *pair.qps.b, fenced);
  pair.advance(Duration(1));
  CHECK(mw.region == pair.region);
  pair.run_until_idle();
  CHECK(mw.region == nullptr);
  CHECK(pair.b.completions() == Lines{"2 read success", "3 local_inv success"});
}

TEST_CASE("a region with windows stays: busy; a window goes at any time and takes its key along") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_2);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  CHECK(pair.b.nic.dereg_mr(*pair.region).error() == NicError::busy);
  CHECK(pair.b.nic.rereg_mr(*pair.region, {.access = Access::none}).error() == NicError::busy);
  const Rkey key = mw.rkey;
  REQUIRE(pair.b.nic.dealloc_mw(mw));
  CHECK(pair.at_a(pair.write(2, key, Windows::first)) == Lines{"2 write rem_access_err"});
  // The next object in the same place has another key.
  CHECK(to_value((*pair.b.nic.alloc_mw(*pair.b.pd, MwType::type_2))->rkey) != to_value(key));
  CHECK(pair.b.nic.dereg_mr(*pair.region));
}

TEST_CASE("a window keeps its protection domain") {
  Host host(1);
  nic::Pd* const pd = *host.nic.alloc_pd();
  nic::Mw* const mw = *host.nic.alloc_mw(*pd, MwType::type_1);
  CHECK(host.nic.dealloc_pd(*pd).error() == NicError::busy);
  REQUIRE(host.nic.dealloc_mw(*mw));
  CHECK(host.nic.dealloc_pd(*pd));
  CHECK(host.nic.object_counts().mws == 0);
}

TEST_CASE("a window has no L_Key") {
  Windows pair;
  nic::Mw& mw = pair.window(MwType::type_1);
  REQUIRE(pair.at_b(pair.bind(1, mw, 0, 8)) == Lines{"1 bind_mw success"});
  Work send = pair.b.send(2, {});
  send.pieces = {{Windows::first, 8, Lkey{to_value(mw.rkey)}}};
  CHECK(pair.at_b(send) == Lines{"2 send loc_prot_err"});
}

}  // namespace verbena::test
