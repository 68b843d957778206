// Device memory: the program copies to and from it, peers and work requests reach it through
// regions (ibv_reg_dm_mr, in mr.cpp). Copies are made under the engine's lock, so that each is one
// access for everybody else.

#include "verbs/device_memory.h"

#include <cstring>
#include <memory>

#include "verbs/errors.h"
#include "verbs/import.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {

Result<void, nic::NicError> DeviceMemory::release() {
  auto released =
      owner().engine().with_nic([&](nic::Nic& nic, Time) -> Result<void, nic::NicError> {
        if (is_imported) {
          --nic_dm->users;
          return {};
        }
        return nic.free_dm(*nic_dm);
      });
  if (released) {
    nic_dm = nullptr;
  }
  return released;
}

namespace {

/// Copies are made of words, as mlx5 requires.
constexpr std::uint64_t word_bytes = 4;

/// Runs `copy(start of the part)` if [offset, offset + length) is a part of the memory.
template <class Copy>
Errno with_part(ibv_dm* base, std::uint64_t offset, std::size_t length, Copy copy) {
  auto& dm = DeviceMemory::of(base);
  if (dm.owner().is_dead() && !dm.orphan) {
    return EIO;
  }
  const nic::DeviceMemory& memory = dm.orphan ? *dm.orphan : *dm.nic_dm;
  if (offset > memory.length || length > memory.length - offset) {
    return EFAULT;
  }
  if (offset % word_bytes != 0 || length % word_bytes != 0) {
    return EINVAL;
  }
  if (dm.orphan) {
    copy(memory.bytes.get() + offset);
  } else {
    dm.owner().engine().with_nic([&](nic::Nic&, Time) { copy(memory.bytes.get() + offset); });
  }
  return 0;
}

int copy_to_dm(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t length) {
  return with_part(dm, offset, length, [&](std::byte* part) { std::memcpy(part, from, length); });
}

int copy_from_dm(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  return with_part(dm, offset, length, [&](std::byte* part) { std::memcpy(to, part, length); });
}

std::unique_ptr<DeviceMemory> make_object(Context& context) {
  auto dm = std::make_unique<DeviceMemory>();
  dm->context = &context.context;
  dm->memcpy_to_dm = copy_to_dm;
  dm->memcpy_from_dm = copy_from_dm;
  dm->comp_mask = 0;
  return dm;
}

DeviceMemory* wrap(Context& context, nic::DeviceMemory& nic_dm, bool is_imported) {
  auto dm = make_object(context);
  dm->handle = nic_dm.id;
  dm->nic_dm = &nic_dm;
  dm->is_imported = is_imported;
  context.track(context.dms, *dm);
  return dm.release();
}

/// Device memory begins at a page.
constexpr std::uint32_t log_align_max = 12;

Created<ibv_dm> allocate(Context& context, const ibv_alloc_dm_attr& attr) {
  if (attr.comp_mask != 0) {
    return failed(EOPNOTSUPP);
  }
  if (attr.log_align_req > log_align_max) {
    return failed(EINVAL);
  }
  if (context.is_dead()) {
    // With a kernel's device a child can still allocate. Memory is what it gets here, too; it
    // can't be registered, as nothing can.
    if (attr.length == 0 || attr.length > context.engine().peek().profile().dm_bytes_max) {
      return failed(EINVAL);
    }
    auto dm = make_object(context);
    dm->orphan = nic::make_device_memory(attr.length);
    return dm.release();
  }
  const auto allocated =
      context.engine().with_nic([&](nic::Nic& nic, Time) { return nic.alloc_dm(attr.length); });
  if (!allocated) {
    return failed(errno_of(allocated));
  }
  return wrap(context, **allocated, false);
}

}  // namespace

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) noexcept {
  return create_or_null([&] { return allocate(Context::of(context), *attr); });
}

int free_dm(ibv_dm* base) noexcept {
  auto& dm = DeviceMemory::of(base);
  if (dm.nic_dm != nullptr && !dm.owner().is_dead()) {
    if (const auto released = dm.release(); !released) {
      return errno_of(released);
    }
    dm.owner().untrack(dm.owner().dms, dm);
  }
  delete &dm;
  return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context* base, std::uint32_t handle) {
  if (is_real(base)) {
    return real_verbs().ibv_import_dm(base, handle);
  }
  return create_or_null([&]() -> Created<ibv_dm> {
    Context& context = Context::of(base);
    if (context.is_dead()) {
      return failed(EIO);
    }
    auto* const dm = find_by_handle<DeviceMemory>(*context.shared_engine, &Context::dms, handle);
    if (dm == nullptr) {
      return failed(ENOENT);
    }
    context.engine().with_nic([&](nic::Nic&, Time) { ++dm->nic_dm->users; });
    return wrap(context, *dm->nic_dm, true);
  });
}

VERBENA_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (is_real(dm)) {
    real_verbs().ibv_unimport_dm(dm);
    return;
  }
  static_cast<void>(free_dm(dm));
}
