// The memory regions and windows of a Nic, by key. A key is an index into the table and, in its low
// eight bits, a tag that changes with every registration: a key of a region that is gone doesn't
// match the next one in its place (IBTA vol 1, 10.6.3.3). The L_Key and the R_Key of a region are
// the same number; of a window of type 2 the consumer chooses the tag.
//
// What a packet needs to know of a key, its grant, stands in one array: a lookup is one comparison.
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
  /// The seed makes tags unpredictable to peers. `pager` and `store` may be null; without a store
  /// nothing is registered with flush_persistent.
  MemoryTable(const DeviceProfile& profile, Pager* pager, PersistentStore* store,
              std::uint64_t seed);

  /// The arguments have been checked: fails with limit_reached only, and add_window() with
  /// `unsupported` where there are no windows. Regions and windows share the numbers of keys, of
  /// which there are 2^24.
  [[nodiscard]] Result<Mr*, NicError> add(const Mr& description);
  /// What its members say now holds.
  void update(const Mr& mr);
  void remove(Mr& mr);
  [[nodiscard]] Result<Mw*, NicError> add_window(Pd& pd, MwType type);
  void remove(Mw& mw);
  [[nodiscard]] std::uint32_t regions() const { return regions_; }
  [[nodiscard]] std::uint32_t windows() const { return windows_; }

  [[nodiscard]] Result<std::byte*, AccessFault> local(PdId pd, Lkey key, Va va,
                                                      std::uint64_t length, Access needed) override;
  [[nodiscard]] Result<std::byte*, AccessFault> remote(const MemoryUser& user, Rkey key, Va va,
                                                       std::uint64_t length,
                                                       Access needed) override;
  [[nodiscard]] Result<void, AccessFault> check_local(PdId pd, Lkey key, Va va,
                                                      std::uint64_t length, Access needed) override;
  [[nodiscard]] Result<void, AccessFault> check_remote(const MemoryUser& user, Rkey key, Va va,
                                                       std::uint64_t length,
                                                       Access needed) override;
  /// The host memory of a region's part, whether it is there or not. Not of a null region.
  [[nodiscard]] Result<std::byte*, AccessFault> address_of(PdId pd, Lkey key, Va va,
                                                           std::uint64_t length,
                                                           Access needed) const;
  [[nodiscard]] Result<void, AccessFault> bind(const MemoryUser& user,
                                               const WindowBinding& binding) override;
  [[nodiscard]] Result<void, AccessFault> invalidate(const MemoryUser& user, Rkey key) override;
  [[nodiscard]] Result<void, AccessFault> flush(const MemoryUser& user, Rkey key, Va va,
                                                const Flush& flush) override;

 private:
  enum class Kind : std::uint8_t { region, null_region, window_1, window_2 };

  /// No key is this one: no index is so high.
  static constexpr std::uint32_t no_key = 0xFFFF'FFFF;

  struct Grant {
    std::uint32_t key = no_key;
    Kind kind = Kind::region;
    Access access = Access::none;
    PdId pd{};
    /// Of a window of type 2: the one queue pair that may use it.
    Qpn qpn{};
    Va first{};
    std::uint64_t length = 0;
    std::byte* host = nullptr;
  };
  /// Whose grant it is; neither: the slot is free.
  struct Owner {
    std::unique_ptr<Mr> mr;
    std::unique_ptr<Mw> mw;
    std::uint8_t tag = 0;
  };
  using Found = Result<const Grant*, AccessFault>;

  /// Whether take_slot() can.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] std::uint32_t take_slot();
  void free_slot(std::uint32_t index);
  [[nodiscard]] const Grant* grant_of(std::uint32_t key) const;
  [[nodiscard]] Found find_local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                 Access needed) const;
  [[nodiscard]] Found find_key(const MemoryUser& user, Rkey key, Access needed) const;
  [[nodiscard]] Found find_remote(const MemoryUser& user, Rkey key, Va va, std::uint64_t length,
                                  Access needed) const;
  [[nodiscard]] Result<std::byte*, AccessFault> memory_of(const Grant& grant, Va va,
                                                          std::uint64_t length, Access needed);
  [[nodiscard]] Result<Mr*, AccessFault> region_for(const Mw& mw,
                                                    const WindowBinding& binding) const;
  void unbind(Mw& mw);

  const std::uint32_t regions_max_;
  const std::uint32_t windows_max_;
  Pager* const pager_;
  PersistentStore* const store_;
  std::uint32_t regions_ = 0;
  std::uint32_t windows_ = 0;
  Prng prng_;
  std::vector<Grant> grants_;
  std::vector<Owner> owners_;
  std::vector<std::uint32_t> free_;
  /// What a null region reads as, and where writes to it go. Not there before there is one.
  std::unique_ptr<std::byte[]> zeros_;
  std::unique_ptr<std::byte[]> sink_;
};

}  // namespace verbena::nic
