// Reads captures: pcapng with our own reader, because libpcap keeps directions and comments to
// itself, classic pcap (micro- or nanoseconds, either byte order) through libpcap. From a file, a
// pipe that is still being written, or memory. Ethernet only.
//
// Every byte is hostile. A file that is cut short or broken is told at its byte offset, and every
// packet before that place has been handed out by then.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/read_error.h"
#include "pcap/record.h"

namespace verbena::pcap {

class ByteSource;

/// One frame of a capture. The bytes and texts live until the next call of Reader::next().
struct Packet {
  InterfaceId interface{};
  /// Empty if the file doesn't tell.
  std::string_view interface_name{};
  /// Absent in a simple packet block, which has none.
  std::optional<UnixTime> time;
  /// What was captured of the frame: all of it, or its first bytes.
  ByteView frame{};
  /// Size of the frame on the wire.
  std::uint32_t wire_bytes = 0;
  Direction direction = Direction::unknown;
  std::span<const std::string_view> comments{};
  /// Where its record or block begins in the file.
  std::uint64_t offset = 0;
};

/// Reads one kind of file; internal to Reader.
class PacketSource {
 public:
  virtual ~PacketSource() = default;
  /// nullopt at the end.
  virtual Result<std::optional<Packet>, ReadError> next() = 0;
};

class Reader {
 public:
  /// Opens a file; "-" is standard input.
  [[nodiscard]] static Result<Reader, ReadError> open(const std::string& path);
  /// Reads a capture in memory, which must outlive the reader.
  [[nodiscard]] static Result<Reader, ReadError> from_bytes(ByteView bytes);

  /// The next packet, or nullopt at the end. After an error there is nothing more to read.
  [[nodiscard]] Result<std::optional<Packet>, ReadError> next() { return source_->next(); }

 private:
  explicit Reader(std::unique_ptr<PacketSource> source) : source_(std::move(source)) {}
  static Result<Reader, ReadError> from_source(ByteSource bytes);

  std::unique_ptr<PacketSource> source_;
};

}  // namespace verbena::pcap
