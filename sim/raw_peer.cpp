#include "sim/raw_peer.h"

#include <vector>

#include "proto/roce/gid.h"

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
  const roce::Encapsulation encapsulation(path, roce::ShortFrames::keep);
  const std::size_t prefix = encapsulation.prefix_bytes();
  std::vector<std::byte> frame(encapsulation.frame_bytes(transport.size()));
  encapsulation.write_prefix(frame, transport.size());
  copy_bytes(MutableBytes(frame).subspan(prefix), transport);
  encapsulation.finish(frame, transport.size());
  if (icrc == Icrc::bad) {
    frame[prefix + transport.size()] ^= std::byte{1};
  }
  send_frame(frame);
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
