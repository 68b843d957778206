// NVMe over Fabrics as bytes: capsules, SGL descriptors, the private data of RDMA connections.
//
// All integers are little-endian. "Base" is the NVM Express Base Specification, "Fabrics" NVMe over
// Fabrics 1.1; names of fields are theirs.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nvmf {

static_assert(std::endian::native == std::endian::little, "capsules are used where they lie");

// The port that IANA gave to NVMe over Fabrics.
constexpr std::uint16_t nvme_port = 4420;
constexpr std::string_view discovery_nqn = "nqn.2014-08.org.nvmexpress.discovery";

// --- Sizes (bytes)

constexpr std::size_t command_bytes = 64;
constexpr std::size_t completion_bytes = 16;
constexpr std::size_t page_bytes = 4096;          // Identify's data; CAP.MPSMIN 0
constexpr std::size_t connect_data_bytes = 1024;  // Fabrics, Connect
constexpr std::size_t nqn_bytes_max = 223;        // without its zero; the fields have 256
constexpr std::uint32_t block_bytes = 512;        // ours: LBA format 0
constexpr unsigned block_shift = 9;
constexpr std::uint16_t admin_entries_min = 32;  // Fabrics: an admin queue has at least so many

// --- Commands

enum class Opcode : std::uint8_t {
  flush = 0x00,
  write = 0x01,
  read = 0x02,
  write_zeroes = 0x08,
};

enum class AdminOpcode : std::uint8_t {
  get_log_page = 0x02,
  identify = 0x06,
  abort = 0x08,
  set_features = 0x09,
  get_features = 0x0a,
  async_event_request = 0x0c,
  keep_alive = 0x18,
};

constexpr std::uint8_t fabrics_opcode = 0x7f;

enum class FabricsType : std::uint8_t { property_set = 0x00, connect = 0x01, property_get = 0x04 };

// Bits 7:6 of a command's flags say how data are described: 01 is an SGL. The others are for fused
// commands.
constexpr std::uint8_t flags_sgl = 0x40;

enum class Feature : std::uint8_t {
  number_of_queues = 0x07,
  async_event_configuration = 0x0b,
  keep_alive_timer = 0x0f,
};

enum class LogPage : std::uint8_t { smart = 0x02, discovery = 0x70 };

// Identify: which data (CNS).
enum class Cns : std::uint8_t {
  one_namespace = 0x00,
  controller = 0x01,
  active_namespaces = 0x02,
  namespace_descriptors = 0x03,
  command_set_controller = 0x06,
};

// A controller's registers, which are read and written by commands (Fabrics, Property Get).
enum class Property : std::uint32_t {
  capabilities = 0x00,
  version = 0x08,
  configuration = 0x14,
  status = 0x1c,
};

constexpr std::uint32_t cc_enable = 1;
constexpr std::uint32_t cc_shutdown_mask = 3U << 14;
constexpr std::uint32_t cc_shutdown_normal = 1U << 14;
constexpr std::uint32_t cc_entry_sizes = (4U << 20) | (6U << 16);  // completions 16, commands 64
constexpr std::uint32_t csts_ready = 1;
constexpr std::uint32_t csts_shutdown_mask = 3U << 2;
constexpr std::uint32_t csts_shutdown_done = 2U << 2;

// A descriptor of data, the last 16 bytes of a command's first 40. Its last byte is type and
// subtype.
using SglBytes = std::array<std::uint8_t, 16>;

struct Command {
  std::uint8_t opcode = 0;
  std::uint8_t flags = 0;
  std::uint16_t command_id = 0;
  // Of a Fabrics command the lowest byte is its type.
  std::uint32_t nsid = 0;
  std::uint32_t cdw2 = 0;
  std::uint32_t cdw3 = 0;
  std::uint64_t metadata = 0;
  SglBytes sgl{};
  std::uint32_t cdw10 = 0;
  std::uint32_t cdw11 = 0;
  std::uint32_t cdw12 = 0;
  std::uint32_t cdw13 = 0;
  std::uint32_t cdw14 = 0;
  std::uint32_t cdw15 = 0;
};
static_assert(sizeof(Command) == command_bytes);

struct Completion {
  std::uint64_t result = 0;
  std::uint16_t sq_head = 0;
  std::uint16_t sq_id = 0;
  std::uint16_t command_id = 0;
  // The status in the upper 15 bits; bit 0 is the phase, which means nothing on fabrics.
  std::uint16_t status = 0;
};
static_assert(sizeof(Completion) == completion_bytes);

// --- Status: status code type in bits 10:8, status code in bits 7:0; bit 14 says not to retry.

enum class Status : std::uint16_t {
  success = 0x000,
  invalid_opcode = 0x001,
  invalid_field = 0x002,
  data_transfer_error = 0x004,
  internal_error = 0x006,
  invalid_namespace = 0x00b,
  command_sequence_error = 0x00c,
  data_sgl_length_invalid = 0x00f,
  sgl_descriptor_type_invalid = 0x011,
  sgl_offset_invalid = 0x016,
  keep_alive_timeout_invalid = 0x01a,
  lba_out_of_range = 0x080,
  capacity_exceeded = 0x081,
  async_event_limit_exceeded = 0x105,
  invalid_log_page = 0x109,
  connect_incompatible_format = 0x180,
  connect_controller_busy = 0x181,
  connect_invalid_parameters = 0x182,
  // Of an I/O command: it is optional, and this one's namespace hasn't got it.
  command_not_supported = 0x183,
};

constexpr std::uint16_t do_not_retry = 0x4000;

// The status field of a completion: errors that we report don't go away by trying again.
constexpr std::uint16_t status_field(Status status) {
  const auto code = static_cast<std::uint16_t>(status);
  return status == Status::success ? std::uint16_t{0}
                                   : static_cast<std::uint16_t>((code | do_not_retry) << 1);
}

// What a completion says, without the bits that aren't type and code.
constexpr Status status_of(const Completion& completion) {
  return static_cast<Status>((completion.status >> 1) & 0x7ff);
}

// "LBA out of range (0x080)".
std::string describe(Status status);

// --- SGL descriptors

struct Sgl {
  enum class Kind : std::uint8_t {
    none,        // no data: a descriptor of length 0
    keyed,       // host memory: address, length, key
    in_capsule,  // behind the command: offset, length
    unknown,
  };

  Kind kind = Kind::none;
  // Or the offset behind the command.
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;
  // The host wants the completion to take the key away: SEND with Invalidate.
  bool invalidate = false;
};

Sgl parse_sgl(const SglBytes& bytes);

// Longest that a keyed descriptor can say.
constexpr std::uint32_t keyed_length_max = 0xffffff;

// kind is keyed or in_capsule; the length of a keyed one fits in 24 bits.
SglBytes sgl_bytes(const Sgl& sgl);

// --- Connect (Fabrics): the command's fields and its data

struct ConnectFields {
  std::uint16_t record_format = 0;
  std::uint16_t queue_id = 0;
  // Number of entries less one.
  std::uint16_t sq_size = 0;
  bool flow_control_disabled = false;
  // Milliseconds, 0 for none.
  std::uint32_t keep_alive_timeout = 0;
};

ConnectFields connect_fields(const Command& command);
void set_connect_fields(Command& command, const ConnectFields& fields);

// In the Connect data of an admin queue: the controller is the target's to choose.
constexpr std::uint16_t controller_any = 0xffff;

constexpr std::size_t connect_host_id_offset = 0;
constexpr std::size_t connect_controller_offset = 16;
constexpr std::size_t connect_subsystem_offset = 256;
constexpr std::size_t connect_host_offset = 512;
constexpr std::size_t nqn_field_bytes = 256;

// --- Private data of RDMA connections (Fabrics, RDMA transport)

struct CmRequest {
  std::uint16_t record_format = 0;
  std::uint16_t queue_id = 0;
  // Entries of the host's receive queue; of its send queue, less one.
  std::uint16_t host_receive_size = 0;
  std::uint16_t host_send_size = 0;
  std::uint16_t controller_id = 0;
  std::array<std::uint8_t, 22> reserved{};
};
static_assert(sizeof(CmRequest) == 32);

struct CmReply {
  std::uint16_t record_format = 0;
  std::uint16_t controller_receive_size = 0;
  std::array<std::uint8_t, 28> reserved{};
};
static_assert(sizeof(CmReply) == 32);

enum class CmStatus : std::uint16_t {
  invalid_length = 1,
  invalid_record_format = 2,
  invalid_queue_id = 3,
  invalid_host_send_size = 4,
  invalid_host_receive_size = 5,
  no_resources = 6,
};

struct CmReject {
  std::uint16_t record_format = 0;
  std::uint16_t status = 0;
};
static_assert(sizeof(CmReject) == 4);

std::string_view describe(CmStatus status);

}  // namespace nvmf
