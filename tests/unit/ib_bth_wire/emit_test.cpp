// emit_headers() and its inverse, for every opcode. Buffers are filled with 0xa5 beforehand, so
// that bytes which are left unset show.
#include "proto/ib_bth/emit.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/wire_support/hex.h"

namespace verbena::ib {
namespace {

using test::Bytes;
using test::to_hex;

constexpr std::byte unset{0xA5};

template <class Header>
Header random_header(Prng& prng) {
  return read_struct<Header>(test::random_bytes(prng, sizeof(Header)));
}

PacketFields random_fields(Prng& prng, Opcode opcode) {
  PacketFields fields;
  fields.opcode = opcode;
  fields.solicited = prng.chance({1, 2});
  fields.migrated = prng.chance({1, 2});
  fields.ack_request = prng.chance({1, 2});
  fields.fecn = prng.chance({1, 2});
  fields.becn = prng.chance({1, 2});
  fields.pkey = Pkey(prng.below(0x1'0000));
  fields.dest_qpn = Qpn(static_cast<std::uint32_t>(prng.below(0x100'0000)));
  fields.psn = Psn(static_cast<std::uint32_t>(prng.next()));
  fields.reth = random_header<Reth>(prng);
  fields.aeth = random_header<Aeth>(prng);
  fields.atomic_eth = random_header<AtomicEth>(prng);
  fields.atomic_ack_eth = random_header<AtomicAckEth>(prng);
  fields.imm = random_header<ImmDt>(prng);
  fields.ieth = random_header<Ieth>(prng);
  fields.deth = random_header<Deth>(prng);
  fields.rdeth = random_header<Rdeth>(prng);
  fields.xrceth = random_header<XrcEth>(prng);
  fields.feth = random_header<Feth>(prng);
  return fields;
}

template <class Header>
bool same(const Header& a, const Header& b) {
  return std::ranges::equal(bytes_of(a), bytes_of(b));
}

/// Compares the fields of the BTH and those extension headers that the opcode carries.
void check_same(const PacketFields& a, const PacketFields& b) {
  const OpcodeInfo& info = opcode_info(a.opcode);
  const auto holds = [&info](ExtHeader header, bool is_same) {
    return is_same || !info.has(header);
  };
  CHECK(a.opcode == b.opcode);
  CHECK(a.solicited == b.solicited);
  CHECK(a.migrated == b.migrated);
  CHECK(a.ack_request == b.ack_request);
  CHECK(a.fecn == b.fecn);
  CHECK(a.becn == b.becn);
  CHECK(a.pkey == b.pkey);
  CHECK(a.dest_qpn == b.dest_qpn);
  CHECK(a.psn == b.psn);
  CHECK(holds(ExtHeader::reth, same(a.reth, b.reth)));
  CHECK(holds(ExtHeader::aeth, same(a.aeth, b.aeth)));
  CHECK(holds(ExtHeader::atomic_eth, same(a.atomic_eth, b.atomic_eth)));
  CHECK(holds(ExtHeader::atomic_ack_eth, same(a.atomic_ack_eth, b.atomic_ack_eth)));
  CHECK(holds(ExtHeader::imm_dt, same(a.imm, b.imm)));
  CHECK(holds(ExtHeader::ieth, same(a.ieth, b.ieth)));
  CHECK(holds(ExtHeader::deth, same(a.deth, b.deth)));
  CHECK(holds(ExtHeader::rdeth, same(a.rdeth, b.rdeth)));
  CHECK(holds(ExtHeader::xrceth, same(a.xrceth, b.xrceth)));
  CHECK(holds(ExtHeader::feth, same(a.feth, b.feth)));
}

}  // namespace

TEST_CASE("the bytes of an emitted packet are those of the specification's figures") {
  Bytes out(64, unset);
  const PacketFields write{.opcode = Opcode::rc_write_only_imm,
                           .solicited = true,
                           .ack_request = true,
                           .pkey = Pkey{0x8001},
                           .dest_qpn = Qpn{0x123456},
                           .psn = Psn(0xABCDEF),
                           .reth = Reth(Va{0x0123456789ABCDEF}, Rkey{0x11223344}, 5),
                           .imm = ImmDt(0xDEADBEEF)};
  const std::size_t size = emit_packet(out, write, test::from_hex("0102030405"));
  CHECK(to_hex(ByteView(out).first(size)) ==
        "0bf0800100123456"
        "80abcdef"
        "0123456789abcdef1122334400000005"
        "deadbeef"
        "0102030405000000");
  CHECK(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(size), out.end(),
                    [](std::byte b) { return b == unset; }));

  const PacketFields ack{.opcode = Opcode::rc_acknowledge,
                         .dest_qpn = Qpn{0x11},
                         .psn = Psn(7),
                         .aeth = Aeth(Syndrome::ack(), Msn(3))};
  out.assign(64, unset);
  CHECK(emit_headers(out, ack, 0) == 16);
  CHECK(to_hex(ByteView(out).first(17)) == "1140ffff00000011000000071f000003a5");

  const PacketFields notification{.opcode = Opcode::cnp, .becn = true, .dest_qpn = Qpn{0x118}};
  out.assign(64, unset);
  CHECK(emit_headers(out, notification, 0) == 28);
  CHECK(to_hex(ByteView(out).first(29)) ==
        "8140ffff400001180000000000000000000000000000000000000000a5");
}

// Round trip of every opcode with random values in every field (linux-rdma 1f2af3068: a setter that
// corrupted the QPN went unnoticed).
TEST_CASE("what is emitted parses to the same fields") {
  Prng prng(35);
  for (const Opcode opcode : opcodes) {
    for (int round = 0; round < 20; ++round) {
      INFO(opcode_name(opcode) << ", round " << round);
      const PacketFields fields = random_fields(prng, opcode);
      const auto payload = test::random_bytes(prng, prng.below(20));
      const std::size_t size = transport_size(opcode, payload.size());
      Bytes out(size + 8, unset);
      REQUIRE(emit_packet(out, fields, payload) == size);
      CHECK(to_hex(ByteView(out).subspan(size)) == "a5a5a5a5a5a5a5a5");
      const auto view = PacketView::parse(ByteView(out).first(size));
      REQUIRE(view);
      check_same(parse_fields(*view), fields);
      CHECK(to_hex(view->payload()) == to_hex(payload));
    }
  }
}

// linux-rdma 88b037591, 19f72a256: hardware drops what isn't padded to a multiple of four with
// zeros.
TEST_CASE("payloads of every length are padded to a multiple of four with zeros") {
  for (std::size_t length = 0; length <= 64; ++length) {
    INFO(length);
    const Bytes payload(length, std::byte{0xFF});
    Bytes out(12 + 64 + 8, unset);
    const std::size_t size = emit_packet(out, {.opcode = Opcode::rc_send_only}, payload);
    CHECK(size % 4 == 0);
    CHECK(size == transport_size(Opcode::rc_send_only, length));
    const std::size_t pad = (4 - length % 4) % 4;
    CHECK(pad_count(length) == pad);
    CHECK((std::to_integer<std::size_t>(out[1]) >> 4 & 3) == pad);
    const auto view = PacketView::parse(ByteView(out).first(size));
    REQUIRE(view);
    CHECK(view->payload().size() == length);
    CHECK(std::ranges::all_of(view->pad(), [](std::byte b) { return b == std::byte{0}; }));
  }
  CHECK(pad_count(33) == 3);
}

// SoftRoCE/librxe-dev#6: hardware sends MigReq 1, and connections to it fail with 0.
TEST_CASE("packets are sent in the migrated state unless told otherwise") {
  Bytes out(12, unset);
  emit_headers(out, {.opcode = Opcode::rc_send_only}, 0);
  CHECK((out[1] & std::byte{0x40}) == std::byte{0x40});
  emit_headers(out, {.opcode = Opcode::rc_send_only, .migrated = false}, 0);
  CHECK((out[1] & std::byte{0x40}) == std::byte{0});
}

}  // namespace verbena::ib
