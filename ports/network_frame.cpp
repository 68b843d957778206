#include "ports/network_frame.h"

#include "proto/ib_bth/headers.h"
#include "proto/roce/decap.h"

namespace verbena::ports {

std::optional<NetworkFrame> read_network_frame(ByteView bytes) {
  NetworkFrame frame;
  frame.bytes = bytes;
  const auto parsed = roce::parse_frame(bytes);
  if (!parsed && parsed.error().kind == roce::FrameError::Kind::not_roce) {
    return std::nullopt;
  }
  if (!parsed || !parsed->icrc_is_good()) {
    return frame;
  }
  frame.icrc_is_good = true;
  frame.route = {.source = parsed->source,
                 .destination = parsed->destination,
                 .destination_qpn = read_struct<ib::Bth>(parsed->transport).dest_qpn()};
  return frame;
}

}  // namespace verbena::ports
