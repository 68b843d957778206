// Every field of every transport header, by its place in the figures of IBTA vol 1, 9.2 and 9.3: a
// setter writes its own bits and no other's (a kernel's setter of reserved bits once wiped the
// QPN).
#include "proto/ib_bth/headers.h"

#include <catch2/catch.hpp>

#include "tests/unit/wire_support/field_check.h"

namespace verbena::ib {
namespace {

using test::check_field;
using U64 = std::uint64_t;
constexpr auto u32 = [](U64 value) { return static_cast<std::uint32_t>(value); };

}  // namespace

TEST_CASE("each BTH field occupies its own bits") {
  check_field<Bth>(
      0, 8, [](Bth& h, U64 v) { h.set_opcode(Opcode(v)); },
      [](const Bth& h) { return static_cast<U64>(h.opcode()); });
  check_field<Bth>(
      8, 1, [](Bth& h, U64 v) { h.set_solicited(v != 0); },
      [](const Bth& h) { return U64{h.solicited()}; });
  check_field<Bth>(
      9, 1, [](Bth& h, U64 v) { h.set_migrated(v != 0); },
      [](const Bth& h) { return U64{h.migrated()}; });
  check_field<Bth>(
      10, 2, [](Bth& h, U64 v) { h.set_pad_count(u32(v)); },
      [](const Bth& h) { return U64{h.pad_count()}; });
  check_field<Bth>(
      12, 4, [](Bth& h, U64 v) { h.set_transport_version(u32(v)); },
      [](const Bth& h) { return U64{h.transport_version()}; });
  check_field<Bth>(
      16, 16, [](Bth& h, U64 v) { h.set_pkey(Pkey(v)); },
      [](const Bth& h) { return U64{to_value(h.pkey())}; });
  check_field<Bth>(
      32, 1, [](Bth& h, U64 v) { h.set_fecn(v != 0); }, [](const Bth& h) { return U64{h.fecn()}; });
  check_field<Bth>(
      33, 1, [](Bth& h, U64 v) { h.set_becn(v != 0); }, [](const Bth& h) { return U64{h.becn()}; });
  check_field<Bth>(
      40, 24, [](Bth& h, U64 v) { h.set_dest_qpn(Qpn{u32(v)}); },
      [](const Bth& h) { return U64{to_value(h.dest_qpn())}; });
  check_field<Bth>(
      64, 1, [](Bth& h, U64 v) { h.set_ack_request(v != 0); },
      [](const Bth& h) { return U64{h.ack_request()}; });
  check_field<Bth>(
      72, 24, [](Bth& h, U64 v) { h.set_psn(Psn(u32(v))); },
      [](const Bth& h) { return U64{h.psn().value()}; });
}

TEST_CASE("each RETH field occupies its own bits") {
  check_field<Reth>(
      0, 64, [](Reth& h, U64 v) { h.set_va(Va{v}); },
      [](const Reth& h) { return to_value(h.va()); });
  check_field<Reth>(
      64, 32, [](Reth& h, U64 v) { h.set_rkey(Rkey{u32(v)}); },
      [](const Reth& h) { return U64{to_value(h.rkey())}; });
  check_field<Reth>(
      96, 32, [](Reth& h, U64 v) { h.set_length_bytes(u32(v)); },
      [](const Reth& h) { return U64{h.length_bytes()}; });
}

TEST_CASE("each AETH field occupies its own bits") {
  check_field<Aeth>(
      0, 8,
      [](Aeth& h, U64 v) { h.set_syndrome(Syndrome::from_byte(static_cast<std::uint8_t>(v))); },
      [](const Aeth& h) { return U64{h.syndrome().to_byte()}; });
  check_field<Aeth>(
      8, 24, [](Aeth& h, U64 v) { h.set_msn(Msn(u32(v))); },
      [](const Aeth& h) { return U64{h.msn().value()}; });
}

TEST_CASE("each AtomicETH and AtomicAckETH field occupies its own bits") {
  check_field<AtomicEth>(
      0, 64, [](AtomicEth& h, U64 v) { h.set_va(Va{v}); },
      [](const AtomicEth& h) { return to_value(h.va()); });
  check_field<AtomicEth>(
      64, 32, [](AtomicEth& h, U64 v) { h.set_rkey(Rkey{u32(v)}); },
      [](const AtomicEth& h) { return U64{to_value(h.rkey())}; });
  check_field<AtomicEth>(
      96, 64, [](AtomicEth& h, U64 v) { h.set_swap_or_add(v); },
      [](const AtomicEth& h) { return h.swap_or_add(); });
  check_field<AtomicEth>(
      160, 64, [](AtomicEth& h, U64 v) { h.set_compare(v); },
      [](const AtomicEth& h) { return h.compare(); });
  check_field<AtomicAckEth>(
      0, 64, [](AtomicAckEth& h, U64 v) { h.set_original(v); },
      [](const AtomicAckEth& h) { return h.original(); });
}

TEST_CASE("each field of the short extension headers occupies its own bits") {
  check_field<ImmDt>(
      0, 32, [](ImmDt& h, U64 v) { h.set_value(u32(v)); },
      [](const ImmDt& h) { return U64{h.value()}; });
  check_field<Ieth>(
      0, 32, [](Ieth& h, U64 v) { h.set_rkey(Rkey{u32(v)}); },
      [](const Ieth& h) { return U64{to_value(h.rkey())}; });
  check_field<Deth>(
      0, 32, [](Deth& h, U64 v) { h.set_qkey(Qkey{u32(v)}); },
      [](const Deth& h) { return U64{to_value(h.qkey())}; });
  check_field<Deth>(
      40, 24, [](Deth& h, U64 v) { h.set_source_qpn(Qpn{u32(v)}); },
      [](const Deth& h) { return U64{to_value(h.source_qpn())}; });
  check_field<Rdeth>(
      8, 24, [](Rdeth& h, U64 v) { h.set_ee_context(u32(v)); },
      [](const Rdeth& h) { return U64{h.ee_context()}; });
  check_field<XrcEth>(
      8, 24, [](XrcEth& h, U64 v) { h.set_srq_number(u32(v)); },
      [](const XrcEth& h) { return U64{h.srq_number()}; });
  check_field<Feth>(
      26, 2, [](Feth& h, U64 v) { h.set_selectivity(u32(v)); },
      [](const Feth& h) { return U64{h.selectivity()}; });
  check_field<Feth>(
      28, 4, [](Feth& h, U64 v) { h.set_placement_type(u32(v)); },
      [](const Feth& h) { return U64{h.placement_type()}; });
}

TEST_CASE("each GRH field occupies its own bits") {
  check_field<Grh>(
      0, 4, [](Grh& h, U64 v) { h.set_ip_version(u32(v)); },
      [](const Grh& h) { return U64{h.ip_version()}; });
  check_field<Grh>(
      4, 8, [](Grh& h, U64 v) { h.set_traffic_class(static_cast<std::uint8_t>(v)); },
      [](const Grh& h) { return U64{h.traffic_class()}; });
  check_field<Grh>(
      12, 20, [](Grh& h, U64 v) { h.set_flow_label(u32(v)); },
      [](const Grh& h) { return U64{h.flow_label()}; });
  check_field<Grh>(
      32, 16, [](Grh& h, U64 v) { h.set_payload_bytes(static_cast<std::uint16_t>(v)); },
      [](const Grh& h) { return U64{h.payload_bytes()}; });
  check_field<Grh>(
      48, 8, [](Grh& h, U64 v) { h.set_next_header(static_cast<std::uint8_t>(v)); },
      [](const Grh& h) { return U64{h.next_header()}; });
  check_field<Grh>(
      56, 8, [](Grh& h, U64 v) { h.set_hop_limit(static_cast<std::uint8_t>(v)); },
      [](const Grh& h) { return U64{h.hop_limit()}; });
  // GIDs are bytes; their last ones stand for the rest.
  check_field<Grh>(
      184, 8,
      [](Grh& h, U64 v) {
        Gid gid = h.source();
        gid.bytes[15] = static_cast<std::uint8_t>(v);
        h.set_source(gid);
      },
      [](const Grh& h) { return U64{h.source().bytes[15]}; });
  check_field<Grh>(
      312, 8,
      [](Grh& h, U64 v) {
        Gid gid = h.destination();
        gid.bytes[15] = static_cast<std::uint8_t>(v);
        h.set_destination(gid);
      },
      [](const Grh& h) { return U64{h.destination().bytes[15]}; });
}

// What is too wide for a field must not spill into its neighbour.
TEST_CASE("a setter drops the bits that its field has no room for") {
  Bth bth;
  bth.set_pad_count(0xFF);
  bth.set_dest_qpn(Qpn{0xFFFF'FFFF});
  CHECK(test::to_hex(bytes_of(bth)) == "0030000000ffffff00000000");
  Deth deth;
  deth.set_source_qpn(Qpn{0xFFFF'FFFF});
  CHECK(test::to_hex(bytes_of(deth)) == "0000000000ffffff");
  Feth feth;
  feth.set_selectivity(0xFF);
  CHECK(test::to_hex(bytes_of(feth)) == "00000030");
}

}  // namespace verbena::ib
