#include "proto/iwarp/terminate.h"

#include <algorithm>
#include <array>

#include "proto/iwarp/segment.h"

namespace verbena::iwarp {
namespace {

struct Row {
  TerminateCode code;
  std::string_view name;
};

constexpr std::array rows{
#define VERBENA_TERMINATE_ROW(name, layer, type, code, text) \
  Row{{TerminateLayer::layer, type, code}, text},
    VERBENA_TERMINATE_REASONS(VERBENA_TERMINATE_ROW)
#undef VERBENA_TERMINATE_ROW
};

const Row& row_of(TerminateReason reason) { return rows.at(static_cast<std::size_t>(reason)); }

/// The headers of the segment that are told: DDP's, and RDMAP's for errors of RDMAP that lie in a
/// READ request (RFC 5040, 4.8, figure 11).
std::size_t told_header_bytes(TerminateReason reason, ByteView segment) {
  if (code_of(reason).layer == TerminateLayer::llp || segment.size() < segment_control_bytes) {
    return 0;
  }
  const auto control = read_struct<SegmentControl>(segment);
  const std::size_t ddp_bytes = control.is_tagged() ? tagged_header_bytes : untagged_header_bytes;
  if (segment.size() < ddp_bytes) {
    return 0;
  }
  const bool is_read_request =
      !control.is_tagged() &&
      control.opcode_value() == static_cast<std::uint8_t>(RdmapOpcode::read_request);
  const std::size_t all_bytes = ddp_bytes + sizeof(ReadRequestHeader);
  return code_of(reason).layer == TerminateLayer::rdmap && is_read_request &&
                 segment.size() >= all_bytes
             ? all_bytes
             : ddp_bytes;
}

}  // namespace

TerminateCode code_of(TerminateReason reason) noexcept { return row_of(reason).code; }

std::string_view name_of(TerminateReason reason) noexcept { return row_of(reason).name; }

std::string_view layer_name(std::uint8_t layer) noexcept {
  constexpr std::array<std::string_view, 3> names{"RDMAP", "DDP", "LLP"};
  return layer < names.size() ? names.at(layer) : std::string_view();
}

std::optional<TerminateReason> find_reason(const TerminateCode& code) noexcept {
  const auto found = std::ranges::find(rows, code, &Row::code);
  if (found == rows.end()) {
    return std::nullopt;
  }
  return static_cast<TerminateReason>(found - rows.begin());
}

std::size_t emit_terminate(MutableBytes to, TerminateReason reason, ByteView segment) {
  const std::size_t told_bytes = told_header_bytes(reason, segment);
  const bool tells_rdmap = told_bytes > untagged_header_bytes;
  const TerminateCode code = code_of(reason);

  UntaggedHeader header;
  header.control = make_control(RdmapOpcode::terminate, true);
  header.queue = static_cast<std::uint32_t>(DdpQueue::terminate);
  header.msn = 1;  // There is only one.
  write_struct(to, header);
  const TerminateHeader control{
      .layer_and_type = static_cast<std::uint8_t>(static_cast<unsigned>(code.layer) << 4U |
                                                  static_cast<unsigned>(code.type)),
      .code = code.code,
      .flags = static_cast<std::uint8_t>(
          (told_bytes > 0 ? TerminateHeader::flag_length | TerminateHeader::flag_ddp : 0) |
          (tells_rdmap ? TerminateHeader::flag_rdmap : 0)),
      .reserved = 0};
  write_struct(to.subspan(untagged_header_bytes), control);
  std::size_t size = untagged_header_bytes + sizeof control;
  if (told_bytes > 0) {
    write_struct(to.subspan(size),
                 boost::endian::big_uint16_buf_t(static_cast<std::uint16_t>(segment.size())));
    copy_bytes(to.subspan(size + 2), segment.first(told_bytes));
    size += 2 + told_bytes;
  }
  return size;
}

}  // namespace verbena::iwarp
