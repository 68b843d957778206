// The Linux kernel's own messages, replayed into our state machine: it accepts them and answers
// field by field as the kernel did.

#include <catch2/catch.hpp>
#include <iterator>
#include <vector>

#include "proto/ib_bth/cm/agent.h"
#include "tests/unit/ib_bth_cm/cm_captures.h"

using namespace verbena;
using namespace verbena::ib::cm;

namespace {

template <class M>
M message_of(ByteView mad) {
  const auto envelope = parse(mad);
  REQUIRE(envelope);
  REQUIRE(std::holds_alternative<M>(envelope->message));
  return std::get<M>(envelope->message);
}

Route route_of(const test::CapturedMad& arrived) {
  return {.local = arrived.destination, .remote = arrived.source};
}

/// REQ, REP, RTU, DREQ, DREP, the active side's wish to disconnect.
const char* const captures[] = {"rxe_rping_v4.pcap",    "rxe_rping_v6.pcap", "rxe_cm_ok.pcap",
                                "rxe_cm_badwrite.pcap", "rxe_cm_imm.pcap",   "rxe_cm_inv.pcap",
                                "rxe_cm_norecv.pcap",   "rxe_cm_oob.pcap"};

}  // namespace

TEST_CASE("As the passive side we answer the kernel's REQ, RTU and DREQ as the kernel did") {
  for (const char* name : captures) {
    INFO(name);
    const auto mads = test::mads_of_capture(name);
    const Req req = message_of<Req>(mads.at(0).mad);
    const Rep theirs = message_of<Rep>(mads.at(1).mad);
    const Dreq dreq = message_of<Dreq>(mads.at(3).mad);
    REQUIRE(dreq.local_comm_id == req.local_comm_id);
    Agent agent({.ca_guid = theirs.local_ca_guid, .id_prefix = 3}, 1);
    agent.listen(1, req.service_id, std::nullopt);
    const Time now{};
    REQUIRE(agent.on_mad(now, route_of(mads[0]), mads[0].mad) == MadVerdict::accepted);
    const auto request = agent.poll_event();
    REQUIRE(request);
    REQUIRE(request->kind == Event::Kind::request);

    // What a consumer decides, as that consumer did.
    REQUIRE(agent.accept(now, request->id, theirs));
    const auto out = agent.poll_transmit();
    REQUIRE(out);
    Envelope expected = *parse(mads[1].mad);
    std::get<Rep>(expected.message).local_comm_id = request->id;
    CHECK(out->mad == emit(expected));
    CHECK(out->route.remote == mads[1].destination);

    // The RTU and the DREQ name the kernel's own ID; ours takes its place.
    const auto readdressed = [&](const test::CapturedMad& mad) {
      Envelope envelope = *parse(mad.mad);
      if (auto* rtu = std::get_if<Rtu>(&envelope.message)) {
        rtu->remote_comm_id = request->id;
      } else {
        std::get<Dreq>(envelope.message).remote_comm_id = request->id;
      }
      return emit(envelope);
    };
    REQUIRE(agent.on_mad(now, route_of(mads[2]), readdressed(mads[2])) == MadVerdict::accepted);
    CHECK(agent.poll_event()->kind == Event::Kind::established);
    REQUIRE(agent.on_mad(now, route_of(mads[3]), readdressed(mads[3])) == MadVerdict::accepted);
    CHECK(agent.poll_event()->kind == Event::Kind::disconnected);
    REQUIRE(agent.disconnect(now, request->id, {}));
    Envelope drep = *parse(mads.at(4).mad);
    std::get<Drep>(drep.message).local_comm_id = request->id;
    CHECK(agent.poll_transmit()->mad == emit(drep));
  }
}

TEST_CASE("As the active side we send the kernel's REQ and RTU, and understand its REP") {
  std::vector<const char*> all(std::begin(captures), std::end(captures));
  all.push_back("rxe_nvme_connect.pcap");
  for (const char* name : all) {
    INFO(name);
    const auto mads = test::mads_of_capture(name);
    const Req theirs = message_of<Req>(mads.at(0).mad);
    Agent agent({.ca_guid = theirs.local_ca_guid, .id_prefix = 3}, 1);
    const Time now{};
    const Route route{.local = mads[0].source, .remote = mads[0].destination};
    const CommId id = agent.connect(now, route, theirs, 1);
    Envelope ours = *parse(agent.poll_transmit()->mad);
    CHECK(std::get<Req>(ours.message).local_comm_id == id);
    // But for the identifiers, which are each side's own, it is the kernel's.
    std::get<Req>(ours.message).local_comm_id = theirs.local_comm_id;
    ours.transaction_id = parse(mads[0].mad)->transaction_id;
    CHECK(emit(ours) == emit(*parse(mads[0].mad)));

    Envelope rep = *parse(mads[1].mad);
    std::get<Rep>(rep.message).remote_comm_id = id;
    REQUIRE(agent.on_mad(now, route, emit(rep)) == MadVerdict::accepted);
    const auto reply = agent.poll_event();
    REQUIRE(reply);
    CHECK(reply->kind == Event::Kind::reply);
    REQUIRE(agent.ready(now, id, {}));
    Envelope rtu = *parse(agent.poll_transmit()->mad);
    const Rtu kernel_rtu = message_of<Rtu>(mads.at(2).mad);
    CHECK(std::get<Rtu>(rtu.message).remote_comm_id == kernel_rtu.remote_comm_id);
    CHECK(std::get<Rtu>(rtu.message).private_data == kernel_rtu.private_data);
  }
}

TEST_CASE("As the passive side we reject as the kernel did") {
  const auto mads = test::mads_of_capture("rxe_cm_reject.pcap");
  const Req req = message_of<Req>(mads.at(0).mad);
  const Rej theirs = message_of<Rej>(mads.at(1).mad);
  Agent agent({.ca_guid = 1, .id_prefix = 3}, 1);
  agent.listen(1, req.service_id, std::nullopt);
  const Time now{};
  REQUIRE(agent.on_mad(now, route_of(mads[0]), mads[0].mad) == MadVerdict::accepted);
  const CommId id = agent.poll_event()->id;
  REQUIRE(agent.reject(now, id, theirs.reason, {}, theirs.private_data));
  Envelope expected = *parse(mads[1].mad);
  std::get<Rej>(expected.message).local_comm_id = id;
  CHECK(agent.poll_transmit()->mad == emit(expected));
}

TEST_CASE("The kernel's rejection is understood") {
  const auto mads = test::mads_of_capture("rxe_cm_reject.pcap");
  Agent agent({.ca_guid = 1, .id_prefix = 3}, 1);
  const Time now{};
  const Route route{.local = mads.at(0).source, .remote = mads[0].destination};
  const CommId id = agent.connect(now, route, message_of<Req>(mads[0].mad), 1);
  Envelope rej = *parse(mads.at(1).mad);
  std::get<Rej>(rej.message).remote_comm_id = id;
  REQUIRE(agent.on_mad(now, route, emit(rej)) == MadVerdict::accepted);
  CHECK(agent.poll_event()->kind == Event::Kind::rejected);
}
