#include "nic_model/memory_table.h"

#include <atomic>

#include "base/check.h"

namespace verbena::nic {

namespace {

constexpr unsigned tag_bits = 8;

constexpr Access remote_rights = Access::remote_write | Access::remote_read | Access::remote_atomic;

constexpr Access flush_rights = Access::flush_global | Access::flush_persistent;

constexpr Access operator&(Access a, Access b) { return Access{to_value(a) & to_value(b)}; }

constexpr bool has_any(Access granted, Access of) { return (granted & of) != Access::none; }

/// Rights under which memory is changed.
constexpr Access writing = Access::local_write | Access::remote_write | Access::remote_atomic;

/// [va, va + length) lies in [first, first + size). In differences, so that nothing wraps:
/// addresses and lengths come from a peer.
bool is_within(Va va, std::uint64_t length, Va first, std::uint64_t size) {
  const std::uint64_t offset = to_value(va) - to_value(first);
  return offset <= size && length <= size - offset;
}

/// Demand-paged memory may begin at null, where pointers can't be added to.
std::byte* advance(std::byte* host, std::uint64_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(host) + offset);
}

}  // namespace

/// Slot 0 stays empty, so that no region has a key that looks like "none".
MemoryTable::MemoryTable(const DeviceProfile& profile, Pager* pager, PersistentStore* store,
                         std::uint64_t seed)
    : regions_max_(profile.mr_max),
      windows_max_(profile.mw_max),
      pager_(pager),
      store_(store),
      prng_(seed),
      grants_(1),
      owners_(1) {}

bool MemoryTable::has_room() const {
  // no_key's index is nobody's.
  return !free_.empty() || grants_.size() < no_key >> tag_bits;
}

std::uint32_t MemoryTable::take_slot() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(grants_.size()));
    grants_.emplace_back();
    owners_.emplace_back().tag = static_cast<std::uint8_t>(prng_.next());
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  ++owners_[index].tag;
  return index;
}

void MemoryTable::free_slot(std::uint32_t index) {
  grants_[index] = Grant{};
  owners_[index].mr.reset();
  owners_[index].mw.reset();
  free_.push_back(index);
}

Result<Mr*, NicError> MemoryTable::add(const Mr& description) {
  if (regions_ >= regions_max_ || !has_room()) {
    return std::unexpected(NicError::limit_reached);
  }
  const std::uint32_t index = take_slot();
  const std::uint32_t key = index << tag_bits | owners_[index].tag;
  if (description.is_null && !zeros_) {
    zeros_ = std::make_unique<std::byte[]>(memory_piece_bytes_max);
    sink_ = std::make_unique<std::byte[]>(memory_piece_bytes_max);
  }
  Mr& mr = *(owners_[index].mr = std::make_unique<Mr>(description));
  mr.lkey = Lkey{key};
  mr.rkey = Rkey{key};
  update(mr);
  ++regions_;
  return &mr;
}

void MemoryTable::update(const Mr& mr) {
  grants_[to_value(mr.lkey) >> tag_bits] = {.key = to_value(mr.lkey),
                                            .kind = mr.is_null ? Kind::null_region : Kind::region,
                                            .access = mr.access,
                                            .pd = mr.pd->id,
                                            .first = mr.iova,
                                            .length = mr.length,
                                            .host = mr.host};
}

void MemoryTable::remove(Mr& mr) {
  const std::uint32_t index = to_value(mr.lkey) >> tag_bits;
  VERBENA_CHECK(owners_[index].mr.get() == &mr && mr.windows == 0);
  free_slot(index);
  --regions_;
}

Result<Mw*, NicError> MemoryTable::add_window(Pd& pd, MwType type) {
  if (windows_max_ == 0) {
    return std::unexpected(NicError::unsupported);
  }
  if (windows_ >= windows_max_ || !has_room()) {
    return std::unexpected(NicError::limit_reached);
  }
  const std::uint32_t index = take_slot();
  const Rkey key{index << tag_bits | owners_[index].tag};
  owners_[index].mw = std::make_unique<Mw>(Mw{.type = type, .rkey = key, .pd = &pd});
  ++windows_;
  return owners_[index].mw.get();
}

void MemoryTable::remove(Mw& mw) {
  const std::uint32_t index = to_value(mw.rkey) >> tag_bits;
  VERBENA_CHECK(owners_[index].mw.get() == &mw);
  unbind(mw);
  // The next in this place shall have another tag, also than the one that the consumer chose.
  owners_[index].tag = static_cast<std::uint8_t>(to_value(mw.rkey));
  free_slot(index);
  --windows_;
}

const MemoryTable::Grant* MemoryTable::grant_of(std::uint32_t key) const {
  const std::uint32_t index = key >> tag_bits;
  return index < grants_.size() && grants_[index].key == key ? &grants_[index] : nullptr;
}

MemoryTable::Found MemoryTable::find_local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                           Access needed) const {
  const Grant* const grant = grant_of(to_value(key));
  // A window is for peers only: it has no L_Key.
  if (grant == nullptr || grant->kind == Kind::window_1 || grant->kind == Kind::window_2) {
    return std::unexpected(AccessFault::unknown_key);
  }
  if (grant->pd != pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  if (!allows(grant->access, needed)) {
    return std::unexpected(AccessFault::not_permitted);
  }
  if (!is_within(va, length, grant->first, grant->length)) {
    return std::unexpected(AccessFault::out_of_range);
  }
  return grant;
}

MemoryTable::Found MemoryTable::find_key(const MemoryUser& user, Rkey key, Access needed) const {
  const Grant* const grant = grant_of(to_value(key));
  if (grant == nullptr) {
    return std::unexpected(AccessFault::unknown_key);
  }
  if (grant->pd != user.pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  if (grant->kind == Kind::window_2 && grant->qpn != user.qpn) {
    return std::unexpected(AccessFault::wrong_qp);
  }
  if (!allows(grant->access, needed)) {
    return std::unexpected(AccessFault::not_permitted);
  }
  return grant;
}

MemoryTable::Found MemoryTable::find_remote(const MemoryUser& user, Rkey key, Va va,
                                            std::uint64_t length, Access needed) const {
  const Found grant = find_key(user, key, needed);
  if (grant && !is_within(va, length, (*grant)->first, (*grant)->length)) {
    return std::unexpected(AccessFault::out_of_range);
  }
  return grant;
}

/// The memory behind a grant that permits the access.
Result<std::byte*, AccessFault> MemoryTable::memory_of(const Grant& grant, Va va,
                                                       std::uint64_t length, Access needed) {
  const bool for_writing = has_any(needed, writing);
  if (grant.kind == Kind::null_region) {
    VERBENA_CHECK(length <= memory_piece_bytes_max);
    return for_writing ? sink_.get() : zeros_.get();
  }
  std::byte* const host = advance(grant.host, to_value(va) - to_value(grant.first));
  if (pager_ != nullptr && length > 0 && allows(grant.access, Access::on_demand) &&
      !pager_->make_present(host, length, for_writing)) {
    return std::unexpected(AccessFault::not_present);
  }
  return host;
}

Result<std::byte*, AccessFault> MemoryTable::local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                                   Access needed) {
  const Found grant = find_local(pd, key, va, length, needed);
  if (!grant) {
    return std::unexpected(grant.error());
  }
  return memory_of(**grant, va, length, needed);
}

Result<std::byte*, AccessFault> MemoryTable::remote(const MemoryUser& user, Rkey key, Va va,
                                                    std::uint64_t length, Access needed) {
  const Found grant = find_remote(user, key, va, length, needed);
  if (!grant) {
    return std::unexpected(grant.error());
  }
  return memory_of(**grant, va, length, needed);
}

Result<void, AccessFault> MemoryTable::check_local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                                   Access needed) {
  const Found grant = find_local(pd, key, va, length, needed);
  if (!grant) {
    return std::unexpected(grant.error());
  }
  return {};
}

Result<void, AccessFault> MemoryTable::check_remote(const MemoryUser& user, Rkey key, Va va,
                                                    std::uint64_t length, Access needed) {
  const Found grant = find_remote(user, key, va, length, needed);
  if (!grant) {
    return std::unexpected(grant.error());
  }
  return {};
}

Result<std::byte*, AccessFault> MemoryTable::address_of(PdId pd, Lkey key, Va va,
                                                        std::uint64_t length, Access needed) const {
  const Found grant = find_local(pd, key, va, length, needed);
  if (!grant) {
    return std::unexpected(grant.error());
  }
  if ((*grant)->kind == Kind::null_region) {
    return std::unexpected(AccessFault::not_present);
  }
  return advance((*grant)->host, to_value(va) - to_value((*grant)->first));
}

Result<void, AccessFault> MemoryTable::bind(const MemoryUser& user, const WindowBinding& binding) {
  const std::uint32_t index = to_value(binding.key) >> tag_bits;
  if (index >= owners_.size() || !owners_[index].mw) {
    return std::unexpected(AccessFault::unknown_key);
  }
  Mw& mw = *owners_[index].mw;
  if (mw.pd->id != user.pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  const bool is_type_1 = mw.type == MwType::type_1;
  // IBTA vol 1, 10.6.7.2.4: a window of type 2 must be free; one of type 1 moves, or with no bytes
  // becomes free.
  if (!is_type_1 && mw.region != nullptr) {
    return std::unexpected(AccessFault::wrong_window);
  }
  if (is_type_1 && binding.length == 0) {
    unbind(mw);
    mw.rkey = binding.key;
    return {};
  }
  const auto region = region_for(mw, binding);
  if (!region) {
    return std::unexpected(region.error());
  }
  unbind(mw);
  Mr& mr = **region;
  mw.rkey = binding.key;
  mw.region = &mr;
  ++mr.windows;
  const bool zero_based = allows(binding.access, Access::zero_based);
  grants_[index] = {.key = to_value(binding.key),
                    .kind = is_type_1 ? Kind::window_1 : Kind::window_2,
                    .access = (binding.access & (remote_rights | (mr.access & flush_rights))) |
                              (mr.access & Access::on_demand),
                    .pd = mw.pd->id,
                    .qpn = user.qpn,
                    .first = zero_based ? Va{0} : binding.addr,
                    .length = binding.length,
                    .host = advance(mr.host, to_value(binding.addr) - to_value(mr.iova))};
  return {};
}

/// The region that a window shall be bound to, if it may be (IBTA vol 1, C10-73 to C10-75).
Result<Mr*, AccessFault> MemoryTable::region_for(const Mw& mw, const WindowBinding& binding) const {
  const std::uint32_t index = to_value(binding.region) >> tag_bits;
  if (index >= owners_.size() || !owners_[index].mr || owners_[index].mr->lkey != binding.region ||
      owners_[index].mr->is_null) {
    return std::unexpected(AccessFault::unknown_key);
  }
  Mr* const mr = owners_[index].mr.get();
  if (mr->pd != mw.pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  const bool writes = has_any(binding.access, Access::remote_write | Access::remote_atomic);
  // Only a window of type 2 may count from 0, and only over a region that doesn't.
  const bool counts_wrongly =
      allows(mr->access, Access::zero_based) ||
      (mw.type == MwType::type_1 && allows(binding.access, Access::zero_based));
  if (!allows(mr->access, Access::mw_bind) ||
      (writes && !allows(mr->access, Access::local_write)) || counts_wrongly) {
    return std::unexpected(AccessFault::not_permitted);
  }
  if (binding.length == 0 || !is_within(binding.addr, binding.length, mr->iova, mr->length)) {
    return std::unexpected(AccessFault::out_of_range);
  }
  return mr;
}

void MemoryTable::unbind(Mw& mw) {
  if (mw.region != nullptr) {
    --mw.region->windows;
    mw.region = nullptr;
    grants_[to_value(mw.rkey) >> tag_bits] = Grant{};
  }
}

Result<void, AccessFault> MemoryTable::invalidate(const MemoryUser& user, Rkey key) {
  const Grant* const grant = grant_of(to_value(key));
  if (grant == nullptr) {
    return std::unexpected(AccessFault::unknown_key);
  }
  if (grant->pd != user.pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  // A region goes by deregistration, a window of type 1 by another bind.
  if (grant->kind != Kind::window_2) {
    return std::unexpected(AccessFault::wrong_window);
  }
  if (grant->qpn != user.qpn) {
    return std::unexpected(AccessFault::wrong_qp);
  }
  unbind(*owners_[to_value(key) >> tag_bits].mw);
  return {};
}

Result<void, AccessFault> MemoryTable::flush(const MemoryUser& user, Rkey key, Va va,
                                             const Flush& flush) {
  const Access needed = access_needed(flush);
  const Found grant =
      flush.whole ? find_key(user, key, needed) : find_remote(user, key, va, flush.length, needed);
  if (!grant) {
    return std::unexpected(grant.error());
  }
  // The bytes were written by this thread, and processors see each other's: all that is left is to
  // keep the order.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!flush.persistence) {
    return {};
  }
  const std::uint64_t offset = flush.whole ? 0 : to_value(va) - to_value((*grant)->first);
  const std::uint64_t length = flush.whole ? (*grant)->length : flush.length;
  if (!store_->make_persistent(advance((*grant)->host, offset), length)) {
    return std::unexpected(AccessFault::not_present);
  }
  return {};
}

}  // namespace verbena::nic
