#include "ports/udp_batch.h"

#include <algorithm>

#include "base/check.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

/// Frames up to here may end with Ethernet padding, which isn't in the datagram: only the header
/// tells their size, when it is written.
bool may_be_padded(std::size_t frame_bytes) {
  return frame_bytes <= inet::ethernet_frame_bytes_min;
}

std::size_t prefix_bytes(const UdpDestination& destination) {
  return udp_frame_prefix_bytes(roce::ipv4_from_gid(destination.peer).has_value());
}

std::size_t payload_bytes_of(ByteView frame, std::size_t prefix_bytes) {
  const std::size_t room = frame.size() - prefix_bytes;
  if (!may_be_padded(frame.size())) {
    return room;
  }
  const auto udp =
      read_struct<inet::UdpHeader>(frame.subspan(prefix_bytes - inet::udp_header_bytes));
  const std::size_t told = udp.length_bytes.value();
  return std::clamp<std::size_t>(told, inet::udp_header_bytes, room + inet::udp_header_bytes) -
         inet::udp_header_bytes;
}

}  // namespace

UdpBatch::UdpBatch() : buffer_(payload_bytes_max + frames_max * udp_frame_prefix_bytes_max) {}

bool UdpBatch::takes(const UdpDestination& destination, std::size_t frame_bytes) const {
  if (empty()) {
    return true;
  }
  const std::size_t payload_bytes = frame_bytes - prefix_bytes(destination);
  return cuts_ && !closed_ && destination == destination_ && frames_ < frames_max &&
         !may_be_padded(frame_bytes) && payload_bytes <= segment_bytes() &&
         payload_bytes_ + payload_bytes <= payload_bytes_max;
}

MutableBytes UdpBatch::reserve(const UdpDestination& destination, std::size_t frame_bytes) {
  VERBENA_CHECK(frame_bytes > prefix_bytes(destination) &&
                frame_bytes <= prefix_bytes(destination) + payload_bytes_max);
  VERBENA_CHECK(takes(destination, frame_bytes));
  destination_ = destination;
  reserved_bytes_ = frame_bytes;
  return MutableBytes(buffer_).subspan(used_bytes_, frame_bytes);
}

void UdpBatch::commit() {
  const MutableBytes frame = MutableBytes(buffer_).subspan(used_bytes_, reserved_bytes_);
  const std::size_t prefix = prefix_bytes(destination_);
  const std::size_t bytes = payload_bytes_of(frame, prefix);
  payloads_[frames_++] = {.iov_base = frame.data() + prefix, .iov_len = bytes};
  closed_ = may_be_padded(frame.size()) || bytes < segment_bytes();
  payload_bytes_ += bytes;
  used_bytes_ += frame.size();
}

void UdpBatch::clear() {
  frames_ = payload_bytes_ = used_bytes_ = 0;
  closed_ = false;
}

}  // namespace verbena::ports
