// The MADs in the captures of the kernel's rxe.
#pragma once

#include <string>
#include <vector>

#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "tests/unit/roce/capture_file.h"

namespace verbena::test {

/// A MAD, and between which GIDs it went.
struct CapturedMad {
  Gid source;
  Gid destination;
  Bytes mad;
};

/// What went to QP1 in a capture file of tests/data/captures, in order.
inline std::vector<CapturedMad> captured_mads(const std::filesystem::path& path) {
  std::vector<CapturedMad> mads;
  for (const Bytes& bytes : read_capture(path)) {
    const auto frame = roce::parse_frame(bytes);
    if (!frame) {
      continue;
    }
    const auto packet = ib::PacketView::parse(frame->transport);
    if (packet && packet->dest_qpn() == qpn_gsi) {
      const ByteView payload = packet->payload();
      mads.push_back({frame->source, frame->destination, Bytes(payload.begin(), payload.end())});
    }
  }
  return mads;
}

inline std::vector<CapturedMad> mads_of_capture(const std::string& name) {
  return captured_mads(std::filesystem::path(project_file("tests/data/captures/" + name)));
}

}  // namespace verbena::test
