// An iWARP device: queue pairs over byte streams under the same commands, completions and events as
// those of RoCE; what becomes of them when a connection ends, and of the connection when they do.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "nic_model/rnic_profile.h"
#include "tests/support/connection.h"
#include "tests/support/host.h"

namespace verbena::test {

using nic::NicError;
using nic::QpState;
using Lines = std::vector<std::string>;
using Close = nic::StreamPort::Close;

namespace {

namespace m = nic::qp_attr_mask;

/// One end of a connection's byte stream, which takes up to `room` bytes.
struct Wire final : iwarp::StreamSink {
  MutableBytes reserve(std::size_t bytes) override {
    if (sent.size() + bytes > room) {
      return {};
    }
    reserved.assign(bytes, std::byte{0xEE});
    return reserved;
  }
  void commit() override {
    sent.insert(sent.end(), reserved.begin(), reserved.end());
    ++fpdus;
  }

  std::size_t room = std::size_t{1} << 20;
  std::vector<std::byte> reserved;
  std::vector<std::byte> sent;
  std::size_t fpdus = 0;
  std::optional<Close> closed;
};

struct Wires final : nic::StreamPort {
  iwarp::StreamSink& stream_of(const nic::Qp& qp) override { return of(qp); }
  void close_stream(const nic::Qp& qp, Close how) override {
    // Asked once.
    CHECK_FALSE(of(qp).closed);
    of(qp).closed = how;
  }
  Wire& of(const nic::Qp& qp) { return wires[nic::qpn_of(qp)]; }
  std::map<Qpn, Wire> wires;
};

struct End {
  End(std::uint8_t number, const nic::DeviceProfile& profile)
      : host(number, {.profile = &profile, .technology = nic::Technology::iwarp}) {}

  [[nodiscard]] Result<void, PostError> try_post(nic::Qp& qp, const Work& work) {
    Work posted = work;
    posted.sges = posted.pieces;
    return host.nic.post_send(Time{}, qp, posted);
  }
  void post(nic::Qp& qp, const Work& work) { REQUIRE(try_post(qp, work)); }
  void receive(nic::Qp& qp, std::uint64_t id, Piece into) {
    const Sge sge = host.sge(into);
    REQUIRE(host.nic.post_recv(Time{}, qp, {.wr_id = id, .sges = {&sge, 1}}));
  }
  void modify(nic::Qp& qp, QpState state) { to_state(host, Time{}, qp, state); }
  bool transmit() {
    std::size_t before = fpdus();
    while (host.nic.poll_streams(Time{}, wires) == nic::TransmitStatus::more) {
    }
    return fpdus() != before;
  }
  [[nodiscard]] std::size_t fpdus() const {
    std::size_t count = 0;
    for (const auto& [qpn, wire] : wires.wires) {
      count += wire.fpdus;
    }
    return count;
  }

  Host host;
  Wires wires;
};

struct Ends {
  nic::Qp* a = nullptr;
  nic::Qp* b = nullptr;
};

/// Two iWARP devices, whose connections are byte vectors.
struct Streams {
  explicit Streams(const nic::DeviceProfile& profile = nic::default_profile())
      : a(1, profile), b(2, profile) {}

  End a;
  End b;

  static iwarp::MpaAgreement agreement() {
    return {.revision = 2, .send_format = {}, .receive_format = {}, .depths = {4, 4}, .rtr = {}};
  }

  Ends connect(const EndOptions& options_b = {}) {
    const Ends ends{&create_qp(a.host, {}), &create_qp(b.host, options_b)};
    to_init(a.host, Time{}, *ends.a, {});
    to_init(b.host, Time{}, *ends.b, options_b);
    attach(ends);
    return ends;
  }
  void attach(const Ends& ends) {
    a.wires.of(*ends.a) = b.wires.of(*ends.b) = Wire{};
    REQUIRE(a.host.nic.attach_stream(Time{}, *ends.a,
                                     {.agreement = agreement(), .is_initiator = true}));
    REQUIRE(b.host.nic.attach_stream(Time{}, *ends.b,
                                     {.agreement = agreement(), .is_initiator = false}));
  }

  /// Everything that is said is heard, until nobody says anything more; then those streams that
  /// were closed from one side are at an end for the other.
  void run(const Ends& ends) {
    while (a.transmit() | b.transmit()) {
      deliver(a, *ends.a, b, *ends.b);
      deliver(b, *ends.b, a, *ends.a);
    }
  }
  static void deliver(End& from, nic::Qp& from_qp, End& to, nic::Qp& to_qp) {
    std::vector<std::byte> bytes;
    std::swap(bytes, from.wires.of(from_qp).sent);
    to.host.nic.on_stream(Time{}, to_qp, bytes);
  }
  /// Both ends have closed, or one has aborted.
  void close(const Ends& ends) {
    a.host.nic.on_stream_closed(Time{}, *ends.a);
    b.host.nic.on_stream_closed(Time{}, *ends.b);
  }
};

NicError modify_error(Host& host, nic::Qp& qp, QpState state) {
  nic::QpAttr attr;
  attr.state = state;
  const auto result = host.nic.modify_qp(Time{}, qp, attr, m::state);
  REQUIRE_FALSE(result);
  return result.error();
}

}  // namespace

TEST_CASE("an iWARP device moves SENDs, WRITEs and READs over streams and counts them") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  b.receive(*qps.b, 7, {0, 4096});
  a.post(*qps.a, a.host.send(1, {0, 2000}));
  a.post(*qps.a, a.host.write(2, {2000, 5000}, b.host, 8192));
  a.post(*qps.a, a.host.read(3, {20'000, 3000}, b.host, 30'000));
  streams.run(qps);
  CHECK(a.host.completions() == Lines{"1 send success", "2 write success", "3 read success"});
  CHECK(b.host.completions() == Lines{"7 recv success +2000"});
  CHECK(std::ranges::equal(b.host.bytes(0, 2000), a.host.bytes(0, 2000)));
  CHECK(std::ranges::equal(b.host.bytes(8192, 5000), a.host.bytes(2000, 5000)));
  CHECK(std::ranges::equal(a.host.bytes(20'000, 3000), b.host.bytes(30'000, 3000)));
  // 2 + 4 segments of 1436 to 1440 bytes and a request; the answer in 3.
  CHECK(a.host.count(Counter::sent_pkts) == 7);
  CHECK(b.host.count(Counter::rcvd_pkts) == 7);
  CHECK(a.host.count(Counter::rcvd_pkts) == 3);
  CHECK(a.host.count(Counter::tx_bytes) == b.host.count(Counter::rx_bytes));
  CHECK(b.host.count(Counter::rx_write_requests) == 1);
  CHECK(b.host.count(Counter::rx_read_requests) == 1);
  CHECK(a.host.events().empty());
  CHECK(b.host.events().empty());
}

TEST_CASE("only reliable connections exist on an iWARP device, without address handles or rates") {
  Streams streams;
  Host& host = streams.a.host;
  for (const auto type : {nic::QpType::uc, nic::QpType::ud, nic::QpType::xrc_initiator}) {
    const auto qp = host.nic.create_qp(
        *host.pd, {.type = type, .send_cq = host.cq, .recv_cq = host.cq, .caps = {}});
    REQUIRE_FALSE(qp);
    CHECK(qp.error() == NicError::unsupported);
  }
  CHECK(host.nic.create_ah(*host.pd, {}).error() == NicError::unsupported);
  const Ends qps = streams.connect();
  CHECK(host.nic.limit_rate(*qps.a, {.kbps = 1000}).error() == NicError::unsupported);
  // What it has to say never is a frame, and a frame says nothing to it.
  CHECK(host.nic.on_frame(Time{}, ByteView(host.bytes()).first(100)).counter ==
        Counter::rx_drop_not_roce);
}

TEST_CASE("a connection is what leads to RTS: INIT and RTR wait for it") {
  Streams streams;
  Host& host = streams.a.host;
  nic::Qp& qp = create_qp(host, {});
  const nic::StreamAttr stream{.agreement = Streams::agreement(), .is_initiator = true};
  CHECK(host.nic.attach_stream(Time{}, qp, stream).error() == NicError::invalid_argument);
  CHECK(modify_error(host, qp, QpState::rts) == NicError::invalid_argument);
  to_init(host, Time{}, qp, {});
  CHECK(modify_error(host, qp, QpState::rts) == NicError::invalid_argument);
  nic::QpAttr to_rtr;
  to_rtr.state = QpState::rtr;
  REQUIRE(host.nic.modify_qp(Time{}, qp, to_rtr, m::state | m::access_flags));
  CHECK(nic::state_of(qp) == QpState::init);
  CHECK(streams.a.try_post(qp, host.send(1, {0, 8})).error() == PostError::wrong_state);
  nic::StreamAttr too_deep = stream;
  too_deep.agreement.depths.ird = static_cast<std::uint16_t>(host.nic.ird_max() + 1);
  CHECK(host.nic.attach_stream(Time{}, qp, too_deep).error() == NicError::invalid_argument);
  REQUIRE(host.nic.attach_stream(Time{}, qp, stream));
  CHECK(nic::state_of(qp) == QpState::rts);
  CHECK(host.nic.query_qp(qp).max_rd_atomic == 4);
  CHECK(host.nic.attach_stream(Time{}, qp, stream).error() == NicError::invalid_argument);
}

TEST_CASE("SQD sends what was posted, closes in order and leads to INIT") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  b.receive(*qps.b, 7, {0, 64});
  b.receive(*qps.b, 8, {64, 64});
  a.wires.of(*qps.a).room = 0;
  a.post(*qps.a, a.host.send(1, {0, 8}));
  nic::QpAttr drain;
  drain.state = QpState::sqd;
  drain.en_sqd_async_notify = true;
  REQUIRE(a.host.nic.modify_qp(Time{}, *qps.a, drain, m::state | m::en_sqd_async_notify));
  CHECK(a.host.events().empty());
  CHECK(a.try_post(*qps.a, a.host.send(2, {0, 8})).error() == PostError::wrong_state);
  CHECK_FALSE(a.transmit());
  CHECK_FALSE(a.wires.of(*qps.a).closed);
  a.wires.of(*qps.a).room = 1000;
  streams.run(qps);
  CHECK(a.wires.of(*qps.a).closed == Close::in_order);
  CHECK(a.host.completions() == Lines{"1 send success"});
  CHECK(a.host.events() == Lines{"SQ_DRAINED"});
  b.host.nic.on_stream_end(Time{}, *qps.b);
  CHECK(nic::state_of(*qps.b) == QpState::sqd);
  streams.run(qps);
  CHECK(b.wires.of(*qps.b).closed == Close::in_order);
  streams.close(qps);
  CHECK(nic::state_of(*qps.a) == QpState::init);
  CHECK(nic::state_of(*qps.b) == QpState::init);
  CHECK(b.host.completions() == Lines{"7 recv success +8", "8 recv wr_flush_err"});
  CHECK(a.host.events().empty());
  CHECK(b.host.events().empty());
  // And the next connection may follow.
  streams.attach(qps);
  a.post(*qps.a, a.host.write(3, {0, 8}, b.host, 512));
  streams.run(qps);
  CHECK(a.host.completions() == Lines{"3 write success"});
}

TEST_CASE("ERR flushes both queues and resets the connection, RESET takes completions along") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  a.receive(*qps.a, 7, {0, 64});
  a.wires.of(*qps.a).room = 0;
  a.post(*qps.a, a.host.send(1, {0, 8}));
  a.modify(*qps.a, QpState::err);
  CHECK(a.host.completions() == Lines{"1 send wr_flush_err", "7 recv wr_flush_err"});
  streams.run(qps);
  CHECK(a.wires.of(*qps.a).closed == Close::abort);
  CHECK(a.wires.of(*qps.a).fpdus == 0);
  a.post(*qps.a, a.host.send(2, {0, 8}));
  CHECK(a.host.completions() == Lines{"2 send wr_flush_err"});
  CHECK(a.host.events().empty());
  streams.close(qps);
  CHECK(nic::state_of(*qps.a) == QpState::err);
  CHECK(nic::state_of(*qps.b) == QpState::err);
  CHECK(b.host.events() == Lines{"QP_FATAL"});
  a.post(*qps.a, a.host.send(3, {0, 8}));
  a.modify(*qps.a, QpState::reset);
  CHECK(a.host.completions().empty());
  to_init(a.host, Time{}, *qps.a, {});
  CHECK(nic::state_of(*qps.a) == QpState::init);
}

TEST_CASE("RESET abandons a connection under way, which is told once") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  a.post(*qps.a, a.host.send(1, {0, 8}));
  a.modify(*qps.a, QpState::reset);
  streams.run(qps);
  CHECK(a.wires.of(*qps.a).closed == Close::abort);
  CHECK(a.wires.of(*qps.a).fpdus == 0);
  a.host.nic.on_stream_closed(Time{}, *qps.a);
  CHECK(nic::state_of(*qps.a) == QpState::reset);
  CHECK(a.host.completions().empty());
}

TEST_CASE("a WRITE that the peer refuses is an event on both sides, after a TERMINATE") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  Work work = a.host.write(1, {0, 8}, b.host, 0);
  work.rkey = Rkey{to_value(work.rkey) + 1};
  b.receive(*qps.b, 7, {0, 64});
  a.post(*qps.a, work);
  streams.run(qps);
  // It was done when the stream had it.
  CHECK(a.host.completions() == Lines{"1 write success"});
  CHECK(b.host.completions() == Lines{"7 recv wr_flush_err"});
  CHECK(b.host.events() == Lines{"QP_ACCESS_ERR"});
  CHECK(a.host.events() == Lines{"QP_FATAL"});
  CHECK(nic::state_of(*qps.a) == QpState::err);
  CHECK(nic::state_of(*qps.b) == QpState::err);
  CHECK(b.wires.of(*qps.b).closed == Close::in_order);
  CHECK(b.host.count(Counter::sent_terminates) == 1);
  CHECK(a.host.count(Counter::rcvd_terminates) == 1);
  CHECK(b.host.count(Counter::resp_remote_access_errors) == 1);
}

TEST_CASE("a READ that the peer refuses is told by its completion") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  Work work = a.host.read(1, {0, 8}, b.host, 0);
  work.rkey = Rkey{to_value(work.rkey) + 1};
  a.post(*qps.a, work);
  a.post(*qps.a, a.host.send(2, {0, 8}));
  streams.run(qps);
  CHECK(a.host.completions() == Lines{"1 read rem_access_err", "2 send wr_flush_err"});
  CHECK(a.host.events().empty());
  CHECK(b.host.events() == Lines{"QP_ACCESS_ERR"});
}

TEST_CASE("what the queue pair doesn't permit is refused, whatever the memory permits") {
  const bool is_read = GENERATE(false, true);
  Streams streams;
  const Access access = is_read ? Access::remote_write : Access::remote_read;
  const Ends qps = streams.connect({.access = access});
  auto& [a, b] = streams;
  a.post(*qps.a, is_read ? a.host.read(1, {0, 8}, b.host, 0) : a.host.write(1, {0, 8}, b.host, 0));
  streams.run(qps);
  CHECK(b.host.events() == Lines{"QP_ACCESS_ERR"});
  CHECK(nic::state_of(*qps.a) == QpState::err);
}

TEST_CASE(
    "atomics and immediate data exist on an iWARP device whose user says that peers have them") {
  const nic::DeviceProfile profile = nic::rnic_profile(nic::default_profile(), true);
  Streams streams(profile);
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  b.receive(*qps.b, 7, {4096, 64});
  a.post(*qps.a, a.host.fetch_add(1, 16, b.host, 8, 5));
  a.post(*qps.a, a.host.write_imm(2, {1024, 100}, b.host, 512, 0x1234));
  CHECK(a.try_post(*qps.a, a.host.send_imm(3, {0, 8}, 1)).error() == PostError::opcode_unsupported);
  streams.run(qps);
  CHECK(a.host.completions() == Lines{"1 fetch_add success", "2 write success"});
  CHECK(b.host.completions() == Lines{"7 recv_write_imm success +100 imm 4660"});
  CHECK(b.host.count(Counter::rx_atomic_requests) == 1);
  CHECK(std::ranges::equal(b.host.bytes(512, 100), a.host.bytes(1024, 100)));

  // Not every queue pair permits them.
  Streams others(profile);
  const Ends refused = others.connect({.access = Access::remote_read | Access::remote_write});
  others.a.post(*refused.a, others.a.host.fetch_add(1, 16, others.b.host, 8, 5));
  others.run(refused);
  CHECK(others.a.host.completions() == Lines{"1 fetch_add rem_access_err"});
  CHECK(others.b.host.events() == Lines{"QP_ACCESS_ERR"});
}

TEST_CASE("without them, nothing of them can be posted, and no queue pair permits atomics") {
  const nic::DeviceProfile profile = nic::rnic_profile(nic::default_profile());
  Streams streams(profile);
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  for (const Work& work :
       {a.host.fetch_add(1, 16, b.host, 8, 5), a.host.write_imm(2, {0, 100}, b.host, 512, 1)}) {
    CHECK(a.try_post(*qps.a, work).error() == PostError::opcode_unsupported);
  }
  CHECK_FALSE(allows(b.host.nic.query_qp(*qps.b).access_flags, Access::remote_atomic));
}

TEST_CASE("a SEND without a receive is an invalid request: a stream has nothing like an RNR NAK") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  a.post(*qps.a, a.host.send(1, {0, 8}));
  streams.run(qps);
  CHECK(b.host.events() == Lines{"QP_REQ_ERR"});
  CHECK(b.host.count(Counter::out_of_buffer) == 1);
}

TEST_CASE(
    "a request with bad memory of its own fails with its completion, the others are flushed") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  Work bad = a.host.send(2, {0, 8});
  bad.pieces[0].lkey = Lkey{to_value(bad.pieces[0].lkey) + 1};
  b.receive(*qps.b, 7, {0, 64});
  a.post(*qps.a, a.host.send(1, {0, 8}));
  a.post(*qps.a, bad);
  a.post(*qps.a, a.host.send(3, {0, 8}));
  streams.run(qps);
  CHECK(a.host.completions() ==
        Lines{"1 send success", "2 send loc_prot_err", "3 send wr_flush_err"});
  CHECK(a.host.events().empty());
  CHECK(b.host.events() == Lines{"QP_FATAL"});
}

TEST_CASE("a broken FPDU ends the connection with an event") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  a.post(*qps.a, a.host.write(1, {0, 100}, b.host, 0));
  REQUIRE(a.transmit());
  a.wires.of(*qps.a).sent[50] ^= std::byte{1};
  Streams::deliver(a, *qps.a, b, *qps.b);
  CHECK(b.host.count(Counter::rx_fpdu_err) == 1);
  CHECK(b.host.events() == Lines{"QP_FATAL"});
  streams.run(qps);
  CHECK(a.host.events() == Lines{"QP_FATAL"});
}

TEST_CASE("queue pairs of streams share a receive queue, and tell the last of it") {
  Streams streams;
  auto& [a, b] = streams;
  nic::Srq& srq = **b.host.nic.create_srq(*b.host.pd, {.wr_max = 8, .sge_max = 2, .limit = 2});
  const Ends first = streams.connect({.srq = &srq});
  const Ends second = streams.connect({.srq = &srq});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const Sge sge = b.host.sge({id * 4096, 4096});
    REQUIRE(b.host.nic.post_srq_recv(srq, {.wr_id = id, .sges = {&sge, 1}}));
  }
  // Half of a message, then a whole one of the other queue pair.
  a.post(*first.a, a.host.send(10, {0, 3000}));
  REQUIRE(a.transmit());
  auto& wire = a.wires.of(*first.a);
  b.host.nic.on_stream(Time{}, *first.b, ByteView(wire.sent).first(2000));
  wire.sent.erase(wire.sent.begin(), wire.sent.begin() + 2000);
  a.post(*second.a, a.host.send(11, {3000, 8}));
  streams.run(second);
  CHECK(b.host.completions() == Lines{"2 recv success +8"});
  CHECK(b.host.events() == Lines{"SRQ_LIMIT_REACHED"});
  Streams::deliver(a, *first.a, b, *first.b);
  CHECK(b.host.completions() == Lines{"1 recv success +3000"});
  CHECK(std::ranges::equal(b.host.bytes(4096, 3000), a.host.bytes(0, 3000)));
  // What waits belongs to the others.
  b.modify(*first.b, QpState::err);
  CHECK(b.host.completions().empty());
  CHECK(b.host.events() == Lines{"QP_LAST_WQE_REACHED"});
  a.post(*second.a, a.host.send(12, {0, 8}));
  streams.run(second);
  CHECK(b.host.completions() == Lines{"3 recv success +8"});
}

TEST_CASE("windows are bound and invalidated over a stream, by their owner and by the peer") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  nic::Mr& region = **b.host.nic.reg_mr(*b.host.pd, b.host.bytes().data(), 4096, Va{0x10'0000},
                                        all_access | Access::mw_bind);
  nic::Mw& window = **b.host.nic.alloc_mw(*b.host.pd, nic::MwType::type_2);
  Work bind;
  bind.wr_id = 1;
  bind.opcode = WrOpcode::bind_mw;
  bind.signaled = true;
  bind.binding = {.key = Rkey{(to_value(window.rkey) & 0xFFFF'FF00) | 0x55},
                  .region = region.lkey,
                  .addr = Va{0x10'0000},
                  .length = 64,
                  .access = Access::remote_write};
  // It goes without a peer, and a responder doesn't wait for one with it.
  b.post(*qps.b, bind);
  Work write = a.host.write(2, {0, 8}, b.host, 0);
  write.rkey = bind.binding.key;
  write.remote_addr = Va{0x10'0000};
  a.post(*qps.a, write);
  streams.run(qps);
  CHECK(a.host.completions() == Lines{"2 write success"});
  CHECK(b.host.completions() == Lines{"1 bind_mw success"});
  CHECK(std::ranges::equal(b.host.bytes(0, 8), a.host.bytes(0, 8)));

  Work invalidate = a.host.send(3, {0, 8});
  invalidate.opcode = WrOpcode::send_with_inv;
  invalidate.invalidate_rkey = bind.binding.key;
  b.receive(*qps.b, 7, {512, 64});
  a.post(*qps.a, invalidate);
  streams.run(qps);
  const auto received = b.host.poll();
  REQUIRE(received.size() == 1);
  CHECK(received[0].with_inv);
  CHECK(received[0].imm_or_rkey == to_value(bind.binding.key));
  // Once more can't be: nothing is bound.
  Work local;
  local.wr_id = 4;
  local.opcode = WrOpcode::local_inv;
  local.signaled = true;
  local.invalidate_rkey = bind.binding.key;
  b.post(*qps.b, local);
  streams.run(qps);
  CHECK(b.host.completions() == Lines{"4 local_inv loc_qp_op_err"});
}

TEST_CASE("a stream without room holds its queue pair back, and no other") {
  Streams streams;
  const Ends first = streams.connect();
  const Ends second = streams.connect();
  auto& [a, b] = streams;
  a.wires.of(*first.a).room = 100;
  a.post(*first.a, a.host.write(1, {0, 3000}, b.host, 0));
  a.post(*second.a, a.host.write(2, {0, 3000}, b.host, 4096));
  CHECK(a.host.nic.poll_streams(Time{}, a.wires, 1) == nic::TransmitStatus::more);
  CHECK(a.host.nic.poll_streams(Time{}, a.wires) == nic::TransmitStatus::blocked);
  CHECK(a.host.completions() == Lines{"2 write success"});
  a.wires.of(*first.a).room = 10'000;
  CHECK(a.host.nic.poll_streams(Time{}, a.wires) == nic::TransmitStatus::idle);
  CHECK(a.host.completions() == Lines{"1 write success"});
}

TEST_CASE("an overflowing CQ ends the streams that complete there") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  const std::uint32_t ids = a.host.cq->capacity() + 1;
  for (std::uint32_t id = 0; id < ids; ++id) {
    a.post(*qps.a, a.host.write(id, {0, 8}, b.host, 0));
    streams.run(qps);
  }
  CHECK(a.host.events() == Lines{"CQ_ERR", "QP_FATAL"});
  CHECK(nic::state_of(*qps.a) == QpState::err);
  streams.run(qps);
  CHECK(a.wires.of(*qps.a).closed == Close::abort);
}

TEST_CASE("the destruction of a queue pair leaves nothing behind") {
  Streams streams;
  const Ends qps = streams.connect();
  auto& [a, b] = streams;
  a.post(*qps.a, a.host.send(1, {0, 8}));
  REQUIRE(a.host.nic.destroy_qp(*qps.a));
  CHECK_FALSE(a.transmit());
  CHECK(a.host.completions().empty());
  CHECK(a.host.nic.object_counts().qps == 0);
}

}  // namespace verbena::test
