// What the Nic tells of its queue pairs: counters for each, and each change of state with its
// cause.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <array>
#include <string>

#include "tests/support/pair.h"

namespace verbena::test {

using nic::QpChange;
using nic::QpState;

namespace {

class ChangeLog final : public nic::NicObserver {
 public:
  void on_qp_change(const nic::Qp& qp, const QpChange& change) override {
    lines.push_back(fmt::format("{} to {}: {} {}", name_of(change.from), name_of(nic::state_of(qp)),
                                static_cast<int>(change.cause), name_of(change.status)));
  }
  Lines lines;
};

std::string line(const char* from_to, QpChange::Cause cause, WcStatus status) {
  return fmt::format("{}: {} {}", from_to, static_cast<int>(cause), name_of(status));
}

}  // namespace

TEST_CASE("a queue pair has its own share of the port's counters") {
  Pair pair;
  const Connection busy = pair.connect();
  const Connection quiet = pair.connect();
  pair.drop(Side::a, nth(1));
  pair.post(Side::a, *busy.a, pair.a.write(1, {0, 5000}, pair.b, 0));
  pair.post(Side::a, *quiet.a, pair.a.write(2, {0, 8}, pair.b, 0));
  pair.run_until_idle();

  for (const Counter counter :
       {Counter::sent_pkts, Counter::rcvd_pkts, Counter::tx_bytes, Counter::rx_bytes,
        Counter::packet_seq_err, Counter::retransmitted_pkts}) {
    CAPTURE(counter_names[static_cast<std::size_t>(counter)]);
    CHECK(nic::counters_of(*busy.a)[counter] + nic::counters_of(*quiet.a)[counter] ==
          pair.a.nic.counters()[counter]);
  }
  CHECK(nic::counters_of(*busy.a)[Counter::packet_seq_err] == 1);
  CHECK(nic::counters_of(*quiet.a)[Counter::packet_seq_err] == 0);
  CHECK(nic::counters_of(*quiet.a)[Counter::sent_pkts] == 1);
  // The first one after the gap is answered, the others are dropped in silence.
  CHECK(nic::counters_of(*busy.b)[Counter::rx_drop_out_of_sequence] ==
        pair.b.nic.counters()[Counter::rx_drop_out_of_sequence]);
  CHECK(nic::counters_of(*busy.b)[Counter::rx_drop_out_of_sequence] > 0);
}

TEST_CASE("a list of queue pairs is as long as there is room") {
  Pair pair;
  const Connection first = pair.connect();
  const Connection second = pair.connect();
  std::array<const nic::Qp*, 3> room{};
  CHECK(pair.a.nic.list_qps(std::span(room).first(1)) == 1);
  CHECK(room[0] == first.a);
  CHECK(pair.a.nic.list_qps(room) == 2);
  CHECK(room[1] == second.a);
}

TEST_CASE("an observer hears of each change of state and why it was") {
  Pair pair;
  ChangeLog log;
  pair.a.nic.set_observer(&log);
  const Connection qps = pair.connect();
  CHECK(log.lines == Lines{line("RESET to INIT", QpChange::Cause::command, WcStatus::success),
                           line("INIT to RTR", QpChange::Cause::command, WcStatus::success),
                           line("RTR to RTS", QpChange::Cause::command, WcStatus::success)});
  log.lines.clear();
  pair.drop(Side::a, any_packet(), Pair::always);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(log.lines ==
        Lines{line("RTS to ERR", QpChange::Cause::completion_error, WcStatus::retry_exc_err)});
}

TEST_CASE("an observer is told of a request that had no right") {
  Pair pair;
  ChangeLog log;
  pair.b.nic.set_observer(&log);
  const Connection qps = pair.connect();
  log.lines.clear();
  Work work = pair.a.write(1, {0, 8}, pair.b, 0);
  work.rkey = Rkey{to_value(work.rkey) + 1};
  pair.post(Side::a, *qps.a, work);
  pair.run_until_idle();
  CHECK(log.lines ==
        Lines{line("RTS to ERR", QpChange::Cause::access_violation, WcStatus::success)});
}

}  // namespace verbena::test
