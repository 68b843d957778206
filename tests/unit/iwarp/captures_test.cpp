// What Linux's siw really sent (tests/data/captures/siw): every start frame and FPDU is understood,
// its CRC checks where there is one, and it is written again byte for byte.
#include <catch2/catch.hpp>
#include <map>

#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/negotiation.h"
#include "proto/iwarp/segment.h"
#include "proto/iwarp/start_frame.h"
#include "tests/unit/iwarp/siw_captures.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::iwarp {
namespace {

using test::Bytes;
using test::CapturedConnection;
using test::to_hex;

struct Counted {
  std::size_t connections = 0;
  std::size_t start_frames = 0;
  /// By the operation's name.
  std::map<std::string_view, std::size_t> segments;
};

/// Reads a start frame off the stream, and writes it again.
StartFrame check_start_frame(StartFrameReader& reader, ByteView& stream) {
  const auto frame = reader.take(stream);
  REQUIRE(frame);
  REQUIRE(*frame);
  Bytes again(start_frame_bytes(**frame).value());
  emit_start_frame(again, **frame);
  REQUIRE(to_hex(again) == to_hex(reader.bytes()));
  return **frame;
}

void check_fpdus(FpduFormat format, ByteView stream, Counted& counted) {
  FpduReceiver receiver(format);
  FpduWriter writer(format);
  while (!stream.empty()) {
    const ByteView before = stream;
    const auto fpdu = receiver.next(stream);
    REQUIRE(fpdu);
    REQUIRE(*fpdu);
    const ByteView wire = before.first((*fpdu)->stream_bytes);
    const ByteView ulpdu = (*fpdu)->ulpdu;
    INFO(to_hex(wire));
    Bytes again(writer.size_of(ulpdu.size()));
    copy_bytes(writer.ulpdu_room(again, ulpdu.size()), ulpdu);
    writer.finish(again, ulpdu.size());
    REQUIRE(to_hex(again) == to_hex(wire));

    const auto segment = SegmentView::parse(ulpdu);
    REQUIRE(segment);
    ++counted.segments[segment->info().name];
    const SegmentControl control = make_control(segment->opcode(), segment->is_last());
    REQUIRE(to_hex(bytes_of(control)) == to_hex(ulpdu.first(segment_control_bytes)));
  }
  REQUIRE(receiver.is_between_fpdus());
}

void check_connection(const CapturedConnection& connection, Counted& counted) {
  const Bytes client = connection.stream(true);
  const Bytes server = connection.stream(false);
  ByteView from_client = client;
  ByteView from_server = server;
  FpduFormat client_format{.markers = false, .crc = false};
  FpduFormat server_format = client_format;
  if (connection.has_handshake) {
    StartFrameReader request_reader(StartKind::request);
    StartFrameReader reply_reader(StartKind::reply);
    const StartFrame request = check_start_frame(request_reader, from_client);
    const StartFrame reply = check_start_frame(reply_reader, from_server);
    counted.start_frames += 2;
    REQUIRE(request.enhanced);
    REQUIRE(reply.enhanced);
    const MpaAgreement agreement = agree_as_responder(request, reply.enhanced->depths, reply);
    server_format = agreement.send_format;
    client_format = agreement.receive_format;
  }
  check_fpdus(client_format, from_client, counted);
  check_fpdus(server_format, from_server, counted);
  ++counted.connections;
}

}  // namespace

TEST_CASE("every byte that siw sent is understood and written again") {
  Counted complete;
  Counted cut;
  for (const std::string& name : test::siw_captures()) {
    INFO(name);
    for (const CapturedConnection& connection : test::siw_connections(name)) {
      check_connection(connection, connection.has_handshake ? complete : cut);
    }
  }
  CHECK(complete.connections == 17);
  CHECK(complete.start_frames == 34);
  // As Wireshark 4.0.17 counts them. It doesn't look into connections whose beginning it didn't
  // see.
  CHECK(complete.segments == std::map<std::string_view, std::size_t>{{"Write", 72},
                                                                     {"Read Request", 13},
                                                                     {"Read Response", 17},
                                                                     {"Send", 76},
                                                                     {"Send with Invalidate", 17},
                                                                     {"Terminate", 6}});
  CHECK(cut.connections == 3);
  CHECK_FALSE(cut.segments.empty());
}

TEST_CASE("siw with CRC: both sides ask for it, and every FPDU has one") {
  for (const std::string name : {"siw_crc_cm_ok", "siw_crc_rping_v4", "siw_crc_cm_badwrite"}) {
    for (const CapturedConnection& connection : test::siw_connections(name)) {
      const Bytes client = connection.stream(true);
      ByteView stream = client;
      StartFrameReader reader(StartKind::request);
      CHECK(check_start_frame(reader, stream).crc);
      Counted counted;
      check_fpdus({.markers = false, .crc = true}, stream, counted);
      CHECK_FALSE(counted.segments.empty());
    }
  }
}

TEST_CASE("a stream with markers everywhere, by another hand, is read and written again") {
  // Written by a script of a dozen lines, not by this code; Wireshark 4.0.17 calls its CRCs good.
  // There are markers in front of an FPDU, in its middle, and right before its CRC.
  const auto connections = test::connections_of("tests/data/dump/iwarp_markers.pcap");
  REQUIRE(connections.size() == 1);
  Counted counted;
  for (const bool from_client : {true, false}) {
    const Bytes bytes = connections[0].stream(from_client);
    ByteView stream = bytes;
    StartFrameReader reader(from_client ? StartKind::request : StartKind::reply);
    const StartFrame frame = check_start_frame(reader, stream);
    CHECK(frame.revision == 1);
    CHECK(frame.markers);
    check_fpdus({.markers = true, .crc = true}, stream, counted);
  }
  CHECK(counted.segments == std::map<std::string_view, std::size_t>{{"Write", 12}, {"Send", 6}});
}

TEST_CASE("siw peer-to-peer: the RTR that both name is what comes first") {
  for (const std::string name : {"siw_p2p_rping_v4", "siw_p2p_cm_badwrite", "siw_p2p_cm_badread"}) {
    INFO(name);
    const auto connections = test::siw_connections(name);
    REQUIRE(connections.size() == 1);
    const Bytes client = connections[0].stream(true);
    const Bytes server = connections[0].stream(false);
    ByteView from_client = client;
    ByteView from_server = server;
    StartFrameReader request_reader(StartKind::request);
    StartFrameReader reply_reader(StartKind::reply);
    const StartFrame request = check_start_frame(request_reader, from_client);
    const StartFrame reply = check_start_frame(reply_reader, from_server);
    const MpaSettings settings{
        .crc = CrcPolicy::accept, .peer_to_peer = true, .rtr = request.enhanced->rtr};
    const auto agreement = agree_as_initiator(settings, request, {.ird = 128, .ord = 128}, reply);
    REQUIRE(agreement);
    CHECK(agreement->rtr == RtrType::write);
    FpduReceiver receiver(agreement->send_format);
    const auto fpdu = receiver.next(from_client);
    REQUIRE(fpdu);
    const auto segment = SegmentView::parse((*fpdu)->ulpdu);
    REQUIRE(segment);
    CHECK(segment->opcode() == RdmapOpcode::write);
    CHECK(segment->payload().empty());
  }
}

}  // namespace verbena::iwarp
