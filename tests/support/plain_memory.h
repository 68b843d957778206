// Memory for tests of one transport: no windows, nothing to flush, and the checks of a whole
// message are those of a piece.
#pragma once

#include "proto/memory_access.h"

namespace verbena::test {

class PlainMemory : public MemoryAccess {
 public:
  Result<void, AccessFault> check_local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                        Access needed) override {
    return without_address(local(pd, key, va, length, needed));
  }
  Result<void, AccessFault> check_remote(const MemoryUser& user, Rkey key, Va va,
                                         std::uint64_t length, Access needed) override {
    return without_address(remote(user, key, va, length, needed));
  }
  Result<void, AccessFault> bind(const MemoryUser&, const WindowBinding&) override {
    return std::unexpected(AccessFault::unknown_key);
  }
  Result<void, AccessFault> invalidate(const MemoryUser&, Rkey) override {
    return std::unexpected(AccessFault::unknown_key);
  }
  Result<void, AccessFault> flush(const MemoryUser&, Rkey, Va, const Flush&) override {
    return std::unexpected(AccessFault::not_permitted);
  }

 private:
  static Result<void, AccessFault> without_address(const Result<std::byte*, AccessFault>& host) {
    if (!host) {
      return std::unexpected(host.error());
    }
    return {};
  }
};

}  // namespace verbena::test
