// What rsockets put on the wire: byte streams as RDMA writes, datagrams as sends.
// Read first: rdma-core's librdmacm/docs/rsocket.
//
// Each end of a stream exposes a ring of memory, half by half. The other end fills what it was
// offered with RDMA writes that carry an immediate value, the message:
//
//     REQ, REP    ConnectData: the first half, and where further offers are to be written
//     ─ data ──▶  bytes into what was offered; the message says how many
//     ◀─ sgl ───  room again: messages that may be sent, and perhaps the next half (an Sge, written
//                 into the sender's list of targets)
//     ─ ctrl ──▶  shutdown: no more data will come; disconnect: nor is any taken
//
// iWARP has no immediate data: there the message is a SEND of 4 bytes, in its sender's byte order,
// behind the write.
//
// Numbers in ConnectData are big endian, those in memory in the byte order of their owner.
#pragma once

#include <array>
#include <boost/endian/buffers.hpp>
#include <boost/endian/conversion.hpp>
#include <cstdint>

#include "base/bytes.h"

namespace verbena::rsocket {

/// The version of ConnectData that we speak.
inline constexpr std::uint8_t protocol_version = 1;

/// Memory of the peer's.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;

  friend bool operator==(const Sge&, const Sge&) = default;
};
static_assert(sizeof(Sge) == 16);

/// For a peer of the other byte order.
inline void swap_bytes(Sge& sge) {
  boost::endian::endian_reverse_inplace(sge.address);
  boost::endian::endian_reverse_inplace(sge.key);
  boost::endian::endian_reverse_inplace(sge.length);
}

struct WireSge {
  boost::endian::big_uint64_buf_t address{};
  boost::endian::big_uint32_buf_t key{};
  boost::endian::big_uint32_buf_t length{};
};

/// An entry of the list of mapped memory.
struct MapEntry {
  std::uint64_t offset = 0;
  Sge memory;
};
static_assert(sizeof(MapEntry) == 24);

/// The private data of REQ and REP.
struct ConnectData {
  static constexpr std::uint8_t is_big_endian = 1 << 0;
  static constexpr std::uint8_t knows_maps = 1 << 1;

  std::uint8_t version = protocol_version;
  std::uint8_t flags = knows_maps;
  /// Messages that the other end may send at first.
  boost::endian::big_uint16_buf_t credits{};
  std::array<std::uint8_t, 3> reserved{};
  /// Entries for mapped memory, behind the list of targets: see map_entries().
  std::uint8_t map_entries = 0;
  /// The list of targets; its length counts entries.
  WireSge targets;
  /// What is offered first.
  WireSge first_half;
};
static_assert(is_wire_struct<ConnectData, 40>);

/// Numbers of entries above 128 are sent divided by 256, with the upper bit set.
[[nodiscard]] constexpr std::uint8_t scaled_map_entries(std::uint16_t entries) {
  constexpr std::uint16_t exact_max = 128;
  return static_cast<std::uint8_t>(entries <= exact_max ? entries : exact_max | entries >> 8);
}
[[nodiscard]] constexpr std::uint16_t map_entries(std::uint8_t scaled) {
  constexpr std::uint8_t exact_max = 128;
  return static_cast<std::uint16_t>(scaled <= exact_max ? scaled : (scaled & 0x7F) << 8);
}
static_assert(map_entries(scaled_map_entries(100)) == 100);
static_assert(map_entries(scaled_map_entries(0x1234)) == 0x1200);

/// The upper three bits of an immediate value; others than these are reserved.
enum class Operation : std::uint8_t { data = 0, sgl = 4, map = 6, control = 7 };
enum class Control : std::uint8_t { disconnect = 0, keepalive = 1, shutdown = 2 };

struct Message {
  Operation operation{};
  /// Data: bytes. Sgl: up to which message the other may send, modulo 2^16. Map: which entry.
  std::uint32_t value = 0;
};

inline constexpr unsigned operation_shift = 29;

[[nodiscard]] constexpr std::uint32_t encode(const Message& message) {
  return static_cast<std::uint32_t>(message.operation) << operation_shift | message.value;
}
[[nodiscard]] constexpr Message decode(std::uint32_t immediate) {
  return {.operation = static_cast<Operation>(immediate >> operation_shift),
          .value = immediate & ((1U << operation_shift) - 1)};
}

/// How many halves may be on offer.
inline constexpr std::uint32_t targets = 2;

// --- Datagrams

/// In front of each datagram that goes from queue pair to queue pair: where it comes from.
struct DatagramHeader {
  std::uint8_t version = 0;
  std::uint8_t length = 0;
  boost::endian::big_uint16_buf_t port{};
  /// IPv4: the address, and that's all. IPv6: flow information, and then the address.
  std::array<std::byte, 20> address{};
};
static_assert(is_wire_struct<DatagramHeader, 24>);
inline constexpr std::uint8_t datagram_header_bytes_v4 = 8;
inline constexpr std::uint8_t datagram_header_bytes_v6 = 24;

/// In front of what goes through the UDP socket: the sender's queue pair.
struct UdpHeader {
  static constexpr std::uint32_t marker = 0x5555'5555;

  boost::endian::big_uint32_buf_t tag{};
  std::uint8_t version = 0;
  /// An Operation: data, followed by a datagram, or control, which only tells the queue pair.
  std::uint8_t operation = 0;
  std::uint8_t length = 0;
  std::uint8_t reserved = 0;
  boost::endian::big_uint32_buf_t qpn{};
  std::array<std::byte, 16> address{};
};
static_assert(is_wire_struct<UdpHeader, 28>);
inline constexpr std::uint8_t udp_header_bytes_v4 = 16;
inline constexpr std::uint8_t udp_header_bytes_v6 = 28;

}  // namespace verbena::rsocket
