// Every opcode of the InfiniBand transport, as one table of facts and what follows from it.
// Read first: IBTA vol 1, 9.2 (BTH) with tables 38 (opcodes) and 39 (extension headers); annex A14
// (XRC), A17 (RoCE v2: CNP), A19 (FLUSH, ATOMIC WRITE).
//
// An opcode byte is a service (top three bits) and an operation (low five). So there is a row per
// operation (which services know it, which headers it carries) and a row per service (the headers
// that it puts before those). The 256-entry index, header sizes, offsets and names are derived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace verbena::ib {

/// The transport service: the top three bits of the opcode.
enum class Service : std::uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, cnp = 4, xrc = 5 };

/// What a packet asks for or answers. Immediate data and invalidation are told by the headers.
enum class Operation : std::uint8_t {
  send,
  write,
  read_request,
  read_response,
  acknowledge,
  atomic_acknowledge,
  compare_swap,
  fetch_add,
  resync,
  flush,
  atomic_write,
  congestion_notification,
};

/// The packet's place in its message.
enum class Position : std::uint8_t { first, middle, last, only };

/// Which side of a connection sends it. A CNP is neither.
enum class Role : std::uint8_t { request, response, notification };

/// What may follow the headers.
enum class Payload : std::uint8_t {
  none,         ///< Nothing.
  data,         ///< A part of the message: see payload_limits().
  eight_bytes,  ///< The value of an ATOMIC WRITE.
};

/// Extension headers, in the order in which the specification lists them. `cnp_reserved` is the
/// 16 reserved bytes that follow the BTH of a CNP (annex A17.9.3).
enum class ExtHeader : std::uint8_t {
  rdeth,
  deth,
  xrceth,
  feth,
  reth,
  atomic_eth,
  aeth,
  atomic_ack_eth,
  imm_dt,
  ieth,
  cnp_reserved,
};
inline constexpr std::size_t ext_header_count = 11;

inline constexpr std::size_t bth_bytes = 12;
/// Size of each extension header, by ExtHeader (IBTA vol 1, 9.3).
inline constexpr std::array<std::uint8_t, ext_header_count> ext_header_bytes{4, 8, 4, 4, 16, 28,
                                                                             4, 8, 4, 4, 16};

/// All opcodes. `service_operation_position`, as in opcode_identifier().
enum class Opcode : std::uint8_t {
  rc_send_first = 0x00,
  rc_send_middle = 0x01,
  rc_send_last = 0x02,
  rc_send_last_imm = 0x03,
  rc_send_only = 0x04,
  rc_send_only_imm = 0x05,
  rc_write_first = 0x06,
  rc_write_middle = 0x07,
  rc_write_last = 0x08,
  rc_write_last_imm = 0x09,
  rc_write_only = 0x0A,
  rc_write_only_imm = 0x0B,
  rc_read_request = 0x0C,
  rc_read_response_first = 0x0D,
  rc_read_response_middle = 0x0E,
  rc_read_response_last = 0x0F,
  rc_read_response_only = 0x10,
  rc_acknowledge = 0x11,
  rc_atomic_acknowledge = 0x12,
  rc_compare_swap = 0x13,
  rc_fetch_add = 0x14,
  rc_send_last_inv = 0x16,
  rc_send_only_inv = 0x17,
  rc_flush = 0x1C,
  rc_atomic_write = 0x1D,

  uc_send_first = 0x20,
  uc_send_middle = 0x21,
  uc_send_last = 0x22,
  uc_send_last_imm = 0x23,
  uc_send_only = 0x24,
  uc_send_only_imm = 0x25,
  uc_write_first = 0x26,
  uc_write_middle = 0x27,
  uc_write_last = 0x28,
  uc_write_last_imm = 0x29,
  uc_write_only = 0x2A,
  uc_write_only_imm = 0x2B,

  rd_send_first = 0x40,
  rd_send_middle = 0x41,
  rd_send_last = 0x42,
  rd_send_last_imm = 0x43,
  rd_send_only = 0x44,
  rd_send_only_imm = 0x45,
  rd_write_first = 0x46,
  rd_write_middle = 0x47,
  rd_write_last = 0x48,
  rd_write_last_imm = 0x49,
  rd_write_only = 0x4A,
  rd_write_only_imm = 0x4B,
  rd_read_request = 0x4C,
  rd_read_response_first = 0x4D,
  rd_read_response_middle = 0x4E,
  rd_read_response_last = 0x4F,
  rd_read_response_only = 0x50,
  rd_acknowledge = 0x51,
  rd_atomic_acknowledge = 0x52,
  rd_compare_swap = 0x53,
  rd_fetch_add = 0x54,
  rd_resync = 0x55,
  rd_flush = 0x5C,

  ud_send_only = 0x64,
  ud_send_only_imm = 0x65,

  cnp = 0x81,

  xrc_send_first = 0xA0,
  xrc_send_middle = 0xA1,
  xrc_send_last = 0xA2,
  xrc_send_last_imm = 0xA3,
  xrc_send_only = 0xA4,
  xrc_send_only_imm = 0xA5,
  xrc_write_first = 0xA6,
  xrc_write_middle = 0xA7,
  xrc_write_last = 0xA8,
  xrc_write_last_imm = 0xA9,
  xrc_write_only = 0xAA,
  xrc_write_only_imm = 0xAB,
  xrc_read_request = 0xAC,
  xrc_read_response_first = 0xAD,
  xrc_read_response_middle = 0xAE,
  xrc_read_response_last = 0xAF,
  xrc_read_response_only = 0xB0,
  xrc_acknowledge = 0xB1,
  xrc_atomic_acknowledge = 0xB2,
  xrc_compare_swap = 0xB3,
  xrc_fetch_add = 0xB4,
  xrc_send_last_inv = 0xB6,
  xrc_send_only_inv = 0xB7,
};
inline constexpr std::size_t opcode_count = 86;

/// A short list of extension headers, in wire order.
class ExtHeaderList {
 public:
  static constexpr std::size_t size_max = 4;

  constexpr ExtHeaderList() = default;
  constexpr ExtHeaderList(std::initializer_list<ExtHeader> headers) {
    for (const ExtHeader header : headers) {
      push_back(header);
    }
  }
  constexpr void push_back(ExtHeader header) { headers_.at(size_++) = header; }
  [[nodiscard]] constexpr const ExtHeader* begin() const { return headers_.data(); }
  [[nodiscard]] constexpr const ExtHeader* end() const { return headers_.data() + size_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }

 private:
  std::array<ExtHeader, size_max> headers_{};
  std::uint8_t size_ = 0;
};

/// Everything that the opcode alone tells. For a reserved opcode only `opcode` and `is_known` mean
/// anything.
struct OpcodeInfo {
  Opcode opcode{};
  bool is_known = false;
  Service service{};
  Operation operation{};
  Position position{};
  Role role{};
  Payload payload{};
  /// BTH and extension headers.
  std::uint8_t header_bytes = 0;
  ExtHeaderList ext_headers;
  /// Offset of each extension header from the start of the BTH; 0 where it is absent.
  std::array<std::uint8_t, ext_header_count> offsets{};

  [[nodiscard]] constexpr bool has(ExtHeader header) const {
    return offsets[static_cast<std::size_t>(header)] != 0;
  }
  [[nodiscard]] constexpr std::size_t offset_of(ExtHeader header) const {
    return offsets[static_cast<std::size_t>(header)];
  }
  [[nodiscard]] constexpr bool has_immediate() const { return has(ExtHeader::imm_dt); }
  [[nodiscard]] constexpr bool has_invalidate() const { return has(ExtHeader::ieth); }
  [[nodiscard]] constexpr bool is_request() const { return role == Role::request; }
  [[nodiscard]] constexpr bool is_response() const { return role == Role::response; }
  [[nodiscard]] constexpr bool may_have_payload() const { return payload != Payload::none; }
  [[nodiscard]] constexpr bool starts_message() const {
    return position == Position::first || position == Position::only;
  }
  [[nodiscard]] constexpr bool ends_message() const {
    return position == Position::last || position == Position::only;
  }
};

namespace detail {

using ServiceSet = std::uint8_t;

constexpr ServiceSet services(std::initializer_list<Service> list) {
  ServiceSet set = 0;
  for (const Service service : list) {
    set |= static_cast<ServiceSet>(1U << static_cast<unsigned>(service));
  }
  return set;
}

struct ServiceRow {
  Service service;
  std::string_view name;
  std::string_view identifier;
  /// What the service puts between BTH and the operation's own headers.
  ExtHeaderList request_headers;
  ExtHeaderList response_headers;
};

inline constexpr ServiceRow service_rows[] = {
    {Service::rc, "RC", "rc", {}, {}},
    {Service::uc, "UC", "uc", {}, {}},
    {Service::rd, "RD", "rd", {ExtHeader::rdeth, ExtHeader::deth}, {ExtHeader::rdeth}},
    {Service::ud, "UD", "ud", {ExtHeader::deth}, {}},
    {Service::cnp, "CNP", "cnp", {}, {}},
    {Service::xrc, "XRC", "xrc", {ExtHeader::xrceth}, {}},
};

struct OperationRow {
  std::uint8_t code;  ///< The low five bits.
  std::string_view name;
  std::string_view identifier;
  Operation operation;
  Position position;
  Role role;
  Payload payload;
  ExtHeaderList headers;
  ServiceSet services;
};

inline constexpr auto reliable = services({Service::rc, Service::rd, Service::xrc});
inline constexpr auto connected = services({Service::rc, Service::uc, Service::rd, Service::xrc});
inline constexpr auto all =
    services({Service::rc, Service::uc, Service::rd, Service::ud, Service::xrc});
inline constexpr auto invalidating = services({Service::rc, Service::xrc});
// Linux include/rdma/ib_pack.h names FLUSH for RC and RD, ATOMIC WRITE for RC only.
inline constexpr auto flushing = services({Service::rc, Service::rd});

using enum Operation;
using enum Position;
using enum Role;
using enum ExtHeader;
using P = Payload;

// clang-format off
inline constexpr OperationRow operation_rows[] = {
    // code  name                       identifier             operation      position  role
    //       payload         headers                services
    {0x00, "SEND First",                "send_first",           send,          first,  request,
           P::data,        {},                    connected},
    {0x01, "SEND Middle",               "send_middle",          send,          middle, request,
           P::data,        {},                    connected},
    {0x02, "SEND Last",                 "send_last",            send,          last,   request,
           P::data,        {},                    connected},
    {0x03, "SEND Last with Immediate",  "send_last_imm",        send,          last,   request,
           P::data,        {imm_dt},              connected},
    {0x04, "SEND Only",                 "send_only",            send,          only,   request,
           P::data,        {},                    all},
    {0x05, "SEND Only with Immediate",  "send_only_imm",        send,          only,   request,
           P::data,        {imm_dt},              all},
    {0x06, "RDMA WRITE First",          "write_first",          write,         first,  request,
           P::data,        {reth},                connected},
    {0x07, "RDMA WRITE Middle",         "write_middle",         write,         middle, request,
           P::data,        {},                    connected},
    {0x08, "RDMA WRITE Last",           "write_last",           write,         last,   request,
           P::data,        {},                    connected},
    {0x09, "RDMA WRITE Last with Immediate", "write_last_imm",  write,         last,   request,
           P::data,        {imm_dt},              connected},
    {0x0A, "RDMA WRITE Only",           "write_only",           write,         only,   request,
           P::data,        {reth},                connected},
    {0x0B, "RDMA WRITE Only with Immediate", "write_only_imm",  write,         only,   request,
           P::data,        {reth, imm_dt},        connected},
    {0x0C, "RDMA READ Request",         "read_request",         read_request,  only,   request,
           P::none,        {reth},                reliable},
    {0x0D, "RDMA READ Response First",  "read_response_first",  read_response, first,  response,
           P::data,        {aeth},                reliable},
    {0x0E, "RDMA READ Response Middle", "read_response_middle", read_response, middle, response,
           P::data,        {},                    reliable},
    {0x0F, "RDMA READ Response Last",   "read_response_last",   read_response, last,   response,
           P::data,        {aeth},                reliable},
    {0x10, "RDMA READ Response Only",   "read_response_only",   read_response, only,   response,
           P::data,        {aeth},                reliable},
    {0x11, "Acknowledge",               "acknowledge",          acknowledge,   only,   response,
           P::none,        {aeth},                reliable},
    {0x12, "ATOMIC Acknowledge",        "atomic_acknowledge",   atomic_acknowledge, only, response,
           P::none,        {aeth, atomic_ack_eth}, reliable},
    {0x13, "CmpSwap",                   "compare_swap",         compare_swap,  only,   request,
           P::none,        {atomic_eth},          reliable},
    {0x14, "FetchAdd",                  "fetch_add",            fetch_add,     only,   request,
           P::none,        {atomic_eth},          reliable},
    {0x15, "RESYNC",                    "resync",               resync,        only,   request,
           P::none,        {},                    services({Service::rd})},
    {0x16, "SEND Last with Invalidate", "send_last_inv",        send,          last,   request,
           P::data,        {ieth},                invalidating},
    {0x17, "SEND Only with Invalidate", "send_only_inv",        send,          only,   request,
           P::data,        {ieth},                invalidating},
    // Answered by a READ Response Only without payload, as ATOMIC WRITE is (annex A19.4).
    {0x1C, "FLUSH",                     "flush",                flush,         only,   request,
           P::none,        {feth, reth},          flushing},
    {0x1D, "ATOMIC WRITE",              "atomic_write",         atomic_write,  only,   request,
           P::eight_bytes, {reth},                services({Service::rc})},
    {0x01, "",                          "",       congestion_notification,     only,   notification,
           P::none,        {cnp_reserved},        services({Service::cnp})},
};
// clang-format on

constexpr void append(OpcodeInfo& info, ExtHeader header) {
  info.ext_headers.push_back(header);
  info.offsets[static_cast<std::size_t>(header)] = info.header_bytes;
  info.header_bytes = static_cast<std::uint8_t>(info.header_bytes +
                                                ext_header_bytes[static_cast<std::size_t>(header)]);
}

constexpr OpcodeInfo make_info(const ServiceRow& service, const OperationRow& row) {
  OpcodeInfo info{};
  info.opcode = Opcode(static_cast<unsigned>(service.service) << 5 | row.code);
  info.is_known = true;
  info.service = service.service;
  info.operation = row.operation;
  info.position = row.position;
  info.role = row.role;
  info.payload = row.payload;
  info.header_bytes = bth_bytes;
  const auto& prefix =
      row.role == Role::response ? service.response_headers : service.request_headers;
  for (const ExtHeader header : prefix) {
    append(info, header);
  }
  for (const ExtHeader header : row.headers) {
    append(info, header);
  }
  return info;
}

constexpr bool knows(const OperationRow& row, Service service) {
  return (row.services >> static_cast<unsigned>(service) & 1U) != 0;
}

/// Calls `visit(service_row, operation_row)` for every opcode there is.
template <class Visitor>
constexpr void for_each_opcode(Visitor visit) {
  for (const ServiceRow& service : service_rows) {
    for (const OperationRow& row : operation_rows) {
      if (knows(row, service.service)) {
        visit(service, row);
      }
    }
  }
}

}  // namespace detail

/// What each of the 256 opcode bytes means.
inline constexpr std::array<OpcodeInfo, 256> opcode_infos = [] {
  std::array<OpcodeInfo, 256> infos{};
  for (std::size_t byte = 0; byte < infos.size(); ++byte) {
    infos[byte].opcode = Opcode(byte);
  }
  detail::for_each_opcode([&](const auto& service, const auto& row) {
    const OpcodeInfo info = detail::make_info(service, row);
    infos[static_cast<std::size_t>(info.opcode)] = info;
  });
  return infos;
}();

/// What the opcode tells. For a reserved one `is_known` is false.
[[nodiscard]] constexpr const OpcodeInfo& opcode_info(Opcode opcode) {
  return opcode_infos[static_cast<std::size_t>(opcode)];
}

/// All known opcodes, ascending.
inline constexpr std::array<Opcode, opcode_count> opcodes = [] {
  std::array<Opcode, opcode_count> known{};
  std::size_t count = 0;
  for (const OpcodeInfo& info : opcode_infos) {
    if (info.is_known) {
      known.at(count++) = info.opcode;
    }
  }
  return known;
}();

/// The largest BTH with extension headers that any opcode has.
inline constexpr std::size_t transport_header_bytes_max = [] {
  std::size_t largest = 0;
  for (const OpcodeInfo& info : opcode_infos) {
    largest = info.header_bytes > largest ? info.header_bytes : largest;
  }
  return largest;
}();

/// "RC SEND First", as the specification writes it. "reserved" for a reserved opcode.
[[nodiscard]] std::string_view opcode_name(Opcode opcode);
/// "rc_send_first", as the enumerator is written. "reserved" for a reserved opcode.
[[nodiscard]] std::string_view opcode_identifier(Opcode opcode);
/// The opcode of that identifier, if there is one.
[[nodiscard]] std::optional<Opcode> opcode_from_identifier(std::string_view identifier);

/// How long the payload of a packet may be, both inclusive.
struct PayloadLimits {
  std::size_t bytes_min;
  std::size_t bytes_max;
};

/// The payload that an opcode allows at a path MTU: a first or middle packet is full, a last one
/// isn't empty, an only one is what it likes (IBTA vol 1, 9.7.4.1.7 and 9.7.5.2.6).
[[nodiscard]] constexpr PayloadLimits payload_limits(const OpcodeInfo& info,
                                                     std::size_t mtu_bytes) {
  switch (info.payload) {
    case Payload::none:
      return {0, 0};
    case Payload::eight_bytes:
      return {8, 8};
    case Payload::data:
      break;
  }
  switch (info.position) {
    case Position::first:
    case Position::middle:
      return {mtu_bytes, mtu_bytes};
    case Position::last:
      return {1, mtu_bytes};
    case Position::only:
      break;
  }
  return {0, mtu_bytes};
}

// The table's own consistency: every operation of a service has a code of its own, and the enum
// and the table list the same number of opcodes (that they are the same ones is a unit test).
static_assert(
    [] {
      std::array<bool, 256> seen{};
      bool unique = true;
      std::size_t count = 0;
      detail::for_each_opcode([&](const auto& service, const auto& row) {
        const auto byte = static_cast<std::size_t>(detail::make_info(service, row).opcode);
        unique = unique && !seen[byte] && row.code < 32;
        seen[byte] = true;
        ++count;
      });
      return unique && count == opcode_count;
    }(),
    "opcodes are unique and complete");
static_assert(opcode_info(Opcode::rc_send_only).header_bytes == 12);
static_assert(opcode_info(Opcode::rc_write_only_imm).header_bytes == 12 + 16 + 4);
static_assert(opcode_info(Opcode::rc_atomic_acknowledge).header_bytes == 12 + 4 + 8);
static_assert(opcode_info(Opcode::rd_compare_swap).header_bytes == transport_header_bytes_max);
static_assert(opcode_info(Opcode::rc_flush).offset_of(ExtHeader::reth) == 16);
static_assert(!opcode_info(Opcode{0xFF}).is_known);

}  // namespace verbena::ib
