#include "tests/support/scripted_peer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::test {

namespace {

constexpr inet::Ipv4Address peer_address{{10, 0, 0, 2}};

constexpr inet::Ipv4Address stranger_address{{10, 0, 0, 3}};

roce::Path path(inet::Ipv4Address from, inet::Ipv4Address to) {
  roce::Path path;
  path.source = roce::gid_from_ipv4(from);
  path.destination = roce::gid_from_ipv4(to);
  path.source_mac = nic::mac_of(from);
  path.destination_mac = nic::mac_of(to);
  return path;
}

}  // namespace

ScriptedPeer::ScriptedPeer(const EndOptions& end, Psn first_psn)
    : qp(create_qp(host, end)), first_psn_(first_psn) {
  to_init(host, now_, qp, end);
  to_rtr(host, now_, qp, end, roce::gid_from_ipv4(peer_address), qpn, first_psn);
  to_rts(host, now_, qp, end);
}

ib::PacketFields ScriptedPeer::request(ib::Opcode opcode, std::int32_t n,
                                       std::uint32_t bytes) const {
  ib::PacketFields fields;
  fields.opcode = opcode;
  fields.dest_qpn = nic::qpn_of(qp);
  fields.psn = psn(n);
  fields.ack_request = true;
  fields.reth = ib::Reth(host.va(), host.mr->rkey, bytes);
  fields.atomic_eth = ib::AtomicEth(host.va(), host.mr->rkey, 1, 0);
  return fields;
}

ib::PacketFields ScriptedPeer::response(ib::Opcode opcode, Psn psn, ib::Syndrome syndrome,
                                        std::uint32_t msn) const {
  ib::PacketFields fields;
  fields.opcode = opcode;
  fields.dest_qpn = nic::qpn_of(qp);
  fields.psn = psn;
  fields.aeth = ib::Aeth(syndrome, Msn(msn));
  return fields;
}

RxVerdict ScriptedPeer::send(const ib::PacketFields& fields, std::size_t payload_bytes) {
  return send(fields, std::vector<std::byte>(payload_bytes, std::byte{0x5A}));
}

RxVerdict ScriptedPeer::send(const ib::PacketFields& fields, ByteView payload) {
  std::vector<std::byte> transport(ib::transport_size(fields.opcode, payload.size()));
  ib::emit_packet(transport, fields, payload);
  return send_frame(frame_around(transport));
}

RxVerdict ScriptedPeer::send_frame(ByteView frame) {
  const RxVerdict verdict = host.nic.on_frame(now_, frame);
  transmit();
  return verdict;
}

std::vector<std::byte> ScriptedPeer::frame_around(ByteView transport, Address address,
                                                  roce::Version version) const {
  roce::Path way = path(address == Address::stranger_to_host ? stranger_address : peer_address,
                        address == Address::peer_to_stranger ? stranger_address : host.address);
  way.version = version;
  const roce::Encapsulation encapsulation(way);
  std::vector<std::byte> frame(encapsulation.frame_bytes(transport.size()));
  encapsulation.write_prefix(frame, transport.size());
  copy_bytes(MutableBytes(frame).subspan(encapsulation.prefix_bytes()), transport);
  if (transport.size() >= ib::bth_bytes) {
    encapsulation.finish(frame, transport.size());
  }
  return frame;
}

void ScriptedPeer::post(const Work& work) {
  SendWr wr = static_cast<const SendWr&>(work);
  wr.sges = work.pieces;
  REQUIRE(host.nic.post_send(now_, qp, wr));
  transmit();
}

void ScriptedPeer::post_recv(std::uint64_t id, const std::vector<Piece>& into) {
  std::vector<Sge> sges;
  for (const Piece& piece : into) {
    sges.push_back(host.sge(piece));
  }
  REQUIRE(host.nic.post_recv(now_, qp, {.wr_id = id, .sges = sges}));
}

void ScriptedPeer::advance(Duration duration) {
  const Time until = now_ + duration;
  transmit();
  while (host.nic.next_timeout() <= until) {
    now_ = std::max(now_, host.nic.next_timeout());
    host.nic.on_timer(now_);
    transmit();
  }
  now_ = until;
}

void ScriptedPeer::transmit() {
  while (host.nic.poll_transmit(now_, capture_) == nic::TransmitStatus::more) {
  }
}

MutableBytes ScriptedPeer::Capture::reserve(const FrameRoute&, std::size_t bytes) {
  frame_.assign(bytes, std::byte{0xEE});
  return frame_;
}

void ScriptedPeer::Capture::commit(const PacketNote& note) {
  peer_.sent_.push_back(decode(Side::a, peer_.now_, frame_, note));
}

std::vector<WirePacket> ScriptedPeer::packets() { return std::exchange(sent_, {}); }

std::vector<std::string> ScriptedPeer::answers() {
  std::vector<std::string> texts;
  for (const WirePacket& packet : packets()) {
    texts.push_back(to_text(packet));
  }
  return texts;
}

}  // namespace verbena::test
