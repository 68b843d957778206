// A protection domain of a program, a parent domain, a thread domain.
//
// A parent domain stands for the protection domain that it was made of; what is created in it lies
// in memory from its allocator. See the manual page ibv_alloc_parent_domain(3).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "nic_model/nic.h"
#include "verbs/context.h"
#include "verbs/errors.h"

namespace verbena::verbs {

/// What an allocator of a program is told to allocate; the numbers are ours.
enum class ResourceType : std::uint64_t { queue_pair = 1, completion_queue, shared_receive_queue };

/// A promise that objects in it are used by one thread at a time. We lock all the same.
struct ThreadDomain : ibv_td, ObjectLink {
  [[nodiscard]] static ThreadDomain& of(ibv_td* td) { return static_cast<ThreadDomain&>(*td); }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Nothing of it is in the NIC. Afterwards it has no owner: the context has been closed over it.
  void release() { context = nullptr; }

  /// Parent domains made of it.
  std::atomic<std::uint32_t> users{0};
};

struct ProtectionDomain : ibv_pd, ObjectLink {
  [[nodiscard]] static ProtectionDomain& of(ibv_pd* pd) {
    return static_cast<ProtectionDomain&>(*pd);
  }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the domain from the NIC, or gives the share in it back.
  Result<void, nic::NicError> release();

  /// Memory for an object, null if there is none. `custom` tells whether it is the program's.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, ResourceType type,
                               bool& custom);
  void free(void* memory, ResourceType type);

  /// Null after release(): the context has been closed over it.
  nic::Pd* nic_pd = nullptr;
  /// Another object's domain, of which this one only has a share: imported, or a parent domain.
  bool is_share = false;

  // Of a parent domain.
  ThreadDomain* thread_domain = nullptr;
  /// Its alloc and free are null if the program has none of its own.
  ibv_parent_domain_init_attr allocators{};
  /// Objects that lie in the program's memory.
  std::atomic<std::uint32_t> allocations{0};
};

/// The base of objects that may lie in a program's memory.
struct Placed {
  /// Whose memory it is; null: our own.
  ProtectionDomain* place = nullptr;
};

/// Destroys an object that create_in() made.
template <class Object>
void destroy_placed(Object* object) {
  ProtectionDomain* const place = object->place;
  if (place == nullptr) {
    delete object;
    return;
  }
  object->~Object();
  place->free(object, Object::resource_type);
}

struct DestroyPlaced {
  template <class Object>
  void operator()(Object* object) const {
    destroy_placed(object);
  }
};
template <class Object>
using PlacedPtr = std::unique_ptr<Object, DestroyPlaced>;

/// Makes an object in memory of `pd` (null: in our own). Throws std::bad_alloc.
template <class Object, class... Args>
[[nodiscard]] PlacedPtr<Object> create_in(ibv_pd* pd, Args&&... args) {
  bool custom = false;
  void* memory = nullptr;
  if (pd != nullptr) {
    memory = ProtectionDomain::of(pd).allocate(sizeof(Object), alignof(Object),
                                               Object::resource_type, custom);
    if (custom && memory == nullptr) {
      throw std::bad_alloc();
    }
  }
  if (!custom) {
    return PlacedPtr<Object>(new Object(std::forward<Args>(args)...));
  }
  auto* const object = new (memory) Object(std::forward<Args>(args)...);
  object->place = &ProtectionDomain::of(pd);
  return PlacedPtr<Object>(object);
}

}  // namespace verbena::verbs
