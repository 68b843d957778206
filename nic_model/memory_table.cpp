#include "nic_model/memory_table.h"

#include "base/check.h"

namespace verbena::nic {

namespace {

constexpr unsigned tag_bits = 8;

}  // namespace

MemoryTable::MemoryTable(std::uint32_t regions_max, std::uint64_t seed)
    : regions_max_(regions_max), prng_(seed), slots_(1) {
  // Slot 0 stays empty, so that no region has a key that looks like "none".
}

Result<Mr*, NicError> MemoryTable::add(Pd& pd, std::byte* host, std::uint64_t length, Va iova,
                                       Access access) {
  if (count_ >= regions_max_) {
    return std::unexpected(NicError::limit_reached);
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back().tag = static_cast<std::uint8_t>(prng_.next());
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  ++slot.tag;
  const std::uint32_t key = index << tag_bits | slot.tag;
  slot.mr = std::make_unique<Mr>(Mr{.host = host,
                                    .length = length,
                                    .iova = iova,
                                    .access = access,
                                    .lkey = Lkey{key},
                                    .rkey = Rkey{key},
                                    .pd = &pd});
  ++count_;
  return slot.mr.get();
}

void MemoryTable::remove(Mr& mr) {
  const std::uint32_t index = to_value(mr.lkey) >> tag_bits;
  VERBENA_CHECK(index < slots_.size() && slots_[index].mr.get() == &mr);
  slots_[index].mr.reset();
  free_.push_back(index);
  --count_;
}

Result<std::byte*, AccessFault> MemoryTable::find(PdId pd, std::uint32_t key, Va va,
                                                  std::uint64_t length, Access needed) const {
  const std::uint32_t index = key >> tag_bits;
  if (index >= slots_.size() || !slots_[index].mr || to_value(slots_[index].mr->lkey) != key) {
    return std::unexpected(AccessFault::unknown_key);
  }
  const Mr& mr = *slots_[index].mr;
  if (mr.pd->id != pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  if (!allows(mr.access, needed)) {
    return std::unexpected(AccessFault::not_permitted);
  }
  // In differences, so that nothing wraps: addresses and lengths come from a peer.
  const std::uint64_t offset = to_value(va) - to_value(mr.iova);
  if (offset > mr.length || length > mr.length - offset) {
    return std::unexpected(AccessFault::out_of_range);
  }
  return mr.host + offset;
}

Result<std::byte*, AccessFault> MemoryTable::local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                                   Access needed) {
  return find(pd, to_value(key), va, length, needed);
}

Result<std::byte*, AccessFault> MemoryTable::remote(PdId pd, Rkey key, Va va, std::uint64_t length,
                                                    Access needed) {
  return find(pd, to_value(key), va, length, needed);
}

}  // namespace verbena::nic
