#include "pcap/pcapng_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/ids.h"

namespace verbena::pcap {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr std::uint64_t ns_per_second = 1'000'000'000;
constexpr std::size_t head_bytes = 8;
constexpr std::size_t tail_bytes = block_overhead_bytes - head_bytes;

/// if_tsresol: a power of 2 if the top bit is set, else of 10 (4.2). 0 if it doesn't fit 64 bits.
std::uint64_t ticks_per_second(std::uint8_t tsresol) {
  constexpr std::uint8_t is_binary = 0x80;
  constexpr int max_decimal_exponent = 19;
  const int exponent = tsresol & ~is_binary;
  if ((tsresol & is_binary) != 0) {
    return exponent < 64 ? std::uint64_t{1} << exponent : 0;
  }
  if (exponent > max_decimal_exponent) {
    return 0;
  }
  std::uint64_t ticks = 1;
  for (int i = 0; i < exponent; ++i) {
    ticks *= 10;
  }
  return ticks;
}

/// Saturates: a hostile time is the end of time, not an overflow.
UnixTime to_unix_time(std::uint64_t ticks, std::uint64_t per_second, std::int64_t offset_seconds) {
  constexpr std::int64_t max_seconds =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(ns_per_second) - 1;
  const std::uint64_t whole = std::min<std::uint64_t>(ticks / per_second, max_seconds);
  const std::int64_t offset = std::clamp(offset_seconds, -max_seconds, max_seconds);
  const std::int64_t seconds =
      std::clamp(static_cast<std::int64_t>(whole) + offset, -max_seconds, max_seconds);
  const auto ns =
      static_cast<std::int64_t>(Uint128{ticks % per_second} * ns_per_second / per_second);
  return UnixTime(std::chrono::seconds(seconds) + std::chrono::nanoseconds(ns));
}

std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

/// Walks through the body of a block; nothing is ever read behind its end.
class PcapngReader::Cursor {
 public:
  Cursor(ByteView body, bool is_swapped) : rest_(body), is_swapped_(is_swapped) {}

  [[nodiscard]] std::size_t size() const { return rest_.size(); }
  [[nodiscard]] bool has(std::size_t size) const { return rest_.size() >= size; }

  /// The caller has checked with has().
  template <class T>
  T number() {
    return number_at<T>(take(sizeof(T)));
  }
  ByteView take(std::size_t size) {
    const ByteView taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  /// Takes the bytes and their padding, which may be missing at the very end.
  ByteView take_padded(std::size_t size) {
    const ByteView taken = take(size);
    rest_ = rest_.subspan(std::min(padded(size) - size, rest_.size()));
    return taken;
  }

  template <class T>
  [[nodiscard]] T number_at(ByteView bytes) const {
    const T value = read_struct<T>(bytes);
    return is_swapped_ ? std::byteswap(value) : value;
  }

  /// Calls on_option(code, value) for each option that follows. False if the list runs past the
  /// block or on_option() says false.
  template <class OnOption>
  bool for_each_option(OnOption on_option) {
    while (has(2 * sizeof(std::uint16_t))) {
      const auto code = number<std::uint16_t>();
      const auto size = number<std::uint16_t>();
      if (code == option::end_of_options) {
        return true;
      }
      if (!has(size) || !on_option(code, take_padded(size))) {
        return false;
      }
    }
    return size() == 0;
  }

 private:
  ByteView rest_;
  bool is_swapped_;
};

ReadError PcapngReader::garbage(const std::string& what) const {
  return garbage_error(block_offset_, what);
}

Result<std::optional<Packet>, ReadError> PcapngReader::next() {
  for (;;) {
    const auto type = read_block();
    if (!type) {
      return std::unexpected(type.error());
    }
    if (!*type) {
      return std::nullopt;
    }
    auto packet = parse_block(**type);
    if (!packet || *packet) {
      return packet;
    }
  }
}

/// The section's byte order is told by the word behind the header block's length, which is needed
/// to read that length.
auto PcapngReader::read_byte_order() -> Parsed<void> {
  const ByteView magic_bytes = bytes_.peek(sizeof(byte_order_magic));
  if (magic_bytes.size() < sizeof(byte_order_magic)) {
    return std::unexpected(
        truncated_error(bytes_.offset() + magic_bytes.size(), block_offset_, "section header"));
  }
  const auto magic = read_struct<std::uint32_t>(magic_bytes);
  if (magic != byte_order_magic && std::byteswap(magic) != byte_order_magic) {
    return std::unexpected(garbage("a section header without a byte-order magic"));
  }
  is_swapped_ = magic != byte_order_magic;
  return {};
}

auto PcapngReader::read_block() -> Parsed<std::optional<BlockType>> {
  block_offset_ = bytes_.offset();
  std::array<std::byte, head_bytes> head{};
  const std::size_t got = bytes_.read(head);
  if (bytes_.error_number() != 0) {
    return std::unexpected(system_error(bytes_.offset(), bytes_.error_number()));
  }
  if (got == 0) {
    return std::nullopt;
  }
  if (got < head.size()) {
    return std::unexpected(truncated_error(bytes_.offset(), block_offset_, "block"));
  }
  // A section header's type reads the same in both byte orders.
  if (read_struct<std::uint32_t>(head) == to_value(BlockType::section_header)) {
    if (const auto order = read_byte_order(); !order) {
      return std::unexpected(order.error());
    }
  }
  Cursor cursor(head, is_swapped_);
  const auto type = cursor.number<std::uint32_t>();
  const auto size = cursor.number<std::uint32_t>();
  if (size < block_overhead_bytes || size % alignment_bytes != 0 || size > max_block_bytes) {
    return std::unexpected(garbage("a block of type " + std::to_string(type) + " with length " +
                                   std::to_string(size)));
  }
  body_.resize(size - head_bytes);
  if (bytes_.read(body_) < body_.size()) {
    return std::unexpected(bytes_.error_number() != 0
                               ? system_error(bytes_.offset(), bytes_.error_number())
                               : truncated_error(bytes_.offset(), block_offset_, "block"));
  }
  const auto tail = cursor.number_at<std::uint32_t>(ByteView(body_).last(tail_bytes));
  if (tail != size) {
    return std::unexpected(garbage("a block whose length is " + std::to_string(size) +
                                   " at its begin but " + std::to_string(tail) + " at its end"));
  }
  body_.resize(body_.size() - tail_bytes);
  return BlockType{type};
}

auto PcapngReader::no_packet(Parsed<void> parsed) -> Parsed<std::optional<Packet>> {
  if (!parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  return std::nullopt;
}

auto PcapngReader::parse_block(BlockType type) -> Parsed<std::optional<Packet>> {
  switch (type) {
    case BlockType::section_header:
      return no_packet(parse_section_header());
    case BlockType::interface_description:
      return no_packet(parse_interface());
    case BlockType::enhanced_packet:
      return parse_packet(false);
    case BlockType::obsolete_packet:
      return parse_packet(true);
    case BlockType::simple_packet:
      return parse_simple_packet();
    default:
      return std::nullopt;
  }
}

auto PcapngReader::parse_section_header() -> Parsed<void> {
  constexpr std::size_t fixed_bytes = 16;
  Cursor cursor(body_, is_swapped_);
  if (!cursor.has(fixed_bytes)) {
    return std::unexpected(garbage("a section header that is too short"));
  }
  cursor.take(sizeof(byte_order_magic));
  const auto major = cursor.number<std::uint16_t>();
  if (major != 1) {
    return std::unexpected(ReadError{.kind = ReadError::Kind::unsupported,
                                     .offset = block_offset_,
                                     .text = "byte " + std::to_string(block_offset_) +
                                             ": pcapng of version " + std::to_string(major) +
                                             ", only version 1 is known"});
  }
  interfaces_.clear();
  return {};
}

auto PcapngReader::parse_interface() -> Parsed<void> {
  constexpr std::size_t fixed_bytes = 8;
  Cursor cursor(body_, is_swapped_);
  if (!cursor.has(fixed_bytes)) {
    return std::unexpected(garbage("an interface description that is too short"));
  }
  if (interfaces_.size() >= max_interfaces) {
    return std::unexpected(garbage("more than " + std::to_string(max_interfaces) + " interfaces"));
  }
  Interface interface;
  interface.link_type = cursor.number<std::uint16_t>();
  cursor.take(sizeof(std::uint16_t));
  interface.snap_bytes = cursor.number<std::uint32_t>();
  const bool is_good = cursor.for_each_option([&](std::uint16_t code, ByteView value) {
    if (code == option::if_name) {
      interface.name = as_text(value);
    } else if (code == option::if_tsresol && value.size() == 1) {
      interface.ticks_per_second = ticks_per_second(std::to_integer<std::uint8_t>(value[0]));
    } else if (code == option::if_tsoffset && value.size() == sizeof(std::int64_t)) {
      interface.offset_seconds = cursor.number_at<std::int64_t>(value);
    }
    return interface.ticks_per_second != 0;
  });
  if (!is_good) {
    return std::unexpected(garbage("an interface description with broken options"));
  }
  interfaces_.push_back(std::move(interface));
  return {};
}

auto PcapngReader::describe_interface(Packet& packet, std::uint32_t number) const -> Parsed<void> {
  if (number >= interfaces_.size()) {
    return std::unexpected(garbage("a packet of interface " + std::to_string(number) +
                                   ", of which there is no description"));
  }
  const Interface& interface = interfaces_[number];
  if (interface.link_type != linktype_ethernet) {
    return std::unexpected(link_type_error(block_offset_, std::to_string(interface.link_type)));
  }
  packet.interface = InterfaceId{number};
  packet.interface_name = interface.name;
  packet.offset = block_offset_;
  return {};
}

auto PcapngReader::parse_packet(bool is_obsolete) -> Parsed<Packet> {
  constexpr std::size_t fixed_bytes = 20;
  Cursor cursor(body_, is_swapped_);
  if (!cursor.has(fixed_bytes)) {
    return std::unexpected(garbage("a packet block that is too short"));
  }
  std::uint32_t number = 0;
  if (is_obsolete) {
    number = cursor.number<std::uint16_t>();
    cursor.take(sizeof(std::uint16_t));  // its count of dropped packets
  } else {
    number = cursor.number<std::uint32_t>();
  }
  Packet packet;
  if (const auto described = describe_interface(packet, number); !described) {
    return std::unexpected(described.error());
  }
  const Interface& interface = interfaces_[number];
  const std::uint64_t high = cursor.number<std::uint32_t>();
  const std::uint64_t low = cursor.number<std::uint32_t>();
  packet.time =
      to_unix_time(high << 32 | low, interface.ticks_per_second, interface.offset_seconds);
  const auto captured = cursor.number<std::uint32_t>();
  packet.wire_bytes = cursor.number<std::uint32_t>();
  if (!cursor.has(captured)) {
    return std::unexpected(garbage("a packet block of which the packet, " +
                                   std::to_string(captured) + " bytes, sticks out"));
  }
  packet.frame = cursor.take_padded(captured);
  if (const auto options = parse_packet_options(cursor, packet); !options) {
    return std::unexpected(options.error());
  }
  return packet;
}

auto PcapngReader::parse_packet_options(Cursor& cursor, Packet& packet) -> Parsed<void> {
  constexpr std::uint32_t direction_mask = 3;
  comments_.clear();
  const bool is_good = cursor.for_each_option([&](std::uint16_t code, ByteView value) {
    if (code == option::comment) {
      comments_.push_back(as_text(value));
    } else if (code == option::epb_flags && value.size() == sizeof(std::uint32_t)) {
      const std::uint32_t bits = cursor.number_at<std::uint32_t>(value) & direction_mask;
      packet.direction =
          bits == direction_mask ? Direction::unknown : Direction{static_cast<std::uint8_t>(bits)};
    }
    return true;
  });
  if (!is_good) {
    return std::unexpected(garbage("a packet block with broken options"));
  }
  packet.comments = comments_;
  return {};
}

auto PcapngReader::parse_simple_packet() -> Parsed<Packet> {
  Cursor cursor(body_, is_swapped_);
  if (!cursor.has(sizeof(std::uint32_t))) {
    return std::unexpected(garbage("a simple packet block that is too short"));
  }
  Packet packet;
  if (const auto described = describe_interface(packet, 0); !described) {
    return std::unexpected(described.error());
  }
  packet.wire_bytes = cursor.number<std::uint32_t>();
  std::size_t captured = packet.wire_bytes;
  if (const std::uint32_t snap = interfaces_[0].snap_bytes; snap != 0) {
    captured = std::min<std::size_t>(captured, snap);
  }
  if (!cursor.has(captured)) {
    return std::unexpected(garbage("a simple packet block that is shorter than its packet"));
  }
  packet.frame = cursor.take(captured);
  return packet;
}

}  // namespace verbena::pcap
