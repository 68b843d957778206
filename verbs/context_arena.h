// The place where contexts of ours live when there are real devices beside ours: a stretch of
// memory that is never given back, so that an address alone tells whose a context is, even when it
// has been closed long ago.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::verbs {

/// Contexts that are open at the same time, in a process with real devices. Each has two
/// descriptors, of which a process has 1024 unless it asks for more.
inline constexpr std::size_t arena_contexts_max = 1024;

class ContextArena {
 public:
  /// Sets the memory aside, once; before the first context is made. False: there is none.
  [[nodiscard]] static bool open();

  /// Memory for a context of `bytes`: in the arena if it is open, else from the heap. Throws
  /// std::bad_alloc.
  [[nodiscard]] static void* allocate(std::size_t bytes);
  static void free(void* memory) noexcept;

  [[nodiscard]] static bool contains(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) - first < size;
  }

 private:
  /// Zero as long as it isn't open: then nothing is inside.
  static std::uintptr_t first;
  static std::size_t size;
};

}  // namespace verbena::verbs
