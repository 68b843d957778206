#include "proto/iwarp/segment.h"

namespace verbena::iwarp {

Result<SegmentView, TerminateReason> SegmentView::parse(ByteView ulpdu) {
  if (ulpdu.size() < segment_control_bytes) {
    return std::unexpected(TerminateReason::llp_fpdu_length);
  }
  const auto control = read_struct<SegmentControl>(ulpdu);
  if (control.ddp_version_value() != SegmentControl::ddp_version) {
    return std::unexpected(control.is_tagged() ? TerminateReason::ddp_tagged_version
                                               : TerminateReason::ddp_untagged_version);
  }
  // Before anything behind the control bytes is looked at: how long the headers are.
  const std::size_t ddp_bytes = control.is_tagged() ? tagged_header_bytes : untagged_header_bytes;
  if (ulpdu.size() < ddp_bytes) {
    return std::unexpected(TerminateReason::llp_fpdu_length);
  }
  if (control.rdmap_version_value() != SegmentControl::rdmap_version) {
    return std::unexpected(TerminateReason::rdmap_version);
  }
  const RdmapInfo* info = find_rdmap_info(control.opcode_value());
  if (info == nullptr || info->is_tagged() != control.is_tagged()) {
    return std::unexpected(TerminateReason::rdmap_opcode);
  }
  if (!info->is_tagged() &&
      read_struct<UntaggedHeader>(ulpdu).queue.value() != static_cast<std::uint32_t>(info->queue)) {
    return std::unexpected(TerminateReason::ddp_untagged_queue);
  }
  if (ulpdu.size() < info->header_bytes()) {
    return std::unexpected(TerminateReason::llp_fpdu_length);
  }
  return SegmentView(ulpdu, *info);
}

SegmentControl make_control(RdmapOpcode opcode, bool is_last) {
  const RdmapInfo& info = rdmap_info(opcode);
  return {.ddp = static_cast<std::uint8_t>(SegmentControl::ddp_version |
                                           (info.is_tagged() ? SegmentControl::ddp_tagged : 0) |
                                           (is_last ? SegmentControl::ddp_last : 0)),
          .rdmap = static_cast<std::uint8_t>(SegmentControl::rdmap_version
                                                 << SegmentControl::rdmap_version_shift |
                                             static_cast<unsigned>(opcode))};
}

}  // namespace verbena::iwarp
