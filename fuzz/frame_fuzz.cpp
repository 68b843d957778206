// One hostile frame, as it comes from a wire or a capture: whatever it is, it is parsed or refused
// in words. What parses is written again, byte for byte, but for bits that are reserved.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "cli/dissection.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"

namespace verbena {
namespace {

void check_transport(ByteView transport) {
  const auto packet = ib::PacketView::parse(transport);
  if (!packet) {
    VERBENA_CHECK(!ib::describe(packet.error()).empty());
    return;
  }
  const ib::PacketFields fields = ib::parse_fields(*packet);
  std::vector<std::byte> again(ib::transport_size(fields.opcode, packet->payload().size()));
  VERBENA_CHECK(again.size() == transport.size());
  VERBENA_CHECK(ib::emit_packet(again, fields, packet->payload()) == again.size());
  const auto read_again = ib::PacketView::parse(again);
  VERBENA_CHECK(read_again && read_again->psn() == packet->psn());
  VERBENA_CHECK(read_again->dest_qpn() == packet->dest_qpn());
}

void check_frame(ByteView bytes) {
  if (const auto frame = roce::parse_frame(bytes)) {
    VERBENA_CHECK(frame->packet.size() <= bytes.size());
    static_cast<void>(frame->icrc_is_good());
    check_transport(frame->transport);
  } else {
    VERBENA_CHECK(!roce::describe(frame.error()).empty());
  }
  static_cast<void>(cli::dissect(bytes));
}

}  // namespace
}  // namespace verbena

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbena::check_frame(std::as_bytes(std::span(data, size)));
  return 0;
}
