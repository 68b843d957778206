#include "cli/packet_wire.h"

#include <array>
#include <utility>

#include "nic_model/types.h"
#include "ports/engine.h"
#include "proto/inet/arp.h"
#include "proto/inet/headers.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"
#include "proto/roce/whole_frame.h"

namespace verbena::cli {

Result<PacketWire, std::string> PacketWire::open(const Place& place) {
  const auto where = ports::LinkPlace::from_text(place.link);
  if (!where) {
    return std::unexpected(where.error());
  }
  auto link = ports::Link::open("the script", *where);
  if (!link) {
    return std::unexpected(std::move(link.error()));
  }
  return PacketWire(place, std::move(*link));
}

PacketWire::PacketWire(const Place& place, std::unique_ptr<ports::Link> link)
    : own_(roce::gid_from_ipv6(place.own.address)),
      device_(place.device),
      link_(std::move(link)),
      host_(nic::mac_of(own_), {place.own}) {}

void PacketWire::turn() {
  const Time now = ports::Engine::now();
  link_->begin_batch(now);
  while (const auto frame = link_->receive()) {
    probes_answered_ += is_probe_answer(*frame) ? 1 : 0;
    if (host_.on_frame(*frame, now, *link_) != inet::LinkHost::Verdict::not_mine) {
      continue;
    }
    const auto packet = roce::parse_frame(*frame);
    if (packet && packet->source == device_ && packet->destination == own_) {
      frames_.emplace_back(frame->begin(), frame->end());
    }
  }
  if (link_->is_up() && host_.next_timeout() <= now) {
    host_.transmit(now, *link_);
  }
  link_->flush();
}

bool PacketWire::is_probe_answer(ByteView frame) const {
  const auto ethernet = inet::parse_ethernet(frame);
  if (!ethernet || ethernet->ethertype != inet::ethertype_arp) {
    return false;
  }
  const auto arp = inet::parse_arp(ethernet->payload);
  return arp && arp->operation.value() == inet::ArpPacket::operation_reply &&
         arp->sender == roce::ipv4_from_gid(device_);
}

bool PacketWire::probe() {
  if (!knows_device()) {
    return false;
  }
  std::array<std::byte, inet::ethernet_header_bytes + inet::arp_packet_bytes> frame{};
  inet::EthernetHeader ethernet{.destination = device_mac_, .source = host_.mac()};
  ethernet.ethertype = inet::ethertype_arp;
  inet::ArpPacket question{.sender_mac = host_.mac(),
                           .sender = roce::ipv4_from_gid(own_).value(),
                           .target = roce::ipv4_from_gid(device_).value()};
  question.operation = inet::ArpPacket::operation_request;
  write_struct(MutableBytes(frame), ethernet);
  write_struct(MutableBytes(frame).subspan(inet::ethernet_header_bytes), question);
  return send_frame(frame);
}

bool PacketWire::knows_device() {
  if (!link_->is_up()) {
    return false;
  }
  const auto answer = host_.resolve(roce::ipv6_from_gid(device_), ports::Engine::now());
  device_mac_ = answer.mac;
  return answer.kind == inet::NeighbourAnswer::Kind::known;
}

void PacketWire::add_descriptors(std::vector<pollfd>& descriptors) const {
  for (const int fd : link_->descriptors()) {
    descriptors.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
}

bool PacketWire::send_transport(ByteView transport, bool bad_icrc) {
  if (!knows_device()) {
    return false;
  }
  roce::Path path;
  path.version = roce::ipv4_from_gid(own_) ? roce::Version::v2_ipv4 : roce::Version::v2_ipv6;
  path.source = own_;
  path.destination = device_;
  path.source_mac = host_.mac();
  path.destination_mac = device_mac_;
  return send_frame(roce::whole_frame(path, transport, bad_icrc));
}

bool PacketWire::send_frame(ByteView frame) {
  const MutableBytes room = link_->reserve(frame.size());
  if (room.empty()) {
    return false;
  }
  copy_bytes(room, frame);
  link_->commit();
  link_->flush();
  return true;
}

}  // namespace verbena::cli
