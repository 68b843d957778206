// One direction of a captured TCP connection, put back in order: what was lost, repeated or
// reordered on its way comes out once, as the receiver's program read it. It only watches: it
// acknowledges nothing and doesn't look at checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace verbena::cli {

class TcpFollower {
 public:
  /// Bytes that wait for a gap before them to be filled. A capture that lacks packets must not take
  /// memory without end.
  static constexpr std::size_t waiting_bytes_max = std::size_t{4} << 20;

  /// A segment with `sequence` from its header. Appends to `out` the bytes that continue the
  /// stream: first the last bytes of `payload`, as many as the result says, then what waited for
  /// them.
  std::size_t add(std::uint32_t sequence, bool is_syn, ByteView payload,
                  std::vector<std::byte>& out);

  /// More is waiting than may: the gap won't be filled, nothing comes out any more.
  [[nodiscard]] bool is_lost() const { return is_lost_; }

 private:
  /// The sequence number of the next byte, as soon as the first segment told it.
  std::optional<std::uint32_t> next_;
  /// How many bytes came out.
  std::uint64_t position_ = 0;
  /// What came early, by its position.
  std::map<std::uint64_t, std::vector<std::byte>> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool is_lost_ = false;
};

}  // namespace verbena::cli
