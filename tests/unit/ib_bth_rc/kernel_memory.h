// The buffer of one end of a replayed conversation.
#pragma once

#include <optional>
#include <vector>

#include "tests/support/plain_memory.h"

namespace verbena::test {

/// One buffer, under the address that the capture names.
class KernelMemory final : public PlainMemory {
 public:
  std::vector<std::byte> bytes;
  Va base{0x10000};
  /// The key that a peer must know; by default any key is right.
  std::optional<Rkey> rkey;

  Result<std::byte*, AccessFault> local(PdId, Lkey, Va va, std::uint64_t length, Access) override {
    return find(va, length);
  }
  Result<std::byte*, AccessFault> remote(const MemoryUser&, Rkey key, Va va, std::uint64_t length,
                                         Access) override {
    if (rkey.value_or(key) != key) {
      return std::unexpected(AccessFault::unknown_key);
    }
    return find(va, length);
  }

 private:
  Result<std::byte*, AccessFault> find(Va va, std::uint64_t length) {
    const std::uint64_t offset = to_value(va) - to_value(base);
    if (offset > bytes.size() || length > bytes.size() - offset) {
      return std::unexpected(AccessFault::out_of_range);
    }
    return bytes.data() + offset;
  }
};

}  // namespace verbena::test
