// The Linux kernel's own packets (tests/data/captures/README.md): each is understood wholly, for it
// can be written again from what was read, byte for byte, by rebuilding every header from its typed
// fields.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "proto/roce/encap.h"
#include "tests/unit/roce/capture_file.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::roce {
namespace {

using test::Bytes;
using test::to_hex;

/// RoCE packets in the captures, as a Python script with a CRC of its own (zlib's) counted them.
constexpr std::size_t roce_packet_count = 711;

/// The fields of a packet, with each extension header rebuilt from the values that its getters
/// give: bits that no getter knows are lost on purpose.
ib::PacketFields rebuilt_fields(const ib::PacketView& packet) {
  ib::PacketFields f = ib::parse_fields(packet);
  f.reth = ib::Reth(f.reth.va(), f.reth.rkey(), f.reth.length_bytes());
  f.aeth = ib::Aeth(f.aeth.syndrome(), f.aeth.msn());
  f.atomic_eth = ib::AtomicEth(f.atomic_eth.va(), f.atomic_eth.rkey(), f.atomic_eth.swap_or_add(),
                               f.atomic_eth.compare());
  f.atomic_ack_eth = ib::AtomicAckEth(f.atomic_ack_eth.original());
  f.imm = ib::ImmDt(f.imm.value());
  f.ieth = ib::Ieth(f.ieth.rkey());
  f.deth = ib::Deth(f.deth.qkey(), f.deth.source_qpn());
  return f;
}

Path path_of(const RoceFrame& frame) {
  return {.version = frame.version,
          .destination_mac = frame.destination_mac,
          .source_mac = frame.source_mac,
          .source = frame.source,
          .destination = frame.destination,
          .traffic_class = frame.traffic_class,
          .hop_limit = frame.hop_limit,
          .flow_label = frame.flow_label,
          .identification = frame.identification,
          .udp_source_port = frame.udp_source_port};
}

Bytes emit_again(const RoceFrame& frame, const ib::PacketView& packet) {
  const ib::PacketFields fields = rebuilt_fields(packet);
  const Encapsulation encapsulation(path_of(frame), ShortFrames::keep);
  const std::size_t transport_bytes = ib::transport_size(fields.opcode, packet.payload().size());
  Bytes bytes(encapsulation.frame_bytes(transport_bytes), std::byte{0xA5});
  encapsulation.write_prefix(bytes, transport_bytes);
  ib::emit_packet(MutableBytes(bytes).subspan(encapsulation.prefix_bytes()), fields,
                  packet.payload());
  encapsulation.finish(bytes, transport_bytes);
  return bytes;
}

}  // namespace

TEST_CASE("every packet of the kernel's captures is emitted again byte for byte") {
  std::size_t count = 0;
  for (const auto& path : test::capture_paths()) {
    for (const Bytes& bytes : test::read_capture(path)) {
      INFO(path.filename() << ": " << to_hex(bytes));
      const auto frame = parse_frame(bytes);
      REQUIRE(frame);
      REQUIRE(frame->icrc_is_good());
      const auto packet = ib::PacketView::parse(frame->transport);
      REQUIRE(packet);
      REQUIRE(to_hex(emit_again(*frame, *packet)) == to_hex(bytes));
      ++count;
    }
  }
  CHECK(count == roce_packet_count);
}

// So that the test above says something: both IP versions, and every kind of operation that the
// kernel has.
TEST_CASE(
    "the kernel's captures cover every operation of RC, UC and UD but FLUSH and ATOMIC WRITE") {
  std::map<ib::Opcode, std::size_t> seen;
  std::map<Version, std::size_t> versions;
  for (const auto& path : test::capture_paths()) {
    for (const Bytes& bytes : test::read_capture(path)) {
      const auto frame = parse_frame(bytes);
      REQUIRE(frame);
      ++versions[frame->version];
      ++seen[ib::PacketView::parse(frame->transport)->opcode()];
    }
  }
  CHECK(versions[Version::v2_ipv4] > 0);
  CHECK(versions[Version::v2_ipv6] > 0);
  using enum ib::Opcode;
  for (const ib::Opcode opcode :
       {rc_send_first,         rc_send_middle,         rc_send_last,
        rc_send_last_imm,      rc_send_only,           rc_send_only_imm,
        rc_write_first,        rc_write_middle,        rc_write_last,
        rc_write_last_imm,     rc_write_only,          rc_write_only_imm,
        rc_read_request,       rc_read_response_first, rc_read_response_middle,
        rc_read_response_last, rc_read_response_only,  rc_acknowledge,
        rc_atomic_acknowledge, rc_compare_swap,        rc_fetch_add,
        rc_send_only_inv,      uc_send_first,          uc_send_middle,
        uc_send_last,          uc_send_only,           uc_write_first,
        uc_write_middle,       uc_write_last,          uc_write_only_imm,
        ud_send_only,          ud_send_only_imm}) {
    INFO(ib::opcode_name(opcode));
    CHECK(seen[opcode] > 0);
  }
}

}  // namespace verbena::roce
