#include "examples/nvmf/nvme.h"

#include <cstdio>
#include <cstring>

namespace nvmf {
namespace {

// Type in the upper half, subtype in the lower.
constexpr std::uint8_t type_in_capsule = 0x01;        // data block, offset
constexpr std::uint8_t type_keyed = 0x40;             // keyed data block, address
constexpr std::uint8_t type_keyed_invalidate = 0x4f;  // the same, and the key is to go

constexpr std::uint32_t connect_flow_control_disabled = 1U << 18;  // bit 2 of CATTR

template <typename T>
T load(const SglBytes& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view name_of(Status status) {
  switch (status) {
    case Status::success:
      return "success";
    case Status::invalid_opcode:
      return "invalid opcode";
    case Status::invalid_field:
      return "invalid field in command";
    case Status::data_transfer_error:
      return "data transfer error";
    case Status::internal_error:
      return "internal error";
    case Status::invalid_namespace:
      return "invalid namespace or format";
    case Status::command_sequence_error:
      return "command sequence error";
    case Status::data_sgl_length_invalid:
      return "data SGL length invalid";
    case Status::sgl_descriptor_type_invalid:
      return "SGL descriptor type invalid";
    case Status::sgl_offset_invalid:
      return "SGL offset invalid";
    case Status::keep_alive_timeout_invalid:
      return "keep alive timeout invalid";
    case Status::lba_out_of_range:
      return "LBA out of range";
    case Status::capacity_exceeded:
      return "capacity exceeded";
    case Status::async_event_limit_exceeded:
      return "asynchronous event request limit exceeded";
    case Status::invalid_log_page:
      return "invalid log page";
    case Status::connect_incompatible_format:
      return "connect: incompatible format";
    case Status::connect_controller_busy:
      return "connect: controller busy";
    case Status::connect_invalid_parameters:
      return "connect: invalid parameters";
    case Status::command_not_supported:
      return "optional command not supported";
  }
  return "status";
}

}  // namespace

std::string describe(Status status) {
  char code[16];
  std::snprintf(code, sizeof code, " (0x%03x)", static_cast<unsigned>(status));
  return std::string(name_of(status)) + code;
}

Sgl parse_sgl(const SglBytes& bytes) {
  Sgl sgl{.address = load<std::uint64_t>(bytes, 0)};
  switch (bytes[15]) {
    case type_keyed:
    case type_keyed_invalidate:
      sgl.length = load<std::uint32_t>(bytes, 8) & keyed_length_max;
      sgl.key = load<std::uint32_t>(bytes, 11);
      sgl.kind = sgl.length == 0 ? Sgl::Kind::none : Sgl::Kind::keyed;
      sgl.invalidate = sgl.length != 0 && bytes[15] == type_keyed_invalidate;
      break;
    case type_in_capsule:
      sgl.length = load<std::uint32_t>(bytes, 8);
      sgl.kind = sgl.length == 0 ? Sgl::Kind::none : Sgl::Kind::in_capsule;
      break;
    default:
      sgl.kind = Sgl::Kind::unknown;
  }
  return sgl;
}

SglBytes sgl_bytes(const Sgl& sgl) {
  SglBytes bytes{};
  std::memcpy(bytes.data(), &sgl.address, sizeof sgl.address);
  std::memcpy(bytes.data() + 8, &sgl.length, sizeof sgl.length);
  if (sgl.kind == Sgl::Kind::in_capsule) {
    bytes[15] = type_in_capsule;
  } else {
    std::memcpy(bytes.data() + 11, &sgl.key, sizeof sgl.key);
    bytes[15] = sgl.invalidate ? type_keyed_invalidate : type_keyed;
  }
  return bytes;
}

ConnectFields connect_fields(const Command& command) {
  return {.record_format = static_cast<std::uint16_t>(command.cdw10),
          .queue_id = static_cast<std::uint16_t>(command.cdw10 >> 16),
          .sq_size = static_cast<std::uint16_t>(command.cdw11),
          .flow_control_disabled = (command.cdw11 & connect_flow_control_disabled) != 0,
          .keep_alive_timeout = command.cdw12};
}

void set_connect_fields(Command& command, const ConnectFields& fields) {
  command.cdw10 = fields.record_format | (std::uint32_t{fields.queue_id} << 16);
  command.cdw11 =
      fields.sq_size | (fields.flow_control_disabled ? connect_flow_control_disabled : 0);
  command.cdw12 = fields.keep_alive_timeout;
}

std::string_view describe(CmStatus status) {
  switch (status) {
    case CmStatus::invalid_length:
      return "invalid length of the private data";
    case CmStatus::invalid_record_format:
      return "invalid record format";
    case CmStatus::invalid_queue_id:
      return "invalid queue";
    case CmStatus::invalid_host_send_size:
      return "invalid size of the host's send queue";
    case CmStatus::invalid_host_receive_size:
      return "invalid size of the host's receive queue";
    case CmStatus::no_resources:
      return "no resources";
  }
  return "a reason that isn't known";
}

}  // namespace nvmf
