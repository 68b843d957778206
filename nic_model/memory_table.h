// The memory regions of a Nic, by key. A key is an index into the table and, in its low eight bits,
// a tag that changes with every registration: a key of a region that is gone doesn't match the next
// one in its place (IBTA vol 1, 10.6.3.3). The L_Key and the R_Key of a region are the same number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "nic_model/nic.h"
#include "proto/memory_access.h"

namespace verbena::nic {

class MemoryTable final : public MemoryAccess {
 public:
  /// The seed makes tags unpredictable to peers.
  MemoryTable(std::uint32_t regions_max, std::uint64_t seed);

  /// Fails with limit_reached only. The arguments have been checked.
  [[nodiscard]] Result<Mr*, NicError> add(Pd& pd, std::byte* host, std::uint64_t length, Va iova,
                                          Access access);
  void remove(Mr& mr);
  [[nodiscard]] std::uint32_t count() const { return count_; }

  [[nodiscard]] Result<std::byte*, AccessFault> local(PdId pd, Lkey key, Va va,
                                                      std::uint64_t length, Access needed) override;
  [[nodiscard]] Result<std::byte*, AccessFault> remote(PdId pd, Rkey key, Va va,
                                                       std::uint64_t length,
                                                       Access needed) override;

 private:
  struct Slot {
    std::unique_ptr<Mr> mr;
    std::uint8_t tag = 0;
  };

  [[nodiscard]] Result<std::byte*, AccessFault> find(PdId pd, std::uint32_t key, Va va,
                                                     std::uint64_t length, Access needed) const;

  std::uint32_t regions_max_;
  std::uint32_t count_ = 0;
  Prng prng_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace verbena::nic
