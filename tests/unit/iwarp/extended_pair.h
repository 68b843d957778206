// Two stream queue pairs that have RFC 7306, and its messages in hexadecimal digits.
#pragma once

#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/unit/iwarp/stream_pair.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {
namespace extended {

inline constexpr std::uint32_t key = 0x100;
inline constexpr std::uint32_t no_atomics_key = 0x200;
inline constexpr std::uint32_t other_pd_key = 0x300;
inline constexpr std::uint64_t base = 0x1000;
inline constexpr std::size_t region_bytes = 120'000;
inline constexpr std::uint32_t immediate = 0x0102'0304;

inline std::string hex32(std::uint32_t value) {
  const boost::endian::big_uint32_buf_t wire(value);
  return to_hex(bytes_of(wire));
}
inline std::string hex64(std::uint64_t value) {
  const boost::endian::big_uint64_buf_t wire(value);
  return to_hex(bytes_of(wire));
}

inline Sge piece(std::uint64_t offset, std::uint32_t length) {
  return {.addr = Va{base + offset}, .length = length, .lkey = Lkey{key}};
}

/// Both have the extensions, unless told otherwise, and memory for everything.
struct Extended : StreamPair {
  explicit Extended(const iwarp::MpaAgreement& agreement = plain_agreement(),
                    const iwarp::StreamQp::Limits& of_b = extended_limits)
      : StreamPair(agreement, 1460, extended_limits, of_b) {
    Prng prng(5);
    for (StreamSide* side : {&a, &b}) {
      side->memory.add(key, base, region_bytes, Access::local_write | all_remote).bytes =
          random_bytes(prng, region_bytes);
      side->memory.add(no_atomics_key, base, region_bytes,
                       Access::remote_write | Access::remote_read);
      side->memory.add(other_pd_key, base, region_bytes, all_remote, PdId{2});
    }
  }
};

inline std::uint64_t number_at(StreamSide& side, std::uint64_t offset) {
  std::uint64_t value = 0;
  const auto bytes = ByteView(side.memory.at(key).bytes).subspan(offset, sizeof value);
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(&value, 1)).begin());
  return value;
}
inline void set_number(StreamSide& side, std::uint64_t offset, std::uint64_t value) {
  std::ranges::copy(bytes_of(value),
                    side.memory.at(key).bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

inline SendWr write_with_imm(std::span<const Sge> sges, std::uint64_t to) {
  return {.wr_id = 1,
          .opcode = WrOpcode::rdma_write_with_imm,
          .signaled = true,
          .sges = sges,
          .imm = ImmData{immediate},
          .remote_addr = Va{base + to},
          .rkey = Rkey{key}};
}
inline SendWr fetch_add(std::span<const Sge> sges, std::uint64_t at, std::uint64_t addend) {
  return {.wr_id = 1,
          .opcode = WrOpcode::atomic_fetch_and_add,
          .signaled = true,
          .sges = sges,
          .remote_addr = Va{base + at},
          .rkey = Rkey{key},
          .compare_add = addend};
}
inline SendWr compare_swap(std::span<const Sge> sges, std::uint64_t at, std::uint64_t compare,
                           std::uint64_t swap) {
  SendWr wr = fetch_add(sges, at, compare);
  wr.opcode = WrOpcode::atomic_cmp_and_swp;
  wr.swap = swap;
  return wr;
}
inline SendWr read_of(std::span<const Sge> sges, std::uint64_t from) {
  SendWr wr = fetch_add(sges, from, 0);
  wr.opcode = WrOpcode::rdma_read;
  return wr;
}

inline Bytes fpdu_around(const std::string& ulpdu_hex) {
  iwarp::FpduWriter writer({.markers = false, .crc = true});
  const Bytes ulpdu = from_hex(ulpdu_hex);
  Bytes fpdu(writer.size_of(ulpdu.size()));
  copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
  writer.finish(fpdu, ulpdu.size());
  return fpdu;
}

/// The ULPDUs of a stream, in hexadecimal digits.
inline std::vector<std::string> ulpdus_of(ByteView stream) {
  iwarp::FpduReceiver receiver({.markers = false, .crc = true});
  std::vector<std::string> ulpdus;
  while (!stream.empty()) {
    const auto fpdu = receiver.next(stream);
    REQUIRE(fpdu);
    REQUIRE(*fpdu);
    ulpdus.push_back(to_hex((*fpdu)->ulpdu));
  }
  return ulpdus;
}

inline std::string untagged(const std::string& control, std::uint32_t queue, std::uint32_t msn,
                            std::uint32_t offset = 0) {
  return control + hex32(0) + hex32(queue) + hex32(msn) + hex32(offset);
}
inline std::string immediate_segment(std::uint32_t msn, std::size_t bytes = 8,
                                     const std::string& control = "4148",
                                     std::uint32_t offset = 0) {
  return untagged(control, 0, msn, offset) + std::string(2 * bytes, '7');
}

struct Masked {
  std::uint32_t operation = 0;
  std::uint64_t data = 0;
  std::uint64_t mask = 0;
  std::uint64_t compare = 0;
  std::uint64_t compare_mask = 0;
};
inline std::string atomic_segment(std::uint32_t msn, std::uint32_t stag, std::uint64_t offset,
                                  const Masked& masked = {}, const std::string& control = "414a",
                                  std::uint32_t message_offset = 0) {
  return untagged(control, 1, msn, message_offset) + hex32(masked.operation) + hex32(77) +
         hex32(stag) + hex64(offset) + hex64(masked.data) + hex64(masked.mask) +
         hex64(masked.compare) + hex64(masked.compare_mask);
}
inline std::string response_segment(std::uint32_t msn, std::uint32_t identifier,
                                    const std::string& control = "414b", std::uint32_t offset = 0) {
  return untagged(control, 3, msn, offset) + hex32(identifier) + hex64(42);
}

}  // namespace extended
}  // namespace verbena::test
