// A stream of bytes that always knows its offset: a file, a pipe, or memory. It never seeks and
// never waits for more than it was asked for, so that a live capture comes through packet by
// packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace verbena::pcap {

class ByteSource {
 public:
  /// Owns `fd`.
  explicit ByteSource(int fd);
  /// The bytes must outlive the source.
  explicit ByteSource(ByteView memory);
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) = delete;
  ~ByteSource();

  /// Fills `to`, or as much of it as there is before the end or an error; returns how much.
  std::size_t read(MutableBytes to);

  /// The next bytes without taking them: at most `size_max` (at most peek_bytes_max), fewer only
  /// before the end.
  [[nodiscard]] ByteView peek(std::size_t size_max);
  static constexpr std::size_t peek_bytes_max = 64;

  /// How many bytes were read so far.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// The errno that ended the stream early; 0 if none.
  [[nodiscard]] int error_number() const { return error_number_; }

 private:
  bool refill();

  int fd_ = -1;
  std::vector<std::byte> buffer_;
  ByteView available_;
  std::uint64_t offset_ = 0;
  int error_number_ = 0;
};

}  // namespace verbena::pcap
