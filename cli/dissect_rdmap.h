// Dissection of what an FPDU carries: DDP and RDMAP headers, payload.
#pragma once

#include <string>

#include "base/bytes.h"
#include "cli/dissection.h"

namespace verbena::cli {

/// Where layers of an FPDU are.
struct FpduPlace {
  /// Where the ULPDU begins, in the frame or, if `is_reassembled`, in the FPDU.
  std::size_t ulpdu_offset = 0;
  bool is_reassembled = false;
  /// What is appended to the names of its layers: nothing for the first FPDU of a frame, "_2", ...
  std::string suffix{};
};

/// What a line says of a segment.
struct SegmentWords {
  std::string title;
  std::string summary;
};

/// Adds the layers of a ULPDU. What can't be decoded goes to out.error.
SegmentWords dissect_segment(ByteView ulpdu, const FpduPlace& place, Dissection& out);

}  // namespace verbena::cli
