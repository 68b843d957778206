// FLUSH: what was written before it is visible, or outlives a loss of power, once it completes
// (IBTA vol 1, annex A19).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Feth;
using ib::Opcode;
using nic::NicError;

namespace {

constexpr std::uint64_t region_bytes = 4096;
constexpr Access all_rights = all_access | Access::flush_global | Access::flush_persistent;

/// Keeps a copy of what it was asked for.
struct TestStore final : nic::PersistentStore {
  bool make_persistent(std::byte* start, std::uint64_t bytes) noexcept override {
    ++calls;
    first = start;
    kept.assign(start, start + bytes);
    return works;
  }

  int calls = 0;
  const std::byte* first = nullptr;
  std::vector<std::byte> kept;
  bool works = true;
};

/// Two connected hosts; a region of b's that a may flush.
struct Flushes : Pair {
  static constexpr Va first{0x10'0000};

  explicit Flushes(Access region_access = all_rights,
                   const EndOptions& end_b = {.access = all_rights})
      : Pair({.b = {.persistent_store = &store()}}),
        region(*b.nic.reg_mr(*b.pd, b.bytes().data(), region_bytes, first, region_access)),
        qps(connect({}, end_b)) {
    store() = TestStore{};
  }

  static TestStore& store() {
    static TestStore store;
    return store;
  }

  [[nodiscard]] Work flush(std::uint64_t id, std::uint64_t at, const Flush& what) const {
    Work work;
    work.wr_id = id;
    work.opcode = WrOpcode::flush;
    work.signaled = true;
    work.remote_addr = first + at;
    work.rkey = region->rkey;
    work.flush = what;
    return work;
  }
  [[nodiscard]] Work write(std::uint64_t id, std::uint64_t at, std::uint32_t bytes) const {
    Work work = a.write(id, {0, bytes}, b, 0);
    work.remote_addr = first + at;
    work.rkey = region->rkey;
    return work;
  }
  [[nodiscard]] Lines completions_of(const Work& work) {
    post(Side::a, *qps.a, work);
    run_until_idle();
    return a.completions();
  }

  nic::Mr* region;
  Connection qps;
};

}  // namespace

TEST_CASE("a FLUSH names a range and is answered by a READ response without data") {
  Flushes pair;
  CHECK(pair.completions_of(pair.flush(1, 64, {.global_visibility = true, .length = 128})) ==
        Lines{"1 flush success"});
  CHECK(pair.wire(Side::b) == Lines{"read_response_only 100 +0 ack msn 1"});
  REQUIRE(pair.log().size() == 2);
  const WirePacket& request = pair.log().front();
  CHECK(request.fields.opcode == Opcode::rc_flush);
  CHECK(request.payload_bytes == 0);
  CHECK(request.fields.feth.placement_type() == Feth::global_visibility);
  CHECK(request.fields.feth.selectivity() == Feth::range);
  CHECK(request.fields.reth.va() == Flushes::first + 64);
  CHECK(request.fields.reth.rkey() == pair.region->rkey);
  CHECK(request.fields.reth.length_bytes() == 128);
  CHECK(Flushes::store().calls == 0);
}

TEST_CASE("what was written before a FLUSH is made persistent, and no more than the range") {
  Flushes pair;
  pair.post(Side::a, *pair.qps.a, pair.write(1, 0, 3000));
  pair.post(Side::a, *pair.qps.a, pair.flush(2, 1000, {.persistence = true, .length = 500}));
  pair.post(Side::a, *pair.qps.a, pair.write(3, 1000, 8));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success", "2 flush success", "3 write success"});
  REQUIRE(Flushes::store().calls == 1);
  CHECK(Flushes::store().first == pair.b.bytes().data() + 1000);
  CHECK(std::ranges::equal(Flushes::store().kept, pair.a.bytes(1000, 500)));
}

TEST_CASE("a FLUSH of a whole region needs no address") {
  Flushes pair;
  Work work = pair.flush(1, 0, {.global_visibility = true, .persistence = true, .whole = true});
  work.remote_addr = Va{0};
  CHECK(pair.completions_of(work) == Lines{"1 flush success"});
  CHECK(pair.log().front().fields.feth.placement_type() ==
        (Feth::global_visibility | Feth::persistence));
  CHECK(pair.log().front().fields.feth.selectivity() == Feth::whole_region);
  CHECK(Flushes::store().first == pair.b.bytes().data());
  CHECK(Flushes::store().kept.size() == region_bytes);
}

TEST_CASE("a FLUSH whose answer is lost is answered again and not executed again") {
  Flushes pair;
  pair.drop(Side::b, any_packet());
  pair.post(Side::a, *pair.qps.a, pair.flush(1, 0, {.persistence = true, .length = 8}));
  // The next one comes before the first one is asked again.
  pair.post(Side::a, *pair.qps.a, pair.write(2, 0, 8));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 flush success", "2 write success"});
  CHECK(Flushes::store().calls == 1);
  CHECK(pair.b.count(Counter::duplicate_request) >= 1);
}

TEST_CASE("a FLUSH needs the rights of the queue pair and of the memory") {
  const Flush both{.global_visibility = true, .persistence = true, .length = 8};
  SECTION("a queue pair that takes none") {
    Flushes pair(all_rights, {.access = all_access | Access::flush_global});
    CHECK(pair.completions_of(pair.flush(1, 0, both)) == Lines{"1 flush rem_inv_req_err"});
  }
  SECTION("memory that permits only one of the two") {
    Flushes pair(all_access | Access::flush_global);
    CHECK(pair.completions_of(pair.flush(1, 0, both)) == Lines{"1 flush rem_access_err"});
    CHECK(pair.b.events() == Lines{"QP_ACCESS_ERR"});
  }
  SECTION("a range beyond the region") {
    Flushes pair;
    CHECK(
        pair.completions_of(pair.flush(1, region_bytes - 7, {.persistence = true, .length = 8})) ==
        Lines{"1 flush rem_access_err"});
  }
  SECTION("a wrong key, though nothing is to be flushed") {
    Flushes pair;
    Work work = pair.flush(1, 0, {.global_visibility = true});
    work.rkey = Rkey{1};
    CHECK(pair.completions_of(work) == Lines{"1 flush rem_access_err"});
  }
  CHECK(Flushes::store().calls == 0);
}

TEST_CASE("memory that can't be made persistent after all is an access error") {
  Flushes pair;
  Flushes::store().works = false;
  CHECK(pair.completions_of(pair.flush(1, 0, {.persistence = true, .length = 8})) ==
        Lines{"1 flush rem_access_err"});
}

TEST_CASE("a FLUSH of a reserved kind, or of none, is an invalid request") {
  const auto refused = [](unsigned types, unsigned level) {
    ScriptedPeer peer({.access = all_rights});
    auto fields = peer.request(Opcode::rc_flush, 0, 8);
    fields.feth = Feth(types, level);
    const RxVerdict verdict = peer.send(fields);
    return verdict.kind == RxVerdict::Kind::nak && verdict.check == RxCheck::opcode_allowed &&
           verdict.syndrome == 0x61;
  };
  CHECK(refused(0, Feth::range));
  CHECK(refused(4, Feth::range));
  CHECK(refused(Feth::global_visibility | 8, Feth::range));
  CHECK(refused(Feth::global_visibility, 2));
  CHECK(refused(Feth::global_visibility, 3));
}

TEST_CASE("a FLUSH with a payload is an invalid request") {
  ScriptedPeer peer({.access = all_rights});
  auto fields = peer.request(Opcode::rc_flush, 0, 8);
  fields.feth = Feth(Feth::global_visibility, Feth::range);
  const RxVerdict verdict = peer.send(fields, 4);
  CHECK(verdict.kind == RxVerdict::Kind::nak);
  CHECK(verdict.check == RxCheck::length);
}

TEST_CASE("a FLUSH counts among the READs and atomics in flight, and a fence waits for it") {
  Flushes pair;
  const Flush some{.global_visibility = true, .length = 8};
  const Connection qps = pair.connect({.max_rd_atomic = 1}, {.access = all_rights});
  Work fenced = pair.write(3, 0, 8);
  fenced.fence = true;
  pair.post(Side::a, *qps.a, pair.flush(1, 0, some));
  pair.post(Side::a, *qps.a, pair.flush(2, 0, some));
  pair.post(Side::a, *qps.a, fenced);
  pair.advance(Duration(1));
  CHECK(pair.wire(Side::a).size() == 1);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 flush success", "2 flush success", "3 write success"});
}

TEST_CASE("more FLUSHes than the responder keeps answers for are refused") {
  Flushes pair;
  const Connection qps =
      pair.connect({.max_rd_atomic = 4}, {.max_dest_rd_atomic = 1, .access = all_rights});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    pair.post(Side::a, *qps.a, pair.flush(id, 0, {.global_visibility = true, .length = 8}));
  }
  pair.set_room(Side::b, 0);
  pair.settle();
  pair.set_room(Side::b, Pair::always);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 flush success", "2 flush rem_inv_req_err",
                                      "3 flush wr_flush_err", "4 flush wr_flush_err"});
}

TEST_CASE("a FLUSH has no local memory, and is of reliable connections only") {
  Flushes pair;
  Work work = pair.flush(1, 0, {.global_visibility = true, .length = 8});
  work.pieces = {pair.a.sge({0, 8})};
  CHECK(pair.completions_of(work) == Lines{"1 flush loc_len_err"});
  CHECK(pair.wire().empty());

  const Connection unreliable = pair.connect({.type = nic::QpType::uc}, {.type = nic::QpType::uc});
  const auto posted = pair.try_post(Side::a, *unreliable.a, pair.flush(2, 0, {}));
  CHECK((!posted && posted.error() == PostError::opcode_unsupported));
}

TEST_CASE("memory is registered for persistence where there is a store, and if it is all there") {
  Flushes pair;
  const auto reg = [](Host& host, Access access) {
    return host.nic.reg_mr(*host.pd, host.bytes().data(), 64, Va{0}, access);
  };
  CHECK(reg(pair.b, Access::flush_persistent).has_value());
  CHECK(reg(pair.a, Access::flush_global).has_value());
  CHECK(reg(pair.a, Access::flush_persistent).error() == NicError::unsupported);
  CHECK(reg(pair.b, Access::flush_persistent | Access::on_demand).error() ==
        NicError::invalid_argument);
  CHECK(pair.a.nic.rereg_mr(*pair.a.mr, {.access = Access::flush_persistent}).error() ==
        NicError::unsupported);
}

TEST_CASE("a window passes on the right to flush that its region has, for its own bytes") {
  for (const bool region_has_it : {true, false}) {
    const Access base = all_access | Access::mw_bind | Access::flush_global;
    Flushes pair(region_has_it ? base | Access::flush_persistent : base);
    nic::Mw& window = **pair.b.nic.alloc_mw(*pair.b.pd, nic::MwType::type_2);
    Work bind;
    bind.wr_id = 1;
    bind.opcode = WrOpcode::bind_mw;
    bind.signaled = true;
    bind.binding = {.key = Rkey{to_value(window.rkey) ^ 1},
                    .region = pair.region->lkey,
                    .addr = Flushes::first + 256,
                    .length = 64,
                    .access = Access::flush_persistent};
    pair.post(Side::b, *pair.qps.b, bind);
    pair.run_until_idle();
    REQUIRE(pair.b.completions() == Lines{"1 bind_mw success"});
    Work work = pair.flush(2, 0, {.persistence = true, .whole = true});
    work.rkey = window.rkey;
    CHECK(pair.completions_of(work) ==
          Lines{region_has_it ? "2 flush success" : "2 flush rem_access_err"});
    CHECK(Flushes::store().kept.size() == (region_has_it ? 64 : 0));
  }
}

}  // namespace verbena::test
