// The opcode table against a second list, written out in full: values and names as `tshark -G
// values` gives them (FLUSH, ATOMIC WRITE and CNP, which it lacks, from annexes A19 and A17),
// headers from IBTA vol 1, table 39.
#include "proto/ib_bth/opcode.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::ib {
namespace {

struct Row {
  Opcode opcode;
  unsigned value;
  std::string_view identifier;
  std::string_view name;
  std::string_view headers;  ///< Behind the BTH.
};

using enum Opcode;

constexpr Row rows[] = {
    {rc_send_first, 0x00, "rc_send_first", "RC SEND First", ""},
    {rc_send_middle, 0x01, "rc_send_middle", "RC SEND Middle", ""},
    {rc_send_last, 0x02, "rc_send_last", "RC SEND Last", ""},
    {rc_send_last_imm, 0x03, "rc_send_last_imm", "RC SEND Last with Immediate", "ImmDt"},
    {rc_send_only, 0x04, "rc_send_only", "RC SEND Only", ""},
    {rc_send_only_imm, 0x05, "rc_send_only_imm", "RC SEND Only with Immediate", "ImmDt"},
    {rc_write_first, 0x06, "rc_write_first", "RC RDMA WRITE First", "RETH"},
    {rc_write_middle, 0x07, "rc_write_middle", "RC RDMA WRITE Middle", ""},
    {rc_write_last, 0x08, "rc_write_last", "RC RDMA WRITE Last", ""},
    {rc_write_last_imm, 0x09, "rc_write_last_imm", "RC RDMA WRITE Last with Immediate", "ImmDt"},
    {rc_write_only, 0x0A, "rc_write_only", "RC RDMA WRITE Only", "RETH"},
    {rc_write_only_imm, 0x0B, "rc_write_only_imm", "RC RDMA WRITE Only with Immediate",
     "RETH ImmDt"},
    {rc_read_request, 0x0C, "rc_read_request", "RC RDMA READ Request", "RETH"},
    {rc_read_response_first, 0x0D, "rc_read_response_first", "RC RDMA READ Response First", "AETH"},
    {rc_read_response_middle, 0x0E, "rc_read_response_middle", "RC RDMA READ Response Middle", ""},
    {rc_read_response_last, 0x0F, "rc_read_response_last", "RC RDMA READ Response Last", "AETH"},
    {rc_read_response_only, 0x10, "rc_read_response_only", "RC RDMA READ Response Only", "AETH"},
    {rc_acknowledge, 0x11, "rc_acknowledge", "RC Acknowledge", "AETH"},
    {rc_atomic_acknowledge, 0x12, "rc_atomic_acknowledge", "RC ATOMIC Acknowledge",
     "AETH AtomicAckETH"},
    {rc_compare_swap, 0x13, "rc_compare_swap", "RC CmpSwap", "AtomicETH"},
    {rc_fetch_add, 0x14, "rc_fetch_add", "RC FetchAdd", "AtomicETH"},
    {rc_send_last_inv, 0x16, "rc_send_last_inv", "RC SEND Last with Invalidate", "IETH"},
    {rc_send_only_inv, 0x17, "rc_send_only_inv", "RC SEND Only with Invalidate", "IETH"},
    {rc_flush, 0x1C, "rc_flush", "RC FLUSH", "FETH RETH"},
    {rc_atomic_write, 0x1D, "rc_atomic_write", "RC ATOMIC WRITE", "RETH"},
    {uc_send_first, 0x20, "uc_send_first", "UC SEND First", ""},
    {uc_send_middle, 0x21, "uc_send_middle", "UC SEND Middle", ""},
    {uc_send_last, 0x22, "uc_send_last", "UC SEND Last", ""},
    {uc_send_last_imm, 0x23, "uc_send_last_imm", "UC SEND Last with Immediate", "ImmDt"},
    {uc_send_only, 0x24, "uc_send_only", "UC SEND Only", ""},
    {uc_send_only_imm, 0x25, "uc_send_only_imm", "UC SEND Only with Immediate", "ImmDt"},
    {uc_write_first, 0x26, "uc_write_first", "UC RDMA WRITE First", "RETH"},
    {uc_write_middle, 0x27, "uc_write_middle", "UC RDMA WRITE Middle", ""},
    {uc_write_last, 0x28, "uc_write_last", "UC RDMA WRITE Last", ""},
    {uc_write_last_imm, 0x29, "uc_write_last_imm", "UC RDMA WRITE Last with Immediate", "ImmDt"},
    {uc_write_only, 0x2A, "uc_write_only", "UC RDMA WRITE Only", "RETH"},
    {uc_write_only_imm, 0x2B, "uc_write_only_imm", "UC RDMA WRITE Only with Immediate",
     "RETH ImmDt"},
    {rd_send_first, 0x40, "rd_send_first", "RD SEND First", "RDETH DETH"},
    {rd_send_middle, 0x41, "rd_send_middle", "RD SEND Middle", "RDETH DETH"},
    {rd_send_last, 0x42, "rd_send_last", "RD SEND Last", "RDETH DETH"},
    {rd_send_last_imm, 0x43, "rd_send_last_imm", "RD SEND Last with Immediate", "RDETH DETH ImmDt"},
    {rd_send_only, 0x44, "rd_send_only", "RD SEND Only", "RDETH DETH"},
    {rd_send_only_imm, 0x45, "rd_send_only_imm", "RD SEND Only with Immediate", "RDETH DETH ImmDt"},
    {rd_write_first, 0x46, "rd_write_first", "RD RDMA WRITE First", "RDETH DETH RETH"},
    {rd_write_middle, 0x47, "rd_write_middle", "RD RDMA WRITE Middle", "RDETH DETH"},
    {rd_write_last, 0x48, "rd_write_last", "RD RDMA WRITE Last", "RDETH DETH"},
    {rd_write_last_imm, 0x49, "rd_write_last_imm", "RD RDMA WRITE Last with Immediate",
     "RDETH DETH ImmDt"},
    {rd_write_only, 0x4A, "rd_write_only", "RD RDMA WRITE Only", "RDETH DETH RETH"},
    {rd_write_only_imm, 0x4B, "rd_write_only_imm", "RD RDMA WRITE Only with Immediate",
     "RDETH DETH RETH ImmDt"},
    {rd_read_request, 0x4C, "rd_read_request", "RD RDMA READ Request", "RDETH DETH RETH"},
    {rd_read_response_first, 0x4D, "rd_read_response_first", "RD RDMA READ Response First",
     "RDETH AETH"},
    {rd_read_response_middle, 0x4E, "rd_read_response_middle", "RD RDMA READ Response Middle",
     "RDETH"},
    {rd_read_response_last, 0x4F, "rd_read_response_last", "RD RDMA READ Response Last",
     "RDETH AETH"},
    {rd_read_response_only, 0x50, "rd_read_response_only", "RD RDMA READ Response Only",
     "RDETH AETH"},
    {rd_acknowledge, 0x51, "rd_acknowledge", "RD Acknowledge", "RDETH AETH"},
    {rd_atomic_acknowledge, 0x52, "rd_atomic_acknowledge", "RD ATOMIC Acknowledge",
     "RDETH AETH AtomicAckETH"},
    {rd_compare_swap, 0x53, "rd_compare_swap", "RD CmpSwap", "RDETH DETH AtomicETH"},
    {rd_fetch_add, 0x54, "rd_fetch_add", "RD FetchAdd", "RDETH DETH AtomicETH"},
    {rd_resync, 0x55, "rd_resync", "RD RESYNC", "RDETH DETH"},
    {rd_flush, 0x5C, "rd_flush", "RD FLUSH", "RDETH DETH FETH RETH"},
    {ud_send_only, 0x64, "ud_send_only", "UD SEND Only", "DETH"},
    {ud_send_only_imm, 0x65, "ud_send_only_imm", "UD SEND Only with Immediate", "DETH ImmDt"},
    {cnp, 0x81, "cnp", "CNP", "reserved"},
    {xrc_send_first, 0xA0, "xrc_send_first", "XRC SEND First", "XRCETH"},
    {xrc_send_middle, 0xA1, "xrc_send_middle", "XRC SEND Middle", "XRCETH"},
    {xrc_send_last, 0xA2, "xrc_send_last", "XRC SEND Last", "XRCETH"},
    {xrc_send_last_imm, 0xA3, "xrc_send_last_imm", "XRC SEND Last with Immediate", "XRCETH ImmDt"},
    {xrc_send_only, 0xA4, "xrc_send_only", "XRC SEND Only", "XRCETH"},
    {xrc_send_only_imm, 0xA5, "xrc_send_only_imm", "XRC SEND Only with Immediate", "XRCETH ImmDt"},
    {xrc_write_first, 0xA6, "xrc_write_first", "XRC RDMA WRITE First", "XRCETH RETH"},
    {xrc_write_middle, 0xA7, "xrc_write_middle", "XRC RDMA WRITE Middle", "XRCETH"},
    {xrc_write_last, 0xA8, "xrc_write_last", "XRC RDMA WRITE Last", "XRCETH"},
    {xrc_write_last_imm, 0xA9, "xrc_write_last_imm", "XRC RDMA WRITE Last with Immediate",
     "XRCETH ImmDt"},
    {xrc_write_only, 0xAA, "xrc_write_only", "XRC RDMA WRITE Only", "XRCETH RETH"},
    {xrc_write_only_imm, 0xAB, "xrc_write_only_imm", "XRC RDMA WRITE Only with Immediate",
     "XRCETH RETH ImmDt"},
    {xrc_read_request, 0xAC, "xrc_read_request", "XRC RDMA READ Request", "XRCETH RETH"},
    {xrc_read_response_first, 0xAD, "xrc_read_response_first", "XRC RDMA READ Response First",
     "AETH"},
    {xrc_read_response_middle, 0xAE, "xrc_read_response_middle", "XRC RDMA READ Response Middle",
     ""},
    {xrc_read_response_last, 0xAF, "xrc_read_response_last", "XRC RDMA READ Response Last", "AETH"},
    {xrc_read_response_only, 0xB0, "xrc_read_response_only", "XRC RDMA READ Response Only", "AETH"},
    {xrc_acknowledge, 0xB1, "xrc_acknowledge", "XRC Acknowledge", "AETH"},
    {xrc_atomic_acknowledge, 0xB2, "xrc_atomic_acknowledge", "XRC ATOMIC Acknowledge",
     "AETH AtomicAckETH"},
    {xrc_compare_swap, 0xB3, "xrc_compare_swap", "XRC CmpSwap", "XRCETH AtomicETH"},
    {xrc_fetch_add, 0xB4, "xrc_fetch_add", "XRC FetchAdd", "XRCETH AtomicETH"},
    {xrc_send_last_inv, 0xB6, "xrc_send_last_inv", "XRC SEND Last with Invalidate", "XRCETH IETH"},
    {xrc_send_only_inv, 0xB7, "xrc_send_only_inv", "XRC SEND Only with Invalidate", "XRCETH IETH"},
};

std::string_view header_name(ExtHeader header) {
  constexpr std::string_view names[] = {"RDETH", "DETH",      "XRCETH",  "FETH",
                                        "RETH",  "AtomicETH", "AETH",    "AtomicAckETH",
                                        "ImmDt", "IETH",      "reserved"};
  return names[static_cast<std::size_t>(header)];
}

std::string headers_of(const OpcodeInfo& info) {
  std::string text;
  for (const ExtHeader header : info.ext_headers) {
    text += text.empty() ? "" : " ";
    text += header_name(header);
  }
  return text;
}

/// Sizes of IBTA vol 1, 9.2 and 9.3, annexes A14, A17 and A19.
const std::map<std::string_view, std::size_t> header_sizes{
    {"BTH", 12}, {"RDETH", 4},        {"DETH", 8},  {"XRCETH", 4},
    {"FETH", 4}, {"RETH", 16},        {"AETH", 4},  {"AtomicETH", 28},
    {"IETH", 4}, {"AtomicAckETH", 8}, {"ImmDt", 4}, {"reserved", 16}};

}  // namespace

// A wrong value, name or header list of any opcode shows here.
TEST_CASE("the opcode table agrees with the specification's list") {
  REQUIRE(std::size(rows) == opcode_count);
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(static_cast<unsigned>(row.opcode) == row.value);
    const OpcodeInfo& info = opcode_info(row.opcode);
    CHECK(info.is_known);
    CHECK(info.opcode == row.opcode);
    CHECK(opcode_name(row.opcode) == row.name);
    CHECK(opcode_identifier(row.opcode) == row.identifier);
    CHECK(opcode_from_identifier(row.identifier) == row.opcode);
    CHECK(headers_of(info) == row.headers);
  }
}

// Bytes outside of the list must not be taken for packets.
TEST_CASE("opcodes that the specification reserves are unknown") {
  std::vector<bool> is_listed(256);
  for (const Row& row : rows) {
    is_listed[row.value] = true;
  }
  for (unsigned value = 0; value < 256; ++value) {
    INFO(value);
    CHECK(opcode_info(Opcode(value)).is_known == is_listed[value]);
    CHECK((opcode_name(Opcode(value)) == "reserved") == !is_listed[value]);
    CHECK((opcode_identifier(Opcode(value)) == "reserved") == !is_listed[value]);
  }
  CHECK(!opcode_from_identifier("reserved"));
  CHECK(!opcode_from_identifier("rc_send"));
}

// Offsets are derived: they must add up to the sizes of the specification.
TEST_CASE("header sizes and offsets follow from the list of headers") {
  for (const Opcode opcode : opcodes) {
    INFO(opcode_name(opcode));
    const OpcodeInfo& info = opcode_info(opcode);
    std::size_t offset = header_sizes.at("BTH");
    std::size_t listed = 0;
    for (const ExtHeader header : info.ext_headers) {
      CHECK(info.has(header));
      CHECK(info.offset_of(header) == offset);
      offset += header_sizes.at(header_name(header));
      ++listed;
    }
    CHECK(info.header_bytes == offset);
    std::size_t present = 0;
    for (std::size_t header = 0; header < ext_header_count; ++header) {
      present += info.has(ExtHeader(header)) ? 1U : 0U;
    }
    CHECK(present == listed);
  }
}

// The state machines follow these properties; names are an independent source of them.
TEST_CASE("position, role and headers agree with the opcode's name") {
  for (const Opcode opcode : opcodes) {
    const std::string_view name = opcode_name(opcode);
    INFO(name);
    const OpcodeInfo& info = opcode_info(opcode);
    const auto says = [name](std::string_view word) { return name.find(word) != name.npos; };
    CHECK(info.starts_message() == !(says("Middle") || says("Last")));
    CHECK(info.ends_message() == !(says("First") || says("Middle")));
    CHECK((info.position == Position::middle) == says("Middle"));
    CHECK(info.has_immediate() == says("Immediate"));
    CHECK(info.has_invalidate() == says("Invalidate"));
    CHECK(info.is_response() == (says("Response") || says("cknowledge")));
    CHECK(info.is_request() == (!info.is_response() && name != "CNP"));
    CHECK(info.may_have_payload() ==
          (says("SEND") || says("RDMA WRITE") || says("Response") || says("ATOMIC WRITE")));
  }
}

// IBTA vol 1, 9.7.4.1.7: what a packet's payload may be at a path MTU.
TEST_CASE("payload limits follow from the position in the message") {
  const auto limits = [](Opcode opcode) {
    const PayloadLimits result = payload_limits(opcode_info(opcode), 1024);
    return std::pair(result.bytes_min, result.bytes_max);
  };
  CHECK(limits(Opcode::rc_send_first) == std::pair<std::size_t, std::size_t>(1024, 1024));
  CHECK(limits(Opcode::rc_write_middle) == std::pair<std::size_t, std::size_t>(1024, 1024));
  CHECK(limits(Opcode::rc_read_response_last) == std::pair<std::size_t, std::size_t>(1, 1024));
  CHECK(limits(Opcode::uc_send_only_imm) == std::pair<std::size_t, std::size_t>(0, 1024));
  CHECK(limits(Opcode::rc_acknowledge) == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(limits(Opcode::rc_atomic_write) == std::pair<std::size_t, std::size_t>(8, 8));
}

}  // namespace verbena::ib
