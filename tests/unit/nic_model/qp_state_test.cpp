// The state machine of queue pairs: every transition of every type against a second listing of IBTA
// vol 1, table 91 (as Linux's ib_modify_qp_is_ok() words it), and what each state takes.
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>

#include "nic_model/qp_state_table.h"
#include "tests/support/pair.h"

namespace verbena::test {

using nic::QpState;
using nic::QpType;
namespace m = nic::qp_attr_mask;

namespace {

constexpr QpType types[] = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_initiator,
                            QpType::xrc_target};
constexpr QpState states[] = {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                              QpState::sqd,   QpState::sqe,  QpState::err};

/// Words of the listing to mask bits.
const std::map<std::string, std::uint32_t> bits = {
    {"cur", m::cur_state},
    {"notify", m::en_sqd_async_notify},
    {"access", m::access_flags},
    {"pkey", m::pkey_index},
    {"port", m::port},
    {"qkey", m::qkey},
    {"av", m::av},
    {"mtu", m::path_mtu},
    {"timeout", m::timeout},
    {"retry", m::retry_cnt},
    {"rnr_retry", m::rnr_retry},
    {"rq_psn", m::rq_psn},
    {"rd", m::max_qp_rd_atomic},
    {"alt", m::alt_path},
    {"rnr_timer", m::min_rnr_timer},
    {"sq_psn", m::sq_psn},
    {"dest_rd", m::max_dest_rd_atomic},
    {"mig", m::path_mig_state},
    {"dest", m::dest_qpn},
};

std::uint32_t mask_of(const std::string& words) {
  std::istringstream in(words);
  std::uint32_t mask = 0;
  for (std::string word; in >> word;) {
    mask |= bits.at(word);
  }
  return mask;
}

struct Listed {
  const char* types;
  QpState from;
  QpState to;
  const char* required;
  const char* optional;
};

constexpr Listed listing[] = {
    {"rc uc ini tgt", QpState::reset, QpState::init, "pkey port access", ""},
    {"ud", QpState::reset, QpState::init, "pkey port qkey", ""},
    {"rc uc ini tgt", QpState::init, QpState::init, "", "pkey port access"},
    {"ud", QpState::init, QpState::init, "", "pkey port qkey"},
    {"rc tgt", QpState::init, QpState::rtr, "av mtu dest rq_psn dest_rd rnr_timer",
     "alt access pkey"},
    {"uc ini", QpState::init, QpState::rtr, "av mtu dest rq_psn", "alt access pkey"},
    {"ud", QpState::init, QpState::rtr, "", "pkey qkey"},
    {"rc", QpState::rtr, QpState::rts, "timeout retry rnr_retry sq_psn rd",
     "cur alt access rnr_timer mig"},
    {"ini", QpState::rtr, QpState::rts, "timeout retry rnr_retry sq_psn rd", "cur alt access mig"},
    {"tgt", QpState::rtr, QpState::rts, "timeout sq_psn", "cur alt access rnr_timer mig"},
    {"uc", QpState::rtr, QpState::rts, "sq_psn", "cur alt access mig"},
    {"ud", QpState::rtr, QpState::rts, "sq_psn", "cur qkey"},
    {"rc tgt", QpState::rts, QpState::rts, "", "cur access alt mig rnr_timer"},
    {"uc ini", QpState::rts, QpState::rts, "", "cur access alt mig"},
    {"ud", QpState::rts, QpState::rts, "", "cur qkey"},
    {"rc uc ud ini tgt", QpState::rts, QpState::sqd, "", "notify"},
    {"rc tgt", QpState::sqd, QpState::rts, "", "cur alt access rnr_timer mig"},
    {"uc ini", QpState::sqd, QpState::rts, "", "cur alt access mig"},
    {"ud", QpState::sqd, QpState::rts, "", "cur qkey"},
    {"rc", QpState::sqd, QpState::sqd, "",
     "port av timeout retry rnr_retry rd dest_rd alt access pkey rnr_timer mig"},
    {"ini", QpState::sqd, QpState::sqd, "",
     "port av timeout retry rnr_retry rd alt access pkey mig"},
    {"tgt", QpState::sqd, QpState::sqd, "",
     "port av timeout dest_rd alt access pkey rnr_timer mig"},
    {"uc", QpState::sqd, QpState::sqd, "", "av alt access pkey mig"},
    {"ud", QpState::sqd, QpState::sqd, "", "pkey qkey"},
    {"uc", QpState::sqe, QpState::rts, "", "cur access"},
    {"ud", QpState::sqe, QpState::rts, "", "cur qkey"},
};

const char* name_of(QpType type) {
  switch (type) {
    case QpType::rc:
      return "rc";
    case QpType::uc:
      return "uc";
    case QpType::xrc_initiator:
      return "ini";
    case QpType::xrc_target:
      return "tgt";
    case QpType::ud:
    case QpType::gsi:
      break;
  }
  return "ud";
}

std::optional<nic::TransitionRule> listed_rule(QpType type, QpState from, QpState to) {
  // Any state may go to RESET and to ERR, with nothing.
  if (to == QpState::reset || to == QpState::err) {
    return nic::TransitionRule{};
  }
  for (const Listed& row : listing) {
    if (row.from == from && row.to == to &&
        std::string(row.types).find(name_of(type)) != std::string::npos) {
      return nic::TransitionRule{mask_of(row.required), mask_of(row.optional)};
    }
  }
  return std::nullopt;
}

/// Attributes that are all in range, with an address vector to `peer`.
nic::QpAttr attributes_to(const Host& peer) {
  nic::QpAttr attr;
  attr.access_flags = Access::remote_write;
  attr.av = {.dgid = peer.gid(), .has_grh = true};
  attr.path_mtu = nic::Mtu::mtu_512;
  attr.timeout = 9;
  attr.retry_cnt = 6;
  attr.rnr_retry = 5;
  attr.rq_psn = Psn(77);
  attr.sq_psn = Psn(88);
  attr.max_rd_atomic = 3;
  attr.max_dest_rd_atomic = 2;
  attr.min_rnr_timer = 4;
  attr.dest_qpn = Qpn{0x99};
  return attr;
}

/// An RC queue pair of pair.a in that state, by the shortest way; nullptr for SQE, which RC lacks.
nic::Qp* qp_in(Pair& pair, QpState state) {
  if (state == QpState::sqe) {
    return nullptr;
  }
  nic::Qp& qp = create_qp(pair.a, {});
  const EndOptions end;
  if (state == QpState::reset) {
    return &qp;
  }
  to_init(pair.a, pair.now(), qp, end);
  if (state == QpState::init) {
    return &qp;
  }
  if (state == QpState::err) {
    to_state(pair.a, pair.now(), qp, QpState::err);
    return &qp;
  }
  to_rtr(pair.a, pair.now(), qp, end, pair.b.gid(), Qpn{0x99}, Psn(1));
  if (state == QpState::rtr) {
    return &qp;
  }
  to_rts(pair.a, pair.now(), qp, end);
  if (state == QpState::sqd) {
    to_state(pair.a, pair.now(), qp, QpState::sqd);
  }
  return &qp;
}

/// What a queue pair is, apart from the state that it asks for: to see that nothing changed.
auto snapshot(const Host& host, const nic::Qp& qp) {
  const nic::QpAttr a = host.nic.query_qp(qp);
  return std::tuple(a.state, a.access_flags, a.path_mtu, a.timeout, a.retry_cnt, a.rnr_retry,
                    a.rq_psn, a.sq_psn, a.max_rd_atomic, a.max_dest_rd_atomic, a.min_rnr_timer,
                    to_value(a.dest_qpn), a.av.dgid);
}

}  // namespace

TEST_CASE("the table of transitions is that of the specification") {
  for (const QpType type : types) {
    for (const QpState from : states) {
      for (const QpState to : states) {
        INFO(name_of(type) << " " << nic::name_of(from) << " to " << nic::name_of(to));
        const auto rule = nic::transition_rule(type, from, to);
        const auto listed = listed_rule(type, from, to);
        REQUIRE(rule.has_value() == listed.has_value());
        if (rule) {
          CHECK(rule->required == listed->required);
          CHECK(rule->optional == listed->optional);
        }
      }
    }
  }
}

TEST_CASE("what brings a queue pair up is what each transition requires") {
  for (const QpType type : types) {
    QpState from = QpState::reset;
    for (const QpState to : nic::bring_up_states) {
      INFO(name_of(type) << " to " << nic::name_of(to));
      CHECK(nic::bring_up_mask(type, to) == (m::state | listed_rule(type, from, to)->required));
      from = to;
    }
    CHECK(from == QpState::rts);
  }
}

TEST_CASE("a transition needs all of its attributes and permits no others") {
  constexpr std::uint32_t all_bits = (1U << 21) - 1;
  for (const QpState from : states) {
    for (const QpState to : states) {
      const auto rule = listed_rule(QpType::rc, from, to);
      for (std::uint32_t bit = 2; bit <= all_bits; bit <<= 1) {
        Pair pair;
        nic::Qp* const qp = qp_in(pair, from);
        if (qp == nullptr) {
          continue;
        }
        nic::QpAttr attr = attributes_to(pair.b);
        attr.state = to;
        attr.cur_state = from;
        attr.alt_av = attr.av;
        attr.alt_port = 1;
        const auto before = snapshot(pair.a, *qp);
        const std::uint32_t required = rule ? rule->required : 0;
        // One attribute more, or one of the required ones less.
        const std::uint32_t mask = m::state | (required ^ bit);
        const bool permitted = rule && (rule->optional & bit) != 0;
        INFO(nic::name_of(from) << " to " << nic::name_of(to) << ", bit " << bit);
        const auto result = pair.a.nic.modify_qp(pair.now(), *qp, attr, mask);
        REQUIRE(result.has_value() == permitted);
        if (!result) {
          CHECK(result.error() == nic::NicError::invalid_argument);
          CHECK(snapshot(pair.a, *qp) == before);
        }
      }
    }
  }
}

TEST_CASE("a transition with its required attributes happens, one that doesn't exist is refused") {
  for (const QpState from : states) {
    for (const QpState to : states) {
      Pair pair;
      nic::Qp* const qp = qp_in(pair, from);
      if (qp == nullptr) {
        continue;
      }
      const auto rule = listed_rule(QpType::rc, from, to);
      nic::QpAttr attr = attributes_to(pair.b);
      attr.state = to;
      INFO(nic::name_of(from) << " to " << nic::name_of(to));
      const auto result =
          pair.a.nic.modify_qp(pair.now(), *qp, attr, m::state | (rule ? rule->required : 0));
      CHECK(result.has_value() == rule.has_value());
      CHECK(nic::state_of(*qp) == (rule ? to : from));
    }
  }
}

TEST_CASE("attributes out of range are refused and change nothing") {
  struct Case {
    const char* what;
    QpState from;
    QpState to;
    void (*spoil)(nic::QpAttr&);
  };
  const Case cases[] = {
      {"port", QpState::reset, QpState::init, [](nic::QpAttr& a) { a.port = 2; }},
      {"P_Key index", QpState::reset, QpState::init, [](nic::QpAttr& a) { a.pkey_index = 1; }},
      {"MTU 0", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.path_mtu = nic::Mtu{0}; }},
      {"MTU 6", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.path_mtu = nic::Mtu{6}; }},
      {"QPN", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.dest_qpn = Qpn{1U << 24}; }},
      {"RNR timer", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.min_rnr_timer = 32; }},
      {"dest_rd", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.max_dest_rd_atomic = 129; }},
      {"no GRH", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.av.has_grh = false; }},
      {"GID index", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.av.sgid_index = 4; }},
      {"GID type", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.av.dgid = {}; }},
      {"AV port", QpState::init, QpState::rtr, [](nic::QpAttr& a) { a.av.port = 2; }},
      {"timeout", QpState::rtr, QpState::rts, [](nic::QpAttr& a) { a.timeout = 32; }},
      {"retry_cnt", QpState::rtr, QpState::rts, [](nic::QpAttr& a) { a.retry_cnt = 8; }},
      {"rnr_retry", QpState::rtr, QpState::rts, [](nic::QpAttr& a) { a.rnr_retry = 8; }},
      {"rd_atomic", QpState::rtr, QpState::rts, [](nic::QpAttr& a) { a.max_rd_atomic = 129; }},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    Pair pair;
    nic::Qp* const qp = qp_in(pair, c.from);
    nic::QpAttr attr = attributes_to(pair.b);
    attr.state = c.to;
    const std::uint32_t mask =
        m::state | nic::transition_rule(QpType::rc, c.from, c.to).value().required;
    const auto before = snapshot(pair.a, *qp);
    nic::QpAttr spoilt = attr;
    c.spoil(spoilt);
    const auto refused = pair.a.nic.modify_qp(pair.now(), *qp, spoilt, mask);
    REQUIRE_FALSE(refused);
    CHECK(refused.error() == nic::NicError::invalid_argument);
    CHECK(snapshot(pair.a, *qp) == before);
    CHECK(pair.a.nic.modify_qp(pair.now(), *qp, attr, mask));
  }
}

TEST_CASE("a path MTU above the port's is refused") {
  Pair pair({.a = {.mtu_max = nic::Mtu::mtu_1024}});
  nic::Qp* const qp = qp_in(pair, QpState::init);
  nic::QpAttr attr = attributes_to(pair.b);
  attr.state = QpState::rtr;
  const std::uint32_t mask =
      m::state | nic::transition_rule(QpType::rc, QpState::init, QpState::rtr).value().required;
  attr.path_mtu = nic::Mtu::mtu_2048;
  CHECK_FALSE(pair.a.nic.modify_qp(pair.now(), *qp, attr, mask));
  attr.path_mtu = nic::Mtu::mtu_1024;
  CHECK(pair.a.nic.modify_qp(pair.now(), *qp, attr, mask));
}

TEST_CASE("a wrong current state is refused") {
  Pair pair;
  nic::Qp* const qp = qp_in(pair, QpState::rts);
  nic::QpAttr attr;
  attr.state = QpState::rts;
  attr.cur_state = QpState::sqd;
  CHECK_FALSE(pair.a.nic.modify_qp(pair.now(), *qp, attr, m::state | m::cur_state));
  attr.cur_state = QpState::rts;
  CHECK(pair.a.nic.modify_qp(pair.now(), *qp, attr, m::state | m::cur_state));
}

TEST_CASE("a query tells what the transitions set") {
  Pair pair;
  nic::Qp* const qp = qp_in(pair, QpState::init);
  nic::QpAttr attr = attributes_to(pair.b);
  for (const QpState to : {QpState::rtr, QpState::rts}) {
    const QpState from = nic::state_of(*qp);
    attr.state = to;
    REQUIRE(pair.a.nic.modify_qp(
        pair.now(), *qp, attr,
        m::state | nic::transition_rule(QpType::rc, from, to).value().required));
  }
  const nic::QpAttr told = pair.a.nic.query_qp(*qp);
  CHECK(told.state == QpState::rts);
  CHECK(told.cur_state == QpState::rts);
  CHECK(told.av.dgid == pair.b.gid());
  CHECK(told.path_mtu == nic::Mtu::mtu_512);
  CHECK(told.timeout == 9);
  CHECK(told.retry_cnt == 6);
  CHECK(told.rnr_retry == 5);
  CHECK(told.rq_psn == Psn(77));
  CHECK(told.sq_psn == Psn(88));
  CHECK(told.max_rd_atomic == 3);
  CHECK(told.max_dest_rd_atomic == 2);
  CHECK(told.min_rnr_timer == 4);
  CHECK(told.dest_qpn == Qpn{0x99});
}

TEST_CASE("each state takes the posts that the specification allows in it") {
  // IBTA vol 1, 10.3.1: receives from INIT on, sends from RTS on; in ERR both are flushed.
  for (const QpState state : states) {
    Pair pair;
    nic::Qp* const qp = qp_in(pair, state);
    if (qp == nullptr) {
      continue;
    }
    INFO(nic::name_of(state));
    const bool takes_sends =
        state == QpState::rts || state == QpState::sqd || state == QpState::err;
    const auto sent = pair.try_post(Side::a, *qp, pair.a.send(1, {0, 8}));
    CHECK(sent.has_value() == takes_sends);
    if (!sent) {
      CHECK(sent.error() == PostError::wrong_state);
    }
    const auto received = pair.a.nic.post_recv(pair.now(), *qp, {.wr_id = 2, .sges = {}});
    CHECK(received.has_value() == (state != QpState::reset));
    CHECK(pair.a.completions() ==
          (state == QpState::err ? Lines{"1 send wr_flush_err", "2 recv wr_flush_err"} : Lines{}));
  }
}

TEST_CASE("each state takes the packets that the specification allows in it") {
  for (const QpState state : states) {
    Pair pair;
    nic::Qp* const qp = qp_in(pair, state);
    if (qp == nullptr) {
      continue;
    }
    INFO(nic::name_of(state));
    // The other end, whose packets are right but for the state that they meet.
    nic::Qp& peer = create_qp(pair.b, {});
    const EndOptions end{.sq_psn = Psn(1)};
    to_init(pair.b, pair.now(), peer, end);
    to_rtr(pair.b, pair.now(), peer, end, pair.a.gid(), nic::qpn_of(*qp), Psn(100));
    to_rts(pair.b, pair.now(), peer, end);
    pair.post(Side::b, peer, pair.b.write(1, {0, 8}, pair.a, 0));
    pair.settle();
    const bool executed = state == QpState::rtr || state == QpState::rts || state == QpState::sqd;
    CHECK(pair.a.count(Counter::rx_write_requests) == (executed ? 1 : 0));
    CHECK(pair.a.count(Counter::rx_drop_qp_state) == (executed ? 0 : 1));
  }
}

TEST_CASE("communication established is told once, by the first request in RTR") {
  Pair pair;
  nic::Qp& qp = create_qp(pair.a, {});
  nic::Qp& peer = create_qp(pair.b, {});
  const EndOptions end;
  to_init(pair.a, pair.now(), qp, end);
  to_rtr(pair.a, pair.now(), qp, end, pair.b.gid(), nic::qpn_of(peer), end.sq_psn);
  to_init(pair.b, pair.now(), peer, end);
  to_rtr(pair.b, pair.now(), peer, end, pair.a.gid(), nic::qpn_of(qp), end.sq_psn);
  to_rts(pair.b, pair.now(), peer, end);
  pair.post(Side::b, peer, pair.b.write(1, {0, 8}, pair.a, 0));
  pair.post(Side::b, peer, pair.b.write(2, {0, 8}, pair.a, 0));
  pair.run_until_idle();
  CHECK(pair.a.events() == Lines{"COMM_EST"});
  CHECK(pair.b.completions() == Lines{"1 write success", "2 write success"});
}

TEST_CASE("going to ERR flushes both queues, going to RESET forgets them") {
  for (const QpState to : {QpState::err, QpState::reset}) {
    INFO(nic::name_of(to));
    Pair pair;
    const Connection qps = pair.connect();
    pair.post_recv(Side::a, *qps.a, 7, {});
    pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
    pair.post(Side::a, *qps.a, pair.a.read(2, {0, 8}, pair.b, 0));
    to_state(pair.a, pair.now(), *qps.a, to);
    pair.run_until_idle();
    CHECK(pair.log().empty());
    CHECK(pair.a.completions() ==
          (to == QpState::err
               ? Lines{"1 send wr_flush_err", "2 read wr_flush_err", "7 recv wr_flush_err"}
               : Lines{}));
    CHECK(pair.a.nic.next_timeout() == time_never);
  }
}

TEST_CASE("a queue pair that was reset is as new") {
  Pair pair;
  Connection qps = pair.connect({.sq_psn = Psn(100)});
  store_u64(pair.b.bytes(), 0, 0);
  pair.drop(Side::b, any_packet(), 2);
  pair.post(Side::a, *qps.a, pair.a.fetch_add(1, 8, pair.b, 0, 1));
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 5000}, pair.b, 64));
  pair.settle();
  for (const Side side : {Side::a, Side::b}) {
    nic::Qp& qp = side == Side::a ? *qps.a : *qps.b;
    to_state(pair.host(side), pair.now(), qp, QpState::reset);
    const nic::QpAttr attr = pair.host(side).nic.query_qp(qp);
    CHECK(attr.state == QpState::reset);
    CHECK(to_value(attr.dest_qpn) == 0);
  }
  const EndOptions a{.sq_psn = Psn(9000)};
  const EndOptions b{.sq_psn = Psn(3)};
  to_init(pair.a, pair.now(), *qps.a, a);
  to_init(pair.b, pair.now(), *qps.b, b);
  to_rtr(pair.a, pair.now(), *qps.a, a, pair.b.gid(), nic::qpn_of(*qps.b), b.sq_psn);
  to_rtr(pair.b, pair.now(), *qps.b, b, pair.a.gid(), nic::qpn_of(*qps.a), a.sq_psn);
  to_rts(pair.a, pair.now(), *qps.a, a);
  to_rts(pair.b, pair.now(), *qps.b, b);
  pair.clear_log();
  pair.post(Side::a, *qps.a, pair.a.fetch_add(3, 8, pair.b, 0, 1));
  pair.post(Side::a, *qps.a, pair.a.write(4, {0, 8}, pair.b, 64));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> fetch_add 9000", "> write_only 9001 +8 A",
                             "< atomic_acknowledge 9000 ack msn 1",
                             "< acknowledge 9001 ack msn 2"});
  CHECK(pair.a.completions() == Lines{"3 fetch_add success", "4 write success"});
}

TEST_CASE("access flags may change in RTS and count from then on") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  nic::QpAttr attr;
  attr.access_flags = Access::remote_read;
  REQUIRE(pair.b.nic.modify_qp(pair.now(), *qps.b, attr, m::access_flags));
  pair.post(Side::a, *qps.a, pair.a.read(2, {0, 8}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write(3, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{"1 write success", "2 read success", "3 write rem_inv_req_err"});
}

}  // namespace verbena::test
