// What goes wrong for good: NAKs and their codes, local errors, flushing, events (IBTA vol 1, 9.9,
// table 58 for the responder).
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;
using ib::Syndrome;

namespace {

std::vector<std::byte> copy_of(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

TEST_CASE("after an error the requests behind are flushed, each once and in order") {
  // users.md row 18.
  Pair pair;
  const Connection qps = pair.connect();
  Work bad = pair.a.write(1, {0, 8}, pair.b, 0);
  bad.rkey = Rkey{to_value(bad.rkey) ^ 0x55};
  pair.post(Side::a, *qps.a, bad);
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 8}, pair.b, 0));
  Work unsignalled = pair.a.write(3, {0, 8}, pair.b, 0);
  unsignalled.signaled = false;
  pair.post(Side::a, *qps.a, unsignalled);
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{"1 write rem_access_err", "2 write wr_flush_err", "3 write wr_flush_err"});
  CHECK(nic::state_of(*qps.a) == nic::QpState::err);
  CHECK(pair.a.count(Counter::req_cqe_error) == 3);
  CHECK(pair.a.count(Counter::req_cqe_flush_error) == 2);
  CHECK(pair.a.count(Counter::req_remote_access_errors) == 1);
}

TEST_CASE("requests before the error complete, and receives are flushed too") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::a, *qps.a, 20, {});
  pair.post_recv(Side::b, *qps.b, 30, {});
  pair.post_recv(Side::b, *qps.b, 31, {});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 0}));
  pair.post(Side::a, *qps.a, pair.a.read(2, {0, 8}, pair.b, pair.b.bytes().size() - 7));
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{"1 send success", "2 read rem_access_err", "20 recv wr_flush_err"});
  CHECK(pair.b.completions() == Lines{"30 recv success +0", "31 recv wr_flush_err"});
}

TEST_CASE("a request without a right to the memory is NAKed, the target errs with an event") {
  // users.md row 30: NAK 0x62, QP in ERR, IBV_EVENT_QP_ACCESS_ERR (C9-222.1.1).
  struct Case {
    const char* what;
    Opcode opcode;
    std::uint32_t bytes;
    std::uint64_t offset;
    std::uint32_t key_flip;
  };
  const std::size_t memory = HostOptions{}.memory_bytes;
  const Case cases[] = {
      {"WRITE with a wrong key", Opcode::rc_write_only, 8, 0, 0x55},
      {"WRITE with a key out of the table", Opcode::rc_write_only, 8, 0, 0xFFFF'0000},
      {"WRITE before the region", Opcode::rc_write_only, 8, ~std::uint64_t{0}, 0},
      {"WRITE over the end", Opcode::rc_write_only, 8, memory - 7, 0},
      {"WRITE behind the end", Opcode::rc_write_only, 8, memory + 4096, 0},
      {"long WRITE over the end", Opcode::rc_write_first, 2048, memory - 2047, 0},
      {"READ over the end", Opcode::rc_read_request, 64, memory - 63, 0},
      {"READ that wraps around", Opcode::rc_read_request, 1U << 31, ~std::uint64_t{0} << 20, 0},
      {"atomic behind the end", Opcode::rc_fetch_add, 8, memory, 0},
      {"atomic with a wrong key", Opcode::rc_compare_swap, 8, 0, 0x55},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    ScriptedPeer peer;
    const auto before = copy_of(peer.host.bytes());
    auto fields = peer.request(c.opcode, 0, c.bytes);
    const Rkey rkey{to_value(peer.host.mr->rkey) ^ c.key_flip};
    fields.reth = ib::Reth(peer.host.va(c.offset), rkey, c.bytes);
    fields.atomic_eth = ib::AtomicEth(peer.host.va(c.offset), rkey, 1, 0);
    const bool has_payload = ib::opcode_info(c.opcode).may_have_payload();
    const RxVerdict verdict =
        peer.send(fields, has_payload ? std::min<std::size_t>(c.bytes, 1024) : 0);
    CHECK(verdict.kind == RxVerdict::Kind::nak);
    CHECK(verdict.check == RxCheck::key);
    CHECK(peer.answers() == Lines{"acknowledge 500 nak 62 msn 0"});
    CHECK(nic::state_of(peer.qp) == nic::QpState::err);
    CHECK(peer.host.events() == Lines{"QP_ACCESS_ERR"});
    CHECK(std::ranges::equal(peer.host.bytes(), before));
    CHECK(peer.host.count(Counter::resp_remote_access_errors) == 1);
  }
}

TEST_CASE("a WRITE with immediate without a right to the memory is told by its receive") {
  // users.md row 30: it reports through the CQE instead of an event.
  ScriptedPeer peer;
  peer.post_recv(7, {});
  peer.post_recv(8, {});
  auto fields = peer.request(Opcode::rc_write_only_imm, 0, 8);
  fields.reth = ib::Reth(peer.host.va(), Rkey{1}, 8);
  peer.send(fields, 8);
  CHECK(peer.answers() == Lines{"acknowledge 500 nak 62 msn 0"});
  CHECK(peer.host.completions() == Lines{"7 recv_write_imm loc_access_err", "8 recv wr_flush_err"});
  CHECK(peer.host.events().empty());
}

TEST_CASE("every way to get a request wrong is answered by invalid request") {
  // users.md row 19: every error is answered, with and without a receive.
  struct Case {
    const char* what;
    std::vector<Opcode> before;  // Good packets first.
    Opcode opcode;
    std::uint32_t reth_bytes;
    std::size_t payload;
    const char* completion;  // Of the receive that is there.
  };
  constexpr const char* flushed = "7 recv wr_flush_err";
  constexpr const char* invalid = "7 recv rem_inv_req_err";
  const Case cases[] = {
      {"Middle outside a message", {}, Opcode::rc_send_middle, 0, 1024, flushed},
      {"Last outside a message", {}, Opcode::rc_send_last, 0, 8, flushed},
      {"WRITE Middle outside", {}, Opcode::rc_write_middle, 0, 1024, flushed},
      {"Only in a SEND", {Opcode::rc_send_first}, Opcode::rc_send_only, 0, 8, invalid},
      {"First in a SEND", {Opcode::rc_send_first}, Opcode::rc_send_first, 0, 1024, invalid},
      {"WRITE Last in a SEND", {Opcode::rc_send_first}, Opcode::rc_write_last, 0, 8, invalid},
      {"SEND Last in a WRITE", {Opcode::rc_write_first}, Opcode::rc_send_last, 0, 8, flushed},
      {"READ in a WRITE", {Opcode::rc_write_first}, Opcode::rc_read_request, 8, 0, flushed},
      {"atomic in a SEND", {Opcode::rc_send_first}, Opcode::rc_fetch_add, 0, 0, invalid},
      {"SEND First not full", {}, Opcode::rc_send_first, 0, 1020, invalid},
      {"SEND Last empty", {Opcode::rc_send_first}, Opcode::rc_send_last, 0, 0, invalid},
      {"SEND Only over the MTU", {}, Opcode::rc_send_only, 0, 1028, invalid},
      {"WRITE Only over the MTU", {}, Opcode::rc_write_only, 1028, 1028, flushed},
      {"WRITE shorter than its RETH", {}, Opcode::rc_write_only, 9, 8, flushed},
      {"WRITE longer than its RETH", {}, Opcode::rc_write_only, 7, 8, flushed},
      {"WRITE First that is all", {}, Opcode::rc_write_first, 1024, 1024, flushed},
      {"WRITE Last too long", {Opcode::rc_write_first}, Opcode::rc_write_last, 0, 1000, flushed},
      {"WRITE of more than 2^31", {}, Opcode::rc_write_first, (1U << 31) + 1, 1024, flushed},
      {"READ of more than 2^31", {}, Opcode::rc_read_request, (1U << 31) + 1, 0, flushed},
      {"FLUSH", {}, Opcode::rc_flush, 8, 0, flushed},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    ScriptedPeer peer;
    peer.post_recv(7, {{0, 8192}});
    std::int32_t n = 0;
    for (const Opcode opcode : c.before) {
      peer.send(peer.request(opcode, n++, 1500), 1024);
    }
    peer.answers();
    const RxVerdict verdict = peer.send(peer.request(c.opcode, n, c.reth_bytes), c.payload);
    CHECK(verdict.kind == RxVerdict::Kind::nak);
    CHECK(peer.answers() == Lines{"acknowledge " + std::to_string(500 + n) + " nak 61 msn 0"});
    CHECK(nic::state_of(peer.qp) == nic::QpState::err);
    CHECK(peer.host.completions() == Lines{c.completion});
    const bool told_by_event = c.completion == std::string(flushed);
    CHECK(peer.host.events() == (told_by_event ? Lines{"QP_REQ_ERR"} : Lines{}));
  }
}

TEST_CASE("a SEND longer than its receive is an invalid request, and a length error here") {
  // IBTA vol 1, 9.9.3.1 and table 58: length errors are NAK "invalid request". (Linux's rxe answers
  // "remote operational error".)
  Pair pair;
  const Connection qps = pair.connect();
  const auto before = copy_of(pair.b.bytes());
  pair.post_recv(Side::b, *qps.b, 7, {{0, 64}});
  pair.post_recv(Side::b, *qps.b, 8, {{0, 64}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 65}));
  pair.run_until_idle();
  CHECK(pair.wire(Side::b) == Lines{"acknowledge 100 nak 61 msn 0"});
  CHECK(pair.a.completions() == Lines{"1 send rem_inv_req_err"});
  CHECK(pair.b.completions() == Lines{"7 recv loc_len_err", "8 recv wr_flush_err"});
  CHECK(pair.b.count(Counter::resp_local_length_error) == 1);
  CHECK(pair.a.count(Counter::req_remote_invalid_request) == 1);
  CHECK(std::ranges::equal(pair.b.bytes(), before));
}

TEST_CASE("a queue pair permits only what its access flags name") {
  struct Case {
    Opcode opcode;
    Access needed;
  };
  const Case cases[] = {{Opcode::rc_write_only, Access::remote_write},
                        {Opcode::rc_read_request, Access::remote_read},
                        {Opcode::rc_fetch_add, Access::remote_atomic}};
  for (const Case& c : cases) {
    for (const Access granted :
         {Access::none, Access::remote_write, Access::remote_read, Access::remote_atomic}) {
      INFO("opcode " << int(c.opcode) << ", access " << to_value(granted));
      ScriptedPeer peer({.access = granted});
      peer.send(peer.request(c.opcode, 0, 8),
                ib::opcode_info(c.opcode).may_have_payload() ? std::size_t{8} : 0);
      const bool refused = peer.answers() == Lines{"acknowledge 500 nak 61 msn 0"};
      CHECK(refused == (granted != c.needed));
    }
  }
}

TEST_CASE("a memory region permits only what its access flags name") {
  struct Case {
    Opcode opcode;
    Access needed;
  };
  const Case cases[] = {{Opcode::rc_write_only, Access::remote_write},
                        {Opcode::rc_read_request, Access::remote_read},
                        {Opcode::rc_fetch_add, Access::remote_atomic}};
  for (const Case& c : cases) {
    for (const Access granted :
         {Access::local_write, Access::local_write | Access::remote_write, Access::remote_read,
          Access::local_write | Access::remote_atomic}) {
      INFO("opcode " << int(c.opcode) << ", access " << to_value(granted));
      ScriptedPeer peer;
      const auto mr =
          peer.host.nic.reg_mr(*peer.host.pd, peer.host.bytes().data(), 4096, Va{0x1000}, granted);
      REQUIRE(mr);
      auto fields = peer.request(c.opcode, 0, 8);
      fields.reth = ib::Reth(Va{0x1000}, (*mr)->rkey, 8);
      fields.atomic_eth = ib::AtomicEth(Va{0x1000}, (*mr)->rkey, 1, 0);
      peer.send(fields, ib::opcode_info(c.opcode).may_have_payload() ? std::size_t{8} : 0);
      const bool refused = peer.answers() == Lines{"acknowledge 500 nak 62 msn 0"};
      CHECK(refused == !allows(granted, c.needed));
    }
  }
}

TEST_CASE("a key of another protection domain opens nothing") {
  ScriptedPeer peer;
  nic::Pd* const other = peer.host.nic.alloc_pd().value();
  const auto mr =
      peer.host.nic.reg_mr(*other, peer.host.bytes().data(), 4096, Va{0x1000}, all_access);
  REQUIRE(mr);
  auto fields = peer.request(Opcode::rc_write_only, 0, 8);
  fields.reth = ib::Reth(Va{0x1000}, (*mr)->rkey, 8);
  peer.send(fields, 8);
  CHECK(peer.answers() == Lines{"acknowledge 500 nak 62 msn 0"});
}

TEST_CASE("one bad SGE fails the whole request, before anything is sent") {
  // users.md row 29: an unmappable SGE must not be skipped; sums don't wrap.
  struct Case {
    const char* what;
    Sge sge;
  };
  Pair layout;
  const Case cases[] = {
      {"wrong key", {layout.a.va(), 8, Lkey{to_value(layout.a.mr->lkey) ^ 1}}},
      {"over the end", {layout.a.va(layout.a.bytes().size() - 7), 8, layout.a.mr->lkey}},
      {"before the beginning", {layout.a.va() + ~std::uint64_t{0}, 8, layout.a.mr->lkey}},
  };
  for (const Case& c : cases) {
    for (const bool is_read : {false, true}) {
      INFO(c.what);
      Pair pair;
      const Connection qps = pair.connect();
      const auto before_a = copy_of(pair.a.bytes());
      const auto before_b = copy_of(pair.b.bytes());
      pair.post(Side::a, *qps.a, pair.a.write(1, {0, 0}, pair.b, 0));
      Work work = is_read ? pair.a.read(2, {}, pair.b, 0) : pair.a.write(2, {}, pair.b, 0);
      work.pieces = {pair.a.sge({0, 8}), c.sge, pair.a.sge({8, 8})};
      pair.post(Side::a, *qps.a, work);
      pair.run_until_idle();
      CHECK(pair.wire(Side::a) == Lines{"write_only 100 +0 A"});
      CHECK(pair.a.completions() ==
            Lines{"1 write success", is_read ? "2 read loc_prot_err" : "2 write loc_prot_err"});
      CHECK(std::ranges::equal(pair.a.bytes(), before_a));
      CHECK(std::ranges::equal(pair.b.bytes(), before_b));
    }
  }
}

TEST_CASE("a READ needs local memory that may be written") {
  Pair pair;
  const Connection qps = pair.connect();
  const auto read_only =
      pair.a.nic.reg_mr(*pair.a.pd, pair.a.bytes().data(), 4096, Va{0x1000}, Access::none);
  REQUIRE(read_only);
  Work read = pair.a.read(1, {}, pair.b, 0);
  read.pieces = {{Va{0x1000}, 8, (*read_only)->lkey}};
  pair.post(Side::a, *qps.a, read);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 read loc_prot_err"});

  Pair second;
  const Connection others = second.connect();
  const auto source =
      second.a.nic.reg_mr(*second.a.pd, second.a.bytes().data(), 4096, Va{0x1000}, Access::none);
  Work write = second.a.write(1, {}, second.b, 0);
  write.pieces = {{Va{0x1000}, 8, (*source)->lkey}};
  second.post(Side::a, *others.a, write);
  second.run_until_idle();
  CHECK(second.a.completions() == Lines{"1 write success"});
}

TEST_CASE("a receive whose memory can't be written ends both sides") {
  // IBTA vol 1, table 58: a local error of the responder is NAK "remote operational error".
  Pair pair;
  const Connection qps = pair.connect();
  const Sge bad{pair.b.va(), 64, Lkey{1}};
  REQUIRE(pair.b.nic.post_recv(pair.now(), *qps.b, {.wr_id = 7, .sges = {&bad, 1}}));
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.wire(Side::b) == Lines{"acknowledge 100 nak 63 msn 0"});
  CHECK(pair.a.completions() == Lines{"1 send rem_op_err"});
  CHECK(pair.b.completions() == Lines{"7 recv loc_prot_err"});
}

TEST_CASE("lengths are added in 64 bits") {
  Pair pair;
  const Connection qps = pair.connect();
  Work work = pair.a.send(1, {});
  work.pieces = {{pair.a.va(), 0xFFFF'FFFF, pair.a.mr->lkey}, {pair.a.va(), 9, pair.a.mr->lkey}};
  CHECK(pair.try_post(Side::a, *qps.a, work).error() == PostError::message_too_long);
}

TEST_CASE("data can't come back into inline data: such a READ is refused at the post") {
  // users.md row 36: never silence.
  Pair pair;
  const Connection qps = pair.connect();
  Work inline_read = pair.a.read(1, {}, pair.b, 0);
  inline_read.inline_data = true;
  inline_read.pieces.clear();
  CHECK(pair.try_post(Side::a, *qps.a, inline_read).error() == PostError::opcode_unsupported);
}

TEST_CASE("posts beyond a queue's limits are refused and leave the queue as it was") {
  Pair pair;
  const EndOptions small{.caps = {.send_wr_max = 2,
                                  .recv_wr_max = 2,
                                  .send_sge_max = 2,
                                  .recv_sge_max = 1,
                                  .inline_bytes_max = 16}};
  const Connection qps = pair.connect(small);
  Work three = pair.a.send(1, {0, 8});
  three.pieces.assign(3, pair.a.sge({0, 8}));
  CHECK(pair.try_post(Side::a, *qps.a, three).error() == PostError::too_many_sges);
  std::byte text[17]{};
  Work too_long = pair.a.send(1, {});
  too_long.inline_data = true;
  too_long.pieces = {{.addr = Va{reinterpret_cast<std::uintptr_t>(text)}, .length = 17}};
  CHECK(pair.try_post(Side::a, *qps.a, too_long).error() == PostError::inline_too_long);
  const std::uint32_t send_wr_max = nic::qp_caps(*qps.a).send_wr_max;
  for (std::uint32_t i = 0; i < send_wr_max; ++i) {
    pair.post(Side::a, *qps.a, pair.a.write(i, {0, 8}, pair.b, 0));
  }
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.write(9, {0, 8}, pair.b, 0)).error() ==
        PostError::queue_full);
  const Sge two[] = {pair.a.sge({0, 8}), pair.a.sge({0, 8})};
  CHECK(pair.a.nic.post_recv(pair.now(), *qps.a, {.wr_id = 1, .sges = two}).error() ==
        PostError::too_many_sges);
  const std::uint32_t recv_wr_max = nic::qp_caps(*qps.a).recv_wr_max;
  for (std::uint32_t i = 0; i < recv_wr_max; ++i) {
    pair.post_recv(Side::a, *qps.a, i, {});
  }
  CHECK(pair.a.nic.post_recv(pair.now(), *qps.a, {.wr_id = 9, .sges = {}}).error() ==
        PostError::queue_full);
  pair.run_until_idle();
  CHECK(pair.a.completions().size() == send_wr_max);
}

TEST_CASE("answers to READs before the error still come, then the NAK") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.read(1, {0, 3000}, pair.b, 0));
  Work bad = pair.a.write(2, {0, 8}, pair.b, 0);
  bad.rkey = Rkey{1};
  pair.post(Side::a, *qps.a, bad);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 read success", "2 write rem_access_err"});
}

TEST_CASE("a queue pair in error takes no more packets") {
  ScriptedPeer peer;
  peer.send(peer.request(Opcode::rc_send_middle, 0), 1024);
  peer.answers();
  const RxVerdict verdict = peer.send(peer.request(Opcode::rc_write_only, 0, 8), 8);
  CHECK(verdict.counter == Counter::rx_drop_qp_state);
  CHECK(peer.answers().empty());
}

TEST_CASE("the words of a refusal name the check and its figures") {
  ScriptedPeer peer;
  const RxVerdict verdict = peer.send(peer.request(Opcode::rc_write_only, 0, 100), 8);
  CHECK(verdict.check == RxCheck::length);
  CHECK(verdict.expected == 100);
  CHECK(verdict.got == 8);
  CHECK_THAT(describe(verdict), Catch::Contains("length") && Catch::Contains("0x61"));
}

}  // namespace verbena::test
