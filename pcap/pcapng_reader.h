// pcapng files (draft-ietf-opsawg-pcapng): any number of sections, either byte order, enhanced,
// simple and obsolete packet blocks, with comments, direction and interface names. Other blocks are
// passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/byte_source.h"
#include "pcap/pcapng_format.h"
#include "pcap/reader.h"

namespace verbena::pcap {

class PcapngReader final : public PacketSource {
 public:
  explicit PcapngReader(ByteSource bytes) : bytes_(std::move(bytes)) {}

  Result<std::optional<Packet>, ReadError> next() override;

 private:
  struct Interface {
    std::string name;
    std::uint16_t link_type = linktype_ethernet;
    /// Bytes kept of a frame, 0 for all.
    std::uint32_t snap_bytes = 0;
    /// Units of its timestamps.
    std::uint64_t ticks_per_second = 1'000'000;
    std::int64_t offset_seconds = 0;
  };
  class Cursor;
  template <class T>
  using Parsed = Result<T, ReadError>;

  /// Reads one block into body_; nullopt at the end of the file.
  Parsed<std::optional<BlockType>> read_block();
  Parsed<void> read_byte_order();
  Parsed<std::optional<Packet>> parse_block(BlockType type);
  static Parsed<std::optional<Packet>> no_packet(Parsed<void> parsed);
  Parsed<void> parse_section_header();
  Parsed<void> parse_interface();
  Parsed<Packet> parse_packet(bool is_obsolete);
  Parsed<Packet> parse_simple_packet();
  Parsed<void> parse_packet_options(Cursor& cursor, Packet& packet);
  Parsed<void> describe_interface(Packet& packet, std::uint32_t number) const;
  [[nodiscard]] ReadError garbage(const std::string& what) const;

  ByteSource bytes_;
  bool is_swapped_ = false;
  std::vector<Interface> interfaces_;
  /// The block that is being read: where it began, and what lies between its two lengths.
  std::uint64_t block_offset_ = 0;
  std::vector<std::byte> body_;
  std::vector<std::string_view> comments_;
};

}  // namespace verbena::pcap
