// Conversations of two Linux siw, with our queue pair in the place of one of
// them: it hears what the kernel heard, is given the work that the kernel's
// consumer had, and must say the same, byte for byte. What is allowed to differ
// stands in docs/kernel-differences.md.
#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "proto/iwarp/start_frame.h"
#include "tests/unit/iwarp/siw_captures.h"
#include "tests/unit/iwarp/stream_pair.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {
namespace {

using iwarp::FpduFormat;
using iwarp::FpduReceiver;
using iwarp::RdmapOpcode;
using iwarp::ReadRequestHeader;
using iwarp::SegmentView;
using iwarp::StartFrame;
using iwarp::StartFrameReader;
using iwarp::StartKind;
using iwarp::TerminateHeader;
using iwarp::TerminateReason;

/// Where the payloads lie that the kernel's consumer sent, and where receives
/// go.
constexpr std::uint32_t payload_key = 0xF000'0001;
constexpr std::uint32_t receive_key = 0xF000'0002;
constexpr std::uint64_t payload_base = 0x10'0000;
constexpr std::size_t payload_bytes = 100'000;
constexpr std::uint32_t receive_bytes = 8192;
/// TCP payload of a segment on a link of MTU 1500 with timestamps.
constexpr std::size_t segment_bytes = 1448;

struct Fpdu {
  Bytes wire;
  Bytes ulpdu;
  [[nodiscard]] SegmentView segment() const { return SegmentView::parse(ulpdu).value(); }
};

/// A direction of the connection taken apart.
struct Direction {
  std::optional<StartFrame> start_frame;
  StartFrameReader reader{StartKind::request};
  std::vector<Fpdu> fpdus;
};

void read_start(Direction& direction, StartKind kind, ByteView& stream) {
  direction.reader = StartFrameReader(kind);
  const auto frame = direction.reader.take(stream);
  REQUIRE(frame);
  REQUIRE(*frame);
  direction.start_frame = **frame;
}

void read_fpdus(Direction& direction, FpduFormat format, ByteView stream) {
  FpduReceiver receiver(format);
  while (!stream.empty()) {
    const ByteView before = stream;
    const auto fpdu = receiver.next(stream);
    REQUIRE(fpdu);
    REQUIRE(*fpdu);
    const ByteView wire = before.first((*fpdu)->stream_bytes);
    direction.fpdus.push_back({.wire = {wire.begin(), wire.end()},
                               .ulpdu = {(*fpdu)->ulpdu.begin(), (*fpdu)->ulpdu.end()}});
  }
}

/// Our queue pair as the client or the server of a captured connection.
class Replay {
 public:
  Replay(const CapturedConnection& connection, bool as_client)
      : connection_(connection), as_client_(as_client) {
    const Bytes client = connection.stream(true);
    const Bytes server = connection.stream(false);
    ByteView from_client = client;
    ByteView from_server = server;
    read_start(client_, StartKind::request, from_client);
    read_start(server_, StartKind::reply, from_server);
    const StartFrame& request = *client_.start_frame;
    const StartFrame& reply = *server_.start_frame;
    iwarp::MpaAgreement agreement =
        iwarp::agree_as_responder(request, reply.enhanced->depths, reply);
    if (as_client) {
      std::swap(agreement.send_format, agreement.receive_format);
      agreement.depths = request.enhanced->depths;
    }
    read_fpdus(client_, agreement.send_format, from_client);
    read_fpdus(server_, agreement.send_format, from_server);
    side_.memory.add(payload_key, payload_base, payload_bytes);
    side_.memory.add(receive_key, 0, receive_bytes);
    side_.qp.activate({.agreement = agreement,
                       .is_initiator = as_client,
                       .pd = PdId{1},
                       .segment_bytes = segment_bytes});
    for (int i = 0; i < 64; ++i) {
      REQUIRE(
          side_.receive(0, {{.addr = Va{0}, .length = receive_bytes, .lkey = Lkey{receive_key}}}));
    }
  }

  [[nodiscard]] StreamSide& side() { return side_; }
  [[nodiscard]] const Direction& ours() const { return as_client_ ? client_ : server_; }
  [[nodiscard]] const Direction& theirs() const { return as_client_ ? server_ : client_; }

  /// Registers whatever both sides name.
  void register_all() {
    for (const Fpdu& fpdu : theirs().fpdus) {
      const SegmentView segment = fpdu.segment();
      if (segment.opcode() == RdmapOpcode::write && !segment.payload().empty()) {
        cover(segment.tagged().stag.value(), segment.tagged().offset.value(),
              segment.payload().size());
      } else if (segment.opcode() == RdmapOpcode::read_request) {
        const auto request = segment.rdmap<ReadRequestHeader>();
        cover(request.source_stag.value(), request.source_offset.value(),
              request.size_bytes.value());
      }
    }
    for (const Fpdu& fpdu : ours().fpdus) {
      if (fpdu.segment().opcode() == RdmapOpcode::read_request) {
        const auto request = fpdu.segment().rdmap<ReadRequestHeader>();
        cover(request.sink_stag.value(), request.sink_offset.value(), request.size_bytes.value());
      }
    }
    for (const auto& [stag, range] : ranges_) {
      side_.memory.add(stag, range.first, range.second - range.first);
    }
  }

  /// Hears and says everything. Returns how many FPDUs were compared.
  std::size_t run() {
    std::size_t heard = 0;
    std::size_t said = 0;
    std::size_t theirs_bytes = 0;
    std::size_t ours_bytes = 0;
    // A piece of the capture is not always whole FPDUs: whatever it completes
    // happens with it.
    for (const CapturedConnection::Piece& piece : connection_.pieces) {
      const bool is_ours = piece.from_client == as_client_;
      std::size_t& bytes = is_ours ? ours_bytes : theirs_bytes;
      bytes += piece.bytes.size();
      if (is_ours) {
        for (; said < ours().fpdus.size() && end_of(ours(), said) <= bytes; ++said) {
          say(said);
        }
      } else {
        for (; heard < theirs().fpdus.size() && end_of(theirs(), heard) <= bytes; ++heard) {
          side_.on_stream(theirs().fpdus[heard].wire);
        }
      }
    }
    REQUIRE(said == ours().fpdus.size());
    return said;
  }

 private:
  /// Where an FPDU ends in its stream, the start frame included.
  static std::size_t end_of(const Direction& direction, std::size_t index) {
    std::size_t end = direction.reader.bytes().size();
    for (std::size_t i = 0; i <= index; ++i) {
      end += direction.fpdus[i].wire.size();
    }
    return end;
  }

  void cover(std::uint32_t stag, std::uint64_t offset, std::size_t bytes) {
    const auto [found, is_new] = ranges_.try_emplace(stag, offset, offset + bytes);
    found->second = {std::min(found->second.first, offset),
                     std::max<std::uint64_t>(found->second.second, offset + bytes)};
  }

  /// The consumer may have changed what lies in a READ's source at any time:
  /// what the kernel sent is what lay there then.
  void fill_read_source(std::size_t index) {
    const SegmentView segment = ours().fpdus[index].segment();
    const ReadRequestHeader request = request_of_response(index);
    TestMemory::Region& region = side_.memory.at(request.source_stag.value());
    const std::uint64_t from = request.source_offset.value() + segment.tagged().offset.value() -
                               request.sink_offset.value() - region.address;
    copy_bytes(MutableBytes(region.bytes).subspan(from), segment.payload());
  }

  /// The READ that a response of ours answers: they come in the same order.
  [[nodiscard]] ReadRequestHeader request_of_response(std::size_t index) const {
    std::size_t answered = 0;
    for (std::size_t i = 0; i < index; ++i) {
      answered += is_response(i) && ours().fpdus[i].segment().is_last() ? 1 : 0;
    }
    for (const Fpdu& fpdu : theirs().fpdus) {
      const SegmentView segment = fpdu.segment();
      if (segment.opcode() == RdmapOpcode::read_request && answered-- == 0) {
        return segment.rdmap<ReadRequestHeader>();
      }
    }
    FAIL("a response to nothing");
    return {};
  }

  /// The kernel's consumer posted what makes this FPDU, if it begins a message;
  /// and we say the same.
  void say(std::size_t index) {
    const Fpdu& fpdu = ours().fpdus[index];
    const bool is_rtr = index == 0 && as_client_ && side_.qp.state() == iwarp::StreamState::rts &&
                        client_.start_frame->enhanced->peer_to_peer;
    const bool is_begin = index == 0 || ours().fpdus[index - 1].segment().is_last() ||
                          is_response(index - 1) != is_response(index);
    if (!is_rtr && is_begin && !is_response(index)) {
      post(index);
    }
    if (is_response(index)) {
      fill_read_source(index);
    }
    side_.out.bytes.clear();
    side_.transmit(1);
    if (is_rtr) {
      // siw names STag 1 in its RTR, we name 0: of a WRITE without data it
      // means nothing.
      REQUIRE(side_.out.bytes.size() == fpdu.wire.size());
      return;
    }
    REQUIRE(to_hex(side_.out.bytes) == to_hex(fpdu.wire));
  }

  [[nodiscard]] bool is_response(std::size_t index) const {
    return ours().fpdus[index].segment().opcode() == RdmapOpcode::read_response;
  }

  void post(std::size_t index) {
    const SegmentView first = ours().fpdus[index].segment();
    SendWr wr;
    std::vector<Sge> sges;
    if (first.opcode() == RdmapOpcode::read_request) {
      const auto request = first.rdmap<ReadRequestHeader>();
      wr.opcode = WrOpcode::rdma_read;
      wr.remote_addr = Va{request.source_offset.value()};
      wr.rkey = Rkey{request.source_stag.value()};
      sges.push_back({.addr = Va{request.sink_offset.value()},
                      .length = request.size_bytes.value(),
                      .lkey = Lkey{request.sink_stag.value()}});
    } else {
      if (first.opcode() == RdmapOpcode::write) {
        wr.opcode = WrOpcode::rdma_write;
        wr.remote_addr = Va{first.tagged().offset.value()};
        wr.rkey = Rkey{first.tagged().stag.value()};
      } else {
        wr.opcode = first.info().invalidates ? WrOpcode::send_with_inv : WrOpcode::send;
        wr.solicited = first.info().is_solicited;
        wr.invalidate_rkey = Rkey{first.untagged().invalidate_stag.value()};
      }
      sges.push_back(
          {.addr = Va{payload_base}, .length = lay_payload(index), .lkey = Lkey{payload_key}});
    }
    wr.sges = sges;
    REQUIRE(side_.send(wr));
  }

  /// Puts the payload of the message that begins here where it is sent from.
  std::uint32_t lay_payload(std::size_t index) {
    std::size_t size = 0;
    for (;; ++index) {
      const SegmentView segment = ours().fpdus.at(index).segment();
      if (segment.opcode() == RdmapOpcode::read_response) {
        continue;
      }
      copy_bytes(MutableBytes(side_.memory.at(payload_key).bytes).subspan(size), segment.payload());
      size += segment.payload().size();
      if (segment.is_last()) {
        return static_cast<std::uint32_t>(size);
      }
    }
  }

  const CapturedConnection& connection_;
  bool as_client_;
  Direction client_;
  Direction server_;
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> ranges_;
  StreamSide side_{
      {.send = {.wr_max = 64, .sge_max = 1, .inline_bytes_max = 0}, .ird_max = 256}, 64, 1};
};

/// What siw's TERMINATE would be with the bit fields of its control word the
/// right way round, the length of the segment, and the number of a READ
/// request, for both of which siw has its own ideas.
Bytes corrected(const Bytes& ulpdu, ByteView segment) {
  Bytes bytes = ulpdu;
  auto header = read_struct<TerminateHeader>(ByteView(bytes).subspan(iwarp::untagged_header_bytes));
  header.layer_and_type =
      static_cast<std::uint8_t>(header.layer_and_type << 4U | header.layer_and_type >> 4U);
  const auto flag = [&](unsigned bit, std::uint8_t value) {
    return (header.flags >> bit & 1U) != 0 ? value : std::uint8_t{0};
  };
  header.flags = static_cast<std::uint8_t>(flag(0, TerminateHeader::flag_length) |
                                           flag(1, TerminateHeader::flag_ddp) |
                                           flag(2, TerminateHeader::flag_rdmap));
  write_struct(MutableBytes(bytes).subspan(iwarp::untagged_header_bytes), header);
  write_struct(MutableBytes(bytes).subspan(iwarp::untagged_header_bytes + sizeof header),
               boost::endian::big_uint16_buf_t(static_cast<std::uint16_t>(segment.size())));
  if ((header.flags & TerminateHeader::flag_rdmap) != 0) {
    const std::size_t told_at = iwarp::untagged_header_bytes + sizeof header + 2;
    auto told = read_struct<iwarp::UntaggedHeader>(ByteView(bytes).subspan(told_at));
    told.msn = read_struct<iwarp::UntaggedHeader>(segment).msn.value();
    write_struct(MutableBytes(bytes).subspan(told_at), told);
  }
  return bytes;
}

/// What our queue pair, as the server, answers to the client's first FPDU, and
/// what siw did.
struct Refusal {
  Bytes ours;
  Bytes siws;
};

Refusal refusal_of(const std::string& capture, void (*prepare)(Replay&)) {
  const auto connections = siw_connections(capture);
  REQUIRE(connections.size() == 1);
  Replay replay(connections[0], false);
  StreamSide& side = replay.side();
  prepare(replay);
  const Fpdu& request = replay.theirs().fpdus.at(0);
  side.on_stream(request.wire);
  side.transmit();
  FpduReceiver receiver({.markers = false, .crc = replay.ours().start_frame->crc});
  ByteView stream = side.out.bytes;
  const auto fpdu = receiver.next(stream);
  REQUIRE(fpdu);
  REQUIRE(*fpdu);
  return {.ours = {(*fpdu)->ulpdu.begin(), (*fpdu)->ulpdu.end()},
          .siws = corrected(replay.ours().fpdus.at(0).ulpdu, request.ulpdu)};
}

}  // namespace

TEST_CASE("in siw's place our queue pair says what siw said, byte for byte") {
  struct Row {
    std::string capture;
    bool as_client;
    bool as_server;
  };
  // Where a peer invalidates a STag, the side that hears it is left out: there
  // is nothing yet that could be invalidated.
  const Row rows[] = {
      {"siw_cm_ok", true, true},         {"siw_crc_cm_ok", true, true},
      {"siw_rping_v4", true, true},      {"siw_crc_rping_v4", true, true},
      {"siw_p2p_rping_v4", true, true},  {"siw_cm_inv", true, false},
      {"siw_nvme_connect", false, true},
  };
  std::size_t compared = 0;
  for (const Row& row : rows) {
    for (const CapturedConnection& connection : siw_connections(row.capture)) {
      for (const bool as_client : {true, false}) {
        if (as_client ? row.as_client : row.as_server) {
          INFO(row.capture << (as_client ? ", client" : ", server"));
          Replay replay(connection, as_client);
          replay.register_all();
          compared += replay.run();
          CHECK(replay.side().qp.state() == iwarp::StreamState::rts);
        }
      }
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("requests that siw refused are refused with siw's reason") {
  constexpr auto nothing = [](Replay&) {};
  for (const std::string capture : {"siw_cm_badwrite", "siw_crc_cm_badwrite", "siw_cm_badread"}) {
    INFO(capture);
    const Refusal refusal = refusal_of(capture, nothing);
    CHECK(to_hex(refusal.ours) == to_hex(refusal.siws));
  }
  const Refusal refusal = refusal_of("siw_cm_oob", [](Replay& replay) {
    const auto header = replay.theirs().fpdus.at(0).segment().tagged();
    constexpr std::size_t room = 4096;
    replay.side().memory.add(header.stag.value(), header.offset.value() + 8 - room, room);
  });
  CHECK(to_hex(refusal.ours) == to_hex(refusal.siws));
}

}  // namespace verbena::test
