// Facts of the pcapng format (draft-ietf-opsawg-pcapng-02), for writer and reader, and the limits
// that the reader sets on hostile files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::pcap {

/// Block types (section 11.1 of the draft).
enum class BlockType : std::uint32_t {
  section_header = 0x0A0D'0D0A,
  interface_description = 1,
  obsolete_packet = 2,
  simple_packet = 3,
  interface_statistics = 5,
  enhanced_packet = 6,
};

/// Option codes. Those below 2 mean the same in every block, the others belong to one block type
/// (3.5, 4.1, 4.2, 4.3, 4.6).
namespace option {
inline constexpr std::uint16_t end_of_options = 0;
inline constexpr std::uint16_t comment = 1;
inline constexpr std::uint16_t shb_hardware = 2;
inline constexpr std::uint16_t shb_os = 3;
inline constexpr std::uint16_t shb_userappl = 4;
inline constexpr std::uint16_t if_name = 2;
inline constexpr std::uint16_t if_description = 3;
inline constexpr std::uint16_t if_tsresol = 9;
inline constexpr std::uint16_t if_tsoffset = 14;
inline constexpr std::uint16_t epb_flags = 2;
inline constexpr std::uint16_t isb_ifrecv = 4;
inline constexpr std::uint16_t isb_ifdrop = 5;
}  // namespace option

inline constexpr std::uint32_t byte_order_magic = 0x1A2B'3C4D;
/// The section's length is not known while it is written.
inline constexpr std::uint64_t section_length_unknown = ~std::uint64_t{0};
/// if_tsresol: times are counted in units of 10^-9 s.
inline constexpr std::uint8_t tsresol_nanoseconds = 9;
/// Times are in microseconds unless the interface says otherwise (4.2).
inline constexpr std::uint8_t tsresol_default = 6;

/// LINKTYPE_ETHERNET (www.tcpdump.org/linktypes.html).
inline constexpr std::uint16_t linktype_ethernet = 1;

/// Everything in a block is padded to this (3.1).
inline constexpr std::size_t alignment_bytes = 4;
/// Type and length before the body, length again behind it (3.1).
inline constexpr std::size_t block_overhead_bytes = 12;
/// An option's length is 16 bits.
inline constexpr std::size_t max_option_bytes = 0xFFFF;

/// The largest block that the reader takes. Blocks of real captures hold one frame of at most
/// 256 KiB (libpcap's MAXIMUM_SNAPLEN) and a few options; libpcap's own limit is 16 MiB too.
inline constexpr std::uint32_t max_block_bytes = 16 * 1024 * 1024;
/// Interfaces per section. A file that describes more is hostile or broken.
inline constexpr std::uint32_t max_interfaces = 65'536;

[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

}  // namespace verbena::pcap
