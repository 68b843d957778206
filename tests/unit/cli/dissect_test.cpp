// Decoding of frames: what lines say about each kind of packet, a good and a bad ICRC, and hostile
// frames of every kind. The captures come from the Linux kernel's rxe (tests/data/captures).
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/prng.h"
#include "cli/dissection.h"
#include "pcap/reader.h"
#include "proto/ib_bth/emit.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"
#include "tests/unit/project_file.h"

namespace verbena::cli {
namespace {

using Frame = std::vector<std::byte>;

std::vector<Frame> frames_of(const std::string& path) {
  std::vector<Frame> frames;
  auto reader = pcap::Reader::open(path);
  REQUIRE(reader);
  for (;;) {
    const auto packet = reader->next();
    REQUIRE(packet);
    if (!*packet) {
      return frames;
    }
    frames.emplace_back((*packet)->frame.begin(), (*packet)->frame.end());
  }
}

std::vector<std::string> captures() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::project_file("tests/data/captures"))) {
    if (entry.path().extension() == ".pcap") {
      paths.push_back(entry.path().string());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

/// A RoCE v2 frame around a packet with those fields.
Frame frame_of(const ib::PacketFields& fields, std::size_t payload_bytes = 0,
               std::uint8_t traffic_class = 0) {
  const roce::Encapsulation encapsulation(
      {.version = roce::Version::v2_ipv4,
       .destination_mac = {},
       .source_mac = {},
       .source = roce::gid_from_ipv4(inet::Ipv4Address::from_value(0x7F00'0001)),
       .destination = roce::gid_from_ipv4(inet::Ipv4Address::from_value(0x7F00'0002)),
       .traffic_class = traffic_class});
  const std::vector<std::byte> payload(payload_bytes, std::byte{0xA5});
  const std::size_t size = ib::transport_size(fields.opcode, payload_bytes);
  Frame frame(encapsulation.frame_bytes(size));
  encapsulation.write_prefix(frame, size);
  ib::emit_packet(MutableBytes(frame).subspan(encapsulation.prefix_bytes()), fields, payload);
  encapsulation.finish(frame, size);
  return frame;
}

std::string summary_of(const ib::PacketFields& fields, std::size_t payload_bytes = 0) {
  const Dissection dissection = dissect(frame_of(fields, payload_bytes));
  CHECK(dissection.error.empty());
  CHECK(dissection.icrc_is_good == true);
  return dissection.title + ": " + dissection.summary;
}

TEST_CASE("every packet of the kernel's captures is decoded, with a good ICRC") {
  const std::vector<std::string> paths = captures();
  REQUIRE(paths.size() >= 40);
  for (const std::string& path : paths) {
    INFO(path);
    for (const Frame& frame : frames_of(path)) {
      const Dissection dissection = dissect(frame);
      CHECK(dissection.error.empty());
      CHECK(dissection.icrc_is_good == true);
      CHECK(dissection.destination_qpn);
      CHECK(dissection.psn);
      CHECK_FALSE(dissection.summary.empty());
    }
  }
}

TEST_CASE("layers lie in the frame without gaps, and fields in their layers") {
  for (const std::string& path : captures()) {
    INFO(path);
    for (const Frame& frame : frames_of(path)) {
      std::vector<Layer> layers = dissect(frame).layers;
      std::ranges::sort(layers, {}, &Layer::offset);
      std::size_t end = 0;
      for (const Layer& layer : layers) {
        INFO(layer.name);
        CHECK(layer.offset == end);
        end = layer.offset + layer.size_bytes;
        for (const Field& field : layer.fields) {
          INFO(field.name);
          CHECK(field.offset >= layer.offset);
          CHECK(field.offset + field.size_bytes <= end);
        }
      }
      CHECK(end <= frame.size());
      CHECK(frame.size() - end < 60);  // Ethernet padding
    }
  }
}

TEST_CASE("one flipped bit behind the Ethernet header makes the ICRC bad, or is told") {
  Frame frame = frame_of({.opcode = ib::Opcode::rc_write_only}, 32);
  constexpr std::size_t icrc_masked[] = {15, 22, 24, 25, 40, 41, 46};
  for (std::size_t at = 14; at < frame.size(); ++at) {
    INFO("byte " << at);
    frame[at] ^= std::byte{0x10};
    const Dissection dissection = dissect(frame);
    const bool is_masked = std::ranges::find(icrc_masked, at) != std::end(icrc_masked);
    const bool is_noticed = dissection.icrc_is_good != true || !dissection.error.empty();
    CHECK((is_noticed || is_masked));
    frame[at] ^= std::byte{0x10};
  }
  CHECK(dissect(frame).icrc_is_good == true);
}

TEST_CASE("the words of every extension header") {
  using ib::Opcode;
  using ib::Syndrome;
  const ib::Reth reth(Va{0x7F12'3456'7000}, Rkey{0x12'34}, 4096);
  CHECK(summary_of({.opcode = Opcode::rc_write_only_imm,
                    .solicited = true,
                    .ack_request = true,
                    .reth = reth,
                    .imm = ib::ImmDt(7)},
                   3) ==
        "RC RDMA WRITE Only with Immediate: va 0x7f1234567000, rkey 0x00001234, length 4096, "
        "immediate 0x00000007, 3 bytes, solicited, AckReq");
  CHECK(summary_of({.opcode = Opcode::rc_read_request, .reth = reth}) ==
        "RC RDMA READ Request: va 0x7f1234567000, rkey 0x00001234, length 4096");
  CHECK(summary_of({.opcode = Opcode::rc_acknowledge, .aeth = {Syndrome::ack(), Msn(9)}}) ==
        "RC Acknowledge: ACK, MSN 9");
  CHECK(summary_of({.opcode = Opcode::rc_acknowledge, .aeth = {Syndrome::ack(10), Msn(9)}}) ==
        "RC Acknowledge: ACK, 32 credits, MSN 9");
  CHECK(summary_of({.opcode = Opcode::rc_acknowledge, .aeth = {Syndrome::rnr_nak(12), Msn(0)}}) ==
        "RC Acknowledge: RNR NAK, wait 0.64 ms, MSN 0");
  CHECK(summary_of({.opcode = Opcode::rc_acknowledge, .aeth = {Syndrome::rnr_nak(0), Msn(0)}}) ==
        "RC Acknowledge: RNR NAK, wait 655.36 ms, MSN 0");
  CHECK(summary_of({.opcode = Opcode::rc_acknowledge,
                    .aeth = {Syndrome::nak(ib::NakCode::psn_sequence_error), Msn(3)}}) ==
        "RC Acknowledge: NAK PSN sequence error, MSN 3");
  CHECK(
      summary_of({.opcode = Opcode::rc_acknowledge, .aeth = {Syndrome::from_byte(0xE0), Msn(3)}}) ==
      "RC Acknowledge: reserved syndrome 0xe0, MSN 3");
  CHECK(summary_of(
            {.opcode = Opcode::rc_compare_swap, .atomic_eth = {Va{16}, Rkey{2}, 0xAA, 0xBB}}) ==
        "RC CmpSwap: va 0x10, rkey 0x00000002, compare 0xbb, swap 0xaa");
  CHECK(summary_of({.opcode = Opcode::rc_fetch_add, .atomic_eth = {Va{16}, Rkey{2}, 0xAA, 0}}) ==
        "RC FetchAdd: va 0x10, rkey 0x00000002, add 0xaa");
  CHECK(summary_of({.opcode = Opcode::rc_atomic_acknowledge,
                    .aeth = {Syndrome::ack(), Msn(1)},
                    .atomic_ack_eth = ib::AtomicAckEth(0xCC)}) ==
        "RC ATOMIC Acknowledge: ACK, MSN 1, original 0xcc");
  CHECK(summary_of({.opcode = Opcode::rc_send_only_inv, .ieth = ib::Ieth(Rkey{0xDD})}, 1) ==
        "RC SEND Only with Invalidate: invalidates rkey 0x000000dd, 1 bytes");
  CHECK(summary_of({.opcode = Opcode::ud_send_only, .dest_qpn = Qpn{5}, .deth = {Qkey{7}, Qpn{6}}},
                   4) == "UD SEND Only: from QP 0x000006, qkey 0x00000007, 4 bytes");
  CHECK(summary_of({.opcode = Opcode::xrc_send_only, .xrceth = ib::XrcEth(8)}, 4) ==
        "XRC SEND Only: SRQ 0x000008, 4 bytes");
  CHECK(summary_of({.opcode = Opcode::rc_flush, .reth = reth, .feth = {1, 0}}) ==
        "RC FLUSH: visibility of a range, va 0x7f1234567000, rkey 0x00001234, length 4096");
  CHECK(summary_of({.opcode = Opcode::rc_flush, .feth = {3, 1}}) ==
        "RC FLUSH: visibility and persistence of a region, va 0x0, rkey 0x00000000, length 0");
  CHECK(summary_of({.opcode = Opcode::rc_flush, .feth = {4, 0}}) ==
        "RC FLUSH: placement type 4, selectivity 0: reserved, va 0x0, rkey 0x00000000, length 0");
  CHECK(summary_of({.opcode = Opcode::rd_acknowledge, .rdeth = ib::Rdeth(4)}) ==
        "RD Acknowledge: EE context 0x000004, ACK, 0 credits, MSN 0");
  CHECK(summary_of({.opcode = Opcode::ud_send_only, .dest_qpn = qpn_gsi}, 8) ==
        "UD SEND Only: too short for a MAD, from QP 0x000000, qkey 0x00000000, 8 bytes");
}

TEST_CASE("a mark of congestion is told") {
  const Dissection dissection =
      dissect(frame_of({.opcode = ib::Opcode::rc_send_only}, 4, /*traffic_class=*/3));
  CHECK(dissection.summary == "4 bytes, congestion experienced");
}

TEST_CASE("connection management is named") {
  const std::vector<Frame> frames =
      frames_of(test::project_file("tests/data/captures/rxe_cm_ok.pcap"));
  std::vector<std::string> messages;
  for (const Frame& frame : frames) {
    const Dissection dissection = dissect(frame);
    if (dissection.destination_qpn == 1U) {
      messages.push_back(dissection.summary.substr(0, dissection.summary.find(',')));
    }
  }
  REQUIRE(messages.size() >= 5);
  CHECK(messages[0] == "CM ConnectRequest");
  CHECK(messages[1] == "CM ConnectReply");
  CHECK(messages[2] == "CM ReadyToUse");
  CHECK(messages[3] == "CM DisconnectRequest");
  CHECK(messages[4] == "CM DisconnectReply");
}

TEST_CASE("frames of other protocols are named, not called broken") {
  Frame frame(60);
  frame[12] = std::byte{0x08};
  frame[13] = std::byte{0x06};
  CHECK(dissect(frame).title == "ARP");
  frame[12] = std::byte{0x12};
  frame[13] = std::byte{0x34};
  const Dissection dissection = dissect(frame);
  CHECK(dissection.title == "EtherType 0x1234");
  CHECK(dissection.error.empty());
  CHECK_FALSE(dissection.icrc_is_good);
}

TEST_CASE("a frame that is cut anywhere is told to be malformed, never more") {
  const Frame frame = frame_of({.opcode = ib::Opcode::rc_write_only}, 64);
  for (std::size_t size = 0; size < frame.size(); ++size) {
    INFO(size << " bytes");
    CHECK_FALSE(dissect(ByteView(frame).first(size)).error.empty());
  }
}

TEST_CASE("random damage to frames never crashes the decoder") {
  std::vector<Frame> frames = frames_of(test::project_file("tests/data/captures/rxe_cm_ok.pcap"));
  frames.push_back(frame_of({.opcode = ib::Opcode::rc_flush}));
  Prng prng(9);
  for (const Frame& whole : frames) {
    for (int round = 0; round < 500; ++round) {
      Frame broken = whole;
      broken.resize(prng.below(broken.size() + 1));
      for (std::uint64_t n = prng.below(6); n > 0 && !broken.empty(); --n) {
        broken[prng.below(broken.size())] = static_cast<std::byte>(prng.below(256));
      }
      for (const Layer& layer : dissect(broken).layers) {
        REQUIRE(layer.offset + layer.size_bytes <= broken.size());
      }
    }
  }
}

}  // namespace
}  // namespace verbena::cli
