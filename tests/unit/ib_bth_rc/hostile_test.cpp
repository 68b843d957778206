// Bytes of a peer that means harm: no frame crashes the NIC, and none but a request of the
// connection itself reaches the queue pair (users.md rows 26 and 27).
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "base/prng.h"
#include "proto/inet/headers.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;

namespace {

constexpr std::size_t transport_at =
    inet::ethernet_header_bytes + inet::ipv4_header_bytes + inet::udp_header_bytes;

/// A transport packet of `bytes` bytes: a BTH that finds the queue pair and its expected PSN, as
/// far as it fits, then zeros.
std::vector<std::byte> packet_of(const ScriptedPeer& peer, unsigned opcode, unsigned pad_count,
                                 std::size_t bytes) {
  ib::Bth bth;
  bth.set_opcode(Opcode(opcode));
  bth.set_pad_count(pad_count);
  bth.set_pkey(pkey_default);
  bth.set_dest_qpn(nic::qpn_of(peer.qp));
  bth.set_psn(peer.psn(0));
  std::vector<std::byte> packet(std::max(bytes, sizeof bth));
  write_struct(packet, bth);
  packet.resize(bytes);
  return packet;
}

bool is_untouched(const ScriptedPeer& peer) {
  return nic::state_of(peer.qp) == nic::QpState::rts &&
         peer.host.nic.query_qp(peer.qp).rq_psn == peer.psn(0);
}

bool is_rc_request(Opcode opcode) {
  const ib::OpcodeInfo& info = ib::opcode_info(opcode);
  return info.is_known && info.service == ib::Service::rc && info.is_request();
}

}  // namespace

TEST_CASE("an ICRC is checked, unless the port has proved that it is right") {
  const bool proved = GENERATE(false, true);
  ScriptedPeer peer;
  auto frame =
      peer.frame_around(packet_of(peer, static_cast<unsigned>(Opcode::rc_write_only), 0, 60));
  frame.back() ^= std::byte{1};
  const RxVerdict verdict = peer.host.nic.on_frame(peer.now(), frame, proved);
  CHECK((verdict.check == RxCheck::icrc) == !proved);
}

TEST_CASE(
    "any opcode at any length is survived, and reaches the queue pair only as an RC request") {
  std::optional<ScriptedPeer> peer(std::in_place);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const Opcode opcode{static_cast<std::uint8_t>(byte)};
    for (std::size_t bytes = 0; bytes <= 80; ++bytes) {
      for (unsigned pad_count = 0; pad_count < 4; ++pad_count) {
        const auto frame = peer->frame_around(packet_of(*peer, byte, pad_count, bytes));
        const RxVerdict verdict = peer->send_frame(frame);
        INFO("opcode " << byte << ", " << bytes << " bytes, pad " << pad_count << ": "
                       << describe(verdict));
        if (verdict.kind == RxVerdict::Kind::dropped || !is_rc_request(opcode)) {
          REQUIRE(is_untouched(*peer));
          REQUIRE(peer->packets().empty());
        } else {
          // A request of the connection, right or wrong: it was answered for good. Begin anew.
          peer.emplace();
        }
        const ib::OpcodeInfo& info = ib::opcode_info(opcode);
        if (bytes >= ib::bth_bytes && !info.is_known) {
          REQUIRE(verdict.counter == Counter::rx_drop_unknown_opcode);
        } else if (bytes < info.header_bytes + pad_count || bytes % 4 != 0) {
          REQUIRE(verdict.counter == Counter::rx_drop_malformed);
        }
      }
    }
  }
}

TEST_CASE("a wrong ICRC is found in every byte and ends there") {
  ScriptedPeer peer;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    for (const std::size_t bytes : {12U, 28U, 40U, 80U}) {
      const auto packet = packet_of(peer, opcode, 0, bytes);
      auto frame = peer.frame_around(packet);
      // The ICRC's own bytes included; byte 4 of the BTH is not covered (annex A17.3.3).
      const std::size_t at = opcode % (bytes + 4);
      if (at == 4) {
        continue;
      }
      frame[transport_at + at] ^= std::byte{0x10};
      CHECK(peer.send_frame(frame).counter == Counter::rx_icrc_encapsulated);
    }
  }
  CHECK(is_untouched(peer));
  CHECK(peer.packets().empty());
}

TEST_CASE("a pad that is larger than what there is makes a malformed packet") {
  ScriptedPeer peer;
  const auto packet =
      packet_of(peer, static_cast<unsigned>(Opcode::rc_send_only), 3, ib::bth_bytes);
  CHECK(peer.send_frame(peer.frame_around(packet)).counter == Counter::rx_drop_malformed);
  CHECK(is_untouched(peer));
}

TEST_CASE("packets that are not for this connection are dropped, each for its own reason") {
  ScriptedPeer peer;
  const auto good = peer.request(Opcode::rc_write_only, 0, 8);

  auto unknown_qp = good;
  unknown_qp.dest_qpn = Qpn{0xABCDE};
  CHECK(peer.send(unknown_qp, 8).counter == Counter::rx_drop_unknown_qp);

  auto foreign_partition = good;
  foreign_partition.pkey = Pkey{0x8001};
  CHECK(peer.send(foreign_partition, 8).counter == Counter::rx_drop_pkey);

  auto datagram = good;
  datagram.opcode = Opcode::ud_send_only;
  CHECK(peer.send(datagram, 8).counter == Counter::rx_drop_wrong_service);

  // Limited members of the default partition may talk to full ones (IBTA vol 1, 10.9.3).
  CHECK(is_untouched(peer));
  auto limited = good;
  limited.pkey = Pkey{0x7FFF};
  CHECK(peer.send(limited, 8).kind == RxVerdict::Kind::accepted);
}

TEST_CASE("a packet from or to another address is dropped") {
  // The connection's own packet, as another host would send it.
  ScriptedPeer peer;
  std::vector<std::byte> transport(ib::transport_size(Opcode::rc_write_only, 8));
  ib::emit_packet(transport, peer.request(Opcode::rc_write_only, 0, 8), std::vector<std::byte>(8));
  const auto from_stranger = peer.frame_around(transport, ScriptedPeer::Address::stranger_to_host);
  CHECK(peer.send_frame(from_stranger).counter == Counter::rx_drop_wrong_peer);
  const auto to_stranger = peer.frame_around(transport, ScriptedPeer::Address::peer_to_stranger);
  CHECK(peer.send_frame(to_stranger).counter == Counter::rx_drop_wrong_address);
  // The GIDs are right, and ours as RoCE v1 too, but the connection is one of RoCE v2.
  const auto other_version =
      peer.frame_around(transport, ScriptedPeer::Address::peer_to_host, roce::Version::v1);
  CHECK(peer.send_frame(other_version).counter == Counter::rx_drop_wrong_peer);
  CHECK(is_untouched(peer));
}

TEST_CASE("random frames, and good ones with random damage, are survived") {
  std::optional<ScriptedPeer> peer(std::in_place);
  Prng prng(0xBAD);
  for (int round = 0; round < 20'000; ++round) {
    const Opcode opcode = ib::opcodes[prng.below(ib::opcodes.size())];
    auto fields = peer->request(opcode, static_cast<std::int32_t>(prng.below(3)),
                                static_cast<std::uint32_t>(prng.below(3000)));
    fields.ack_request = prng.chance({1, 2});
    if (prng.chance({1, 4})) {
      fields.reth = ib::Reth(Va{prng.next()}, Rkey{static_cast<std::uint32_t>(prng.next())},
                             static_cast<std::uint32_t>(prng.next()));
    }
    const std::size_t payload = ib::opcode_info(opcode).may_have_payload() ? prng.below(1030) : 0;
    std::vector<std::byte> transport(ib::transport_size(opcode, payload));
    ib::emit_packet(transport, fields, std::vector<std::byte>(payload));
    if (prng.chance({1, 2})) {
      transport[prng.below(transport.size())] ^= static_cast<std::byte>(1U << prng.below(8));
    }
    if (prng.chance({1, 8})) {
      transport.resize(prng.below(transport.size() + 1));
    }
    auto frame = peer->frame_around(transport);
    if (prng.chance({1, 8})) {
      frame[prng.below(frame.size())] ^= static_cast<std::byte>(1U << prng.below(8));
    }
    if (prng.chance({1, 16})) {
      frame.resize(prng.below(frame.size() + 1));
    }
    peer->send_frame(frame);
    peer->packets();
    if (nic::state_of(peer->qp) != nic::QpState::rts) {
      peer.emplace();
      peer->post_recv(1, {{0, 2000}});
    }
  }
}

}  // namespace verbena::test
