// The injector: each match and action of a rule, and that all chance comes from the seed.
#include "faults/injector.h"

#include <catch2/catch.hpp>
#include <vector>

#include "faults/parse.h"
#include "proto/ib_bth/emit.h"
#include "proto/inet/tcp/frame.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/segment.h"
#include "proto/roce/decap.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

using namespace verbena;
using namespace verbena::faults;

namespace {

constexpr Time start{Duration(1'000)};

std::vector<std::byte> frame_of(ib::Opcode opcode, std::uint32_t psn, std::uint32_t qpn = 0x11,
                                const char* source = "10.0.0.1",
                                const char* destination = "10.0.0.2") {
  ib::PacketFields fields;
  fields.opcode = opcode;
  fields.psn = Psn(psn);
  fields.dest_qpn = Qpn{qpn};
  roce::Path path;
  path.source = *roce::gid_from_text(source);
  path.destination = *roce::gid_from_text(destination);
  const roce::Encapsulation encapsulation(path);
  const std::size_t bytes = ib::transport_size(opcode, 0);
  std::vector<std::byte> frame(encapsulation.frame_bytes(bytes));
  encapsulation.write_prefix(frame, bytes);
  ib::emit_packet(MutableBytes(frame).subspan(encapsulation.prefix_bytes()), fields, {});
  encapsulation.finish(frame, bytes);
  return frame;
}

const std::vector<std::byte> write_frame = frame_of(ib::Opcode::rc_write_only, 7);

FaultInjector injector_of(std::initializer_list<const char*> texts, std::uint64_t seed = 1) {
  RuleSet rules;
  for (const char* text : texts) {
    auto rule = parse_rule(text);
    REQUIRE(rule);
    rules.push_back(*rule);
  }
  return FaultInjector(std::move(rules), seed, start);
}

ActionKind ask(FaultInjector& injector, ByteView frame, Time now = start,
               Direction direction = Direction::out) {
  return injector.decide(now, direction, frame).kind;
}

}  // namespace

TEST_CASE("without rules every frame passes, whatever it is") {
  FaultInjector injector = injector_of({});
  CHECK(ask(injector, write_frame) == ActionKind::pass);
  CHECK(ask(injector, {}) == ActionKind::pass);
}

TEST_CASE("a rule matches by opcode, QP, address and direction") {
  const auto other = frame_of(ib::Opcode::rc_send_only, 7, 0x12, "10.0.0.3", "10.0.0.4");
  for (const char* text : {"drop opcode=rc_write_only", "drop qp=0x11", "drop from=10.0.0.1",
                           "drop to=10.0.0.2", "drop psn=7..8"}) {
    CAPTURE(text);
    FaultInjector injector = injector_of({text});
    CHECK(ask(injector, write_frame) == ActionKind::drop);
  }
  FaultInjector injector = injector_of({"drop from=10.0.0.1 qp=0x11 opcode=WRITE_ONLY"});
  CHECK(ask(injector, other) == ActionKind::pass);
  FaultInjector inbound = injector_of({"drop direction=in"});
  CHECK(ask(inbound, write_frame) == ActionKind::pass);
  CHECK(ask(inbound, write_frame, start, Direction::in) == ActionKind::drop);
}

TEST_CASE("a frame that isn't RoCE matches only rules that ask nothing of it") {
  const std::vector<std::byte> arp(60);
  FaultInjector strict = injector_of({"drop qp=0x11", "drop from=10.0.0.1", "drop psn=0"});
  CHECK(ask(strict, arp) == ActionKind::pass);
  FaultInjector loose = injector_of({"drop"});
  CHECK(ask(loose, arp) == ActionKind::drop);
}

TEST_CASE("a relative PSN counts from the first one of the frame's flow") {
  FaultInjector injector = injector_of({"drop psn=+1"});
  CHECK(ask(injector, frame_of(ib::Opcode::rc_write_only, 0xFF'FFFF)) == ActionKind::pass);
  // Another QP is another flow, and so are responses.
  CHECK(ask(injector, frame_of(ib::Opcode::rc_write_only, 0, 0x12)) == ActionKind::pass);
  CHECK(ask(injector, frame_of(ib::Opcode::rc_acknowledge, 0)) == ActionKind::pass);
  CHECK(ask(injector, frame_of(ib::Opcode::rc_write_only, 0)) == ActionKind::drop);
}

TEST_CASE("skip, every and count choose among the frames that fit") {
  FaultInjector injector = injector_of({"drop skip=1 every=2 count=2"});
  std::vector<int> dropped;
  for (int i = 0; i < 10; ++i) {
    if (ask(injector, write_frame) == ActionKind::drop) {
      dropped.push_back(i);
    }
  }
  CHECK(dropped == std::vector{1, 3});
  CHECK(injector.counters()[0].matched == 10);
  CHECK(injector.counters()[0].taken == 2);
}

TEST_CASE("a rule holds from `after` until `until`") {
  FaultInjector injector = injector_of({"drop after=10us until=20us"});
  CHECK(ask(injector, write_frame, start + Duration(9'999)) == ActionKind::pass);
  CHECK(ask(injector, write_frame, start + Duration(10'000)) == ActionKind::drop);
  CHECK(ask(injector, write_frame, start + Duration(20'000)) == ActionKind::pass);
}

TEST_CASE("the first rule that takes a frame decides") {
  FaultInjector injector = injector_of({"pass opcode=WRITE_ONLY count=1", "drop", "mark"});
  CHECK(ask(injector, write_frame) == ActionKind::pass);
  CHECK(ask(injector, write_frame) == ActionKind::drop);
  CHECK(injector.counters()[2].matched == 0);
}

TEST_CASE("chance comes from the seed alone and hits about as often as asked") {
  const auto losses = [](std::uint64_t seed, std::initializer_list<const char*> rules) {
    FaultInjector injector = injector_of(rules, seed);
    std::vector<int> lost;
    for (int i = 0; i < 10'000; ++i) {
      if (ask(injector, write_frame) == ActionKind::drop) {
        lost.push_back(i);
      }
    }
    return lost;
  };
  const auto once = losses(5, {"drop chance=1%"});
  CHECK(once == losses(5, {"drop chance=1%"}));
  CHECK(once != losses(6, {"drop chance=1%"}));
  CHECK(once.size() > 60);
  CHECK(once.size() < 140);
  // A rule behind draws from a generator of its own.
  CHECK(once == losses(5, {"drop chance=1%", "delay by=1us chance=50%"}));
}

TEST_CASE("a delay lies between its time and its time with jitter") {
  FaultInjector injector = injector_of({"delay by=10us jitter=5us"});
  for (int i = 0; i < 100; ++i) {
    const Duration delay = injector.decide(start, Direction::out, write_frame).delay;
    CHECK(delay >= Duration(10'000));
    CHECK(delay <= Duration(15'000));
  }
}

TEST_CASE("corruption changes one byte behind the network headers and spoils the ICRC") {
  FaultInjector injector = injector_of({"corrupt"});
  for (int i = 0; i < 100; ++i) {
    const Decision decision = injector.decide(start, Direction::out, write_frame);
    auto damaged = write_frame;
    alter(decision, damaged);
    CHECK(decision.byte >= 42);
    CHECK(decision.byte < write_frame.size());
    CHECK(damaged != write_frame);
    const auto parsed = roce::parse_frame(damaged);
    REQUIRE(parsed);
    // BTH byte 4 is the one that the ICRC doesn't cover; a pad to 60 bytes doesn't occur here.
    CHECK((parsed->icrc_is_good() == (decision.byte == 42 + 4)));
  }
}

TEST_CASE("corruption with icrc=fix reaches the transport") {
  FaultInjector injector = injector_of({"corrupt byte=43 mask=0x40 icrc=fix"});
  auto damaged = write_frame;
  alter(injector.decide(start, Direction::out, write_frame), damaged);
  CHECK(damaged != write_frame);
  CHECK(roce::parse_frame(damaged)->icrc_is_good());
}

TEST_CASE("a mark sets congestion experienced and leaves the ICRC and the header checksum good") {
  FaultInjector injector = injector_of({"mark"});
  auto marked = write_frame;
  alter(injector.decide(start, Direction::out, write_frame), marked);
  const auto parsed = roce::parse_frame(marked);
  REQUIRE(parsed);
  CHECK(parsed->ecn() == 3);
  CHECK(parsed->icrc_is_good());
}

TEST_CASE("a decision is told in words with the rule's number and text") {
  FaultInjector injector = injector_of({"drop qp=1", "drop opcode=WRITE_ONLY count=1"});
  CHECK(injector.describe(injector.decide(start, Direction::out, write_frame)) ==
        "dropped by rule 2 (drop opcode=WRITE_ONLY count=1)");
  CHECK(injector.describe(injector.decide(start, Direction::out, write_frame)).empty());
}

namespace {

/// A segment of iWARP whose payload is one FPDU: a WRITE.
std::vector<std::byte> segment_of(bool is_last) {
  const iwarp::FpduWriter format({});
  const std::size_t ulpdu_bytes = iwarp::tagged_header_bytes + 100;
  const std::size_t header_bytes = inet::tcp_frame_prefix_bytes + inet::tcp_header_bytes;
  std::vector<std::byte> frame(header_bytes + format.size_of(ulpdu_bytes));
  inet::TcpHeader tcp;
  tcp.data_offset = inet::tcp_header_bytes / 4 << 4;
  write_struct(MutableBytes(frame).subspan(inet::tcp_frame_prefix_bytes), tcp);
  const MutableBytes fpdu = MutableBytes(frame).subspan(header_bytes);
  iwarp::FpduWriter writer({});
  iwarp::TaggedHeader header;
  header.control = iwarp::make_control(iwarp::RdmapOpcode::write, is_last);
  write_struct(writer.ulpdu_room(fpdu, ulpdu_bytes), header);
  writer.finish(fpdu, ulpdu_bytes);
  inet::finish_tcp_frame(frame, {.source_mac = {},
                                 .destination_mac = {},
                                 .source = inet::mapped({{10, 0, 0, 1}}),
                                 .destination = inet::mapped({{10, 0, 0, 2}})});
  return frame;
}

}  // namespace

TEST_CASE("segments of iWARP match by the names of their FPDUs and by address") {
  const auto middle = segment_of(false);
  const auto last = segment_of(true);
  struct Row {
    const char* rule;
    bool takes_middle;
    bool takes_last;
  };
  const Row rows[] = {
      {"drop", true, true},
      {"drop opcode=WRITE", true, false},
      {"drop opcode=WRITE_LAST", false, true},
      {"drop opcode=WRITE*", true, true},
      {"drop opcode=WRITE_FIRST,WRITE_MIDDLE,WRITE", true, false},
      {"drop opcode=SEND*", false, false},
      {"drop opcode=WRITE* qp=0x11", false, false},
      {"drop psn=0", false, false},
      {"drop from=10.0.0.1", true, true},
      {"drop from=10.0.0.2", false, false},
      {"drop to=10.0.0.2 opcode=WRITE_LAST", false, true},
  };
  for (const Row& row : rows) {
    INFO(row.rule);
    FaultInjector injector = injector_of({row.rule});
    CHECK((ask(injector, middle) == ActionKind::drop) == row.takes_middle);
    CHECK((ask(injector, last) == ActionKind::drop) == row.takes_last);
  }
}

TEST_CASE("a corrupted segment of iWARP is changed behind its headers, a marked one in its ECN") {
  const auto frame = segment_of(true);
  FaultInjector corrupt = injector_of({"corrupt"});
  const Decision decision = corrupt.decide(start, Direction::out, frame);
  CHECK(decision.byte >= inet::tcp_frame_prefix_bytes + inet::tcp_header_bytes);
  FaultInjector mark = injector_of({"mark"});
  auto marked = frame;
  alter(mark.decide(start, Direction::out, marked), marked);
  const auto found = inet::parse_tcp_frame(marked);
  REQUIRE(found);
  CHECK((found->traffic_class & 3) == 3);
  CHECK(found->checksum_is_good());
}
