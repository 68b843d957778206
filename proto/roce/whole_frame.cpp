#include "proto/roce/whole_frame.h"

namespace verbena::roce {

std::vector<std::byte> whole_frame(const Path& path, ByteView transport, bool has_bad_icrc) {
  const Encapsulation encapsulation(path, ShortFrames::keep);
  const std::size_t prefix = encapsulation.prefix_bytes();
  std::vector<std::byte> frame(encapsulation.frame_bytes(transport.size()));
  encapsulation.write_prefix(frame, transport.size());
  copy_bytes(MutableBytes(frame).subspan(prefix), transport);
  encapsulation.finish(frame, transport.size());
  if (has_bad_icrc) {
    frame[prefix + transport.size()] ^= std::byte{1};
  }
  return frame;
}

}  // namespace verbena::roce
