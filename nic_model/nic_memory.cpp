// Regions, windows, device memory.

#include <new>

#include "nic_model/nic_impl.h"
#include "nic_model/owned.h"

namespace verbena::nic {

namespace {

constexpr std::align_val_t page{4096};

/// IBTA vol 1, 10.6.3.1: who may write from afar must be able to write at home.
bool rights_are_valid(Access access) {
  const bool remote_writes =
      (to_value(access) & to_value(Access::remote_write | Access::remote_atomic)) != 0;
  return !remote_writes || allows(access, Access::local_write);
}

/// What is to be persistent has to be there, and there must be a way to make it so.
Result<void, NicError> check_persistence(const NicConfig& config, Access access) {
  if (!allows(access, Access::flush_persistent)) {
    return {};
  }
  if (config.persistent_store == nullptr) {
    return std::unexpected(NicError::unsupported);
  }
  if (allows(access, Access::on_demand)) {
    return std::unexpected(NicError::invalid_argument);
  }
  return {};
}

/// Whether the device has what the rights ask for.
bool rights_are_offered(const DeviceProfile& profile, Access access) {
  const bool flushes =
      allows(access, Access::flush_global) || allows(access, Access::flush_persistent);
  return (!allows(access, Access::on_demand) || (profile.odp.general & odp::supported) != 0) &&
         (!flushes || profile.has_placement_extensions);
}

bool range_is_valid(const DeviceProfile& profile, std::byte* host, std::uint64_t length, Va iova) {
  const auto address = reinterpret_cast<std::uintptr_t>(host);
  return address + length >= address && to_value(iova) + length >= to_value(iova) &&
         length <= profile.mr_bytes_max;
}

}  // namespace

void DeviceMemory::Free::operator()(std::byte* pages) const { ::operator delete[](pages, page); }

std::unique_ptr<DeviceMemory> make_device_memory(std::uint64_t length) {
  auto dm = std::make_unique<DeviceMemory>();
  dm->bytes.reset(new (page) std::byte[length]());
  dm->length = length;
  return dm;
}

Result<Mr*, NicError> Nic::reg_mr(Pd& pd, std::byte* host, std::uint64_t length, Va iova,
                                  Access access) {
  if (!rights_are_offered(impl_->profile, access)) {
    return std::unexpected(NicError::unsupported);
  }
  if (!rights_are_valid(access) || !range_is_valid(impl_->profile, host, length, iova)) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (auto checked = check_persistence(impl_->config, access); !checked) {
    return std::unexpected(checked.error());
  }
  auto mr = impl_->memory.add(
      {.host = host, .length = length, .iova = iova, .access = access, .pd = &pd});
  if (mr) {
    ++pd.users;
  }
  return mr;
}

Result<Mr*, NicError> Nic::alloc_null_mr(Pd& pd) {
  auto mr = impl_->memory.add(
      {.length = ~std::uint64_t{0}, .access = Access::local_write, .pd = &pd, .is_null = true});
  if (mr) {
    ++pd.users;
  }
  return mr;
}

Result<void, NicError> Nic::rereg_mr(Mr& mr, const MrChange& change) {
  if (mr.windows > 0) {
    return std::unexpected(NicError::busy);
  }
  const Access access = change.access.value_or(mr.access);
  if (!rights_are_offered(impl_->profile, access)) {
    return std::unexpected(NicError::unsupported);
  }
  const auto translation =
      change.translation.value_or(MrChange::Translation{mr.host, mr.length, mr.iova});
  if (mr.is_null || mr.device_memory != nullptr || !rights_are_valid(access) ||
      !range_is_valid(impl_->profile, translation.host, translation.length, translation.iova)) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (auto checked = check_persistence(impl_->config, access); !checked) {
    return checked;
  }
  mr.access = access;
  mr.host = translation.host;
  mr.length = translation.length;
  mr.iova = translation.iova;
  if (change.pd != nullptr) {
    --mr.pd->users;
    mr.pd = change.pd;
    ++mr.pd->users;
  }
  impl_->memory.update(mr);
  return {};
}

Result<void, NicError> Nic::dereg_mr(Mr& mr) {
  if (mr.windows > 0) {
    return std::unexpected(NicError::busy);
  }
  --mr.pd->users;
  if (mr.device_memory != nullptr) {
    --mr.device_memory->users;
  }
  impl_->memory.remove(mr);
  return {};
}

Result<std::byte*, AccessFault> Nic::address_of(const Pd& pd, const Sge& sge, Access needed) const {
  return impl_->memory.address_of(pd.id, sge.lkey, sge.addr, sge.length, needed);
}

Result<Mw*, NicError> Nic::alloc_mw(Pd& pd, MwType type) {
  auto mw = impl_->memory.add_window(pd, type);
  if (mw) {
    ++pd.users;
  }
  return mw;
}

Result<void, NicError> Nic::dealloc_mw(Mw& mw) {
  --mw.pd->users;
  impl_->memory.remove(mw);
  return {};
}

Result<DeviceMemory*, NicError> Nic::alloc_dm(std::uint64_t length) {
  if (impl_->profile.dm_bytes_max == 0) {
    return std::unexpected(NicError::unsupported);
  }
  if (length == 0) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (length > impl_->profile.dm_bytes_max - impl_->device_memory_bytes) {
    return std::unexpected(NicError::limit_reached);
  }
  auto dm = make_device_memory(length);
  dm->id = impl_->next_device_memory++;
  impl_->device_memories.push_back(std::move(dm));
  impl_->device_memory_bytes += length;
  return impl_->device_memories.back().get();
}

Result<void, NicError> Nic::free_dm(DeviceMemory& dm) {
  if (dm.users > 0) {
    return std::unexpected(NicError::busy);
  }
  impl_->device_memory_bytes -= dm.length;
  erase_owned(impl_->device_memories, dm);
  return {};
}

Result<Mr*, NicError> Nic::reg_dm_mr(Pd& pd, DeviceMemory& dm, std::uint64_t offset,
                                     std::uint64_t length, Access access) {
  if (!rights_are_valid(access) || !allows(access, Access::zero_based) || offset > dm.length ||
      length > dm.length - offset || allows(access, Access::flush_persistent)) {
    return std::unexpected(NicError::invalid_argument);
  }
  auto mr = impl_->memory.add({.host = dm.bytes.get() + offset,
                               .length = length,
                               .access = access,
                               .pd = &pd,
                               .device_memory = &dm});
  if (mr) {
    ++pd.users;
    ++dm.users;
  }
  return mr;
}

}  // namespace verbena::nic
