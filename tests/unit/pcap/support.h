// Captures in memory and in temporary files, for the tests of pcap/.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "pcap/pcapng_blocks.h"
#include "pcap/pcapng_writer.h"
#include "pcap/reader.h"

namespace verbena::pcap::test {

using Bytes = std::vector<std::byte>;

/// A directory that goes away with its owner.
class TempDir {
 public:
  TempDir() : path_(make()) {}
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  static std::string make() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-XXXXXX").string();
    return ::mkdtemp(name.data()) == nullptr ? std::string() : name;
  }
  std::string path_;
};

inline Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ByteView bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A frame of `size` bytes that count up from `first`.
inline Bytes counting_frame(std::size_t size, unsigned first = 0) {
  Bytes frame(size);
  for (std::size_t i = 0; i < size; ++i) {
    frame[i] = static_cast<std::byte>(first + i);
  }
  return frame;
}

/// A packet whose bytes and texts are its own.
struct OwnedPacket {
  std::optional<UnixTime> time;
  Bytes frame;
  std::uint32_t wire_bytes = 0;
  Direction direction{};
  std::string interface_name;
  std::vector<std::string> comments;
  std::uint64_t offset = 0;
};

struct ReadAll {
  std::vector<OwnedPacket> packets;
  std::optional<ReadError> error;
};

inline ReadAll read_all(ByteView capture) {
  ReadAll all;
  auto reader = Reader::from_bytes(capture);
  if (!reader) {
    all.error = reader.error();
    return all;
  }
  for (;;) {
    const auto packet = reader->next();
    if (!packet) {
      all.error = packet.error();
      return all;
    }
    if (!*packet) {
      return all;
    }
    const Packet& p = **packet;
    all.packets.push_back({.time = p.time,
                           .frame = Bytes(p.frame.begin(), p.frame.end()),
                           .wire_bytes = p.wire_bytes,
                           .direction = p.direction,
                           .interface_name = std::string(p.interface_name),
                           .comments = {p.comments.begin(), p.comments.end()},
                           .offset = p.offset});
  }
}

/// Numbers in a chosen byte order, for captures that our writer doesn't write.
class RawBytes {
 public:
  explicit RawBytes(bool is_swapped = false) : is_swapped_(is_swapped) {}

  template <class T>
  RawBytes& number(T value) {
    const T stored = is_swapped_ ? std::byteswap(value) : value;
    const ByteView bytes = bytes_of(stored);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  RawBytes& u16(std::uint16_t value) { return number(value); }
  RawBytes& u32(std::uint32_t value) { return number(value); }
  RawBytes& u64(std::uint64_t value) { return number(value); }
  RawBytes& raw(ByteView bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  RawBytes& text(std::string_view text) { return raw(std::as_bytes(std::span(text))); }
  /// Appends a pcapng block around `body`.
  RawBytes& block(std::uint32_t type, const RawBytes& body) {
    const auto size = static_cast<std::uint32_t>(body.bytes_.size() + 12);
    return u32(type).u32(size).raw(body.bytes_).u32(size);
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  bool is_swapped_;
  Bytes bytes_;
};

/// A classic pcap file header for Ethernet.
inline RawBytes classic_header(std::uint32_t magic, bool is_swapped = false,
                               std::uint32_t link_type = 1) {
  RawBytes out(is_swapped);
  out.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(262'144).u32(link_type);
  return out;
}

inline constexpr std::uint32_t magic_microseconds = 0xA1B2'C3D4;
inline constexpr std::uint32_t magic_nanoseconds = 0xA1B2'3C4D;

}  // namespace verbena::pcap::test
