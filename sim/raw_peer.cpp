#include "sim/raw_peer.h"

#include "proto/roce/gid.h"
#include "proto/roce/whole_frame.h"

namespace verbena::sim {

void RawPeer::send_transport(const Gid& to, ByteView transport, Icrc icrc) {
  roce::Path path;
  if (encapsulation_ == nic::GidEntry::Type::roce_v1) {
    path.version = roce::Version::v1;
  } else {
    path.version = roce::ipv4_from_gid(gid_) ? roce::Version::v2_ipv4 : roce::Version::v2_ipv6;
  }
  path.source = gid_;
  path.destination = to;
  path.source_mac = nic::mac_of(gid_);
  path.destination_mac = nic::mac_of(to);
  send_frame(roce::whole_frame(path, transport, icrc == Icrc::bad));
}

void RawPeer::send_frame(ByteView bytes) {
  const FrameRef ref = world_.frames.take();
  Frame& frame = world_.frames.at(ref);
  frame.note = {};
  frame.bytes.assign(bytes.begin(), bytes.end());
  channel_->send(ref);
}

void RawPeer::receive(FrameRef ref) {
  const Frame& frame = world_.frames.at(ref);
  world_.trace.arrived(world_.now, id(), frame, {});
  if (world_.capture != nullptr) {
    world_.capture->write(world_.now, id(), frame.bytes, pcap::Direction::inbound, {});
  }
  world_.frames.give_back(ref);
}

}  // namespace verbena::sim
