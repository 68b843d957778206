#include "verbs/context_arena.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <new>

#include "verbs/context.h"

namespace verbena::verbs {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t slot_bytes = (sizeof(Context) + page_bytes - 1) / page_bytes * page_bytes;

/// Without a lock, which a child of a fork() might inherit from a thread that it doesn't have.
std::array<std::atomic<bool>, arena_contexts_max> occupied;

}  // namespace

std::uintptr_t ContextArena::first = 0;
std::size_t ContextArena::size = 0;

bool ContextArena::open() {
  constexpr std::size_t bytes = arena_contexts_max * slot_bytes;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return false;
  }
  first = reinterpret_cast<std::uintptr_t>(memory);
  size = bytes;
  return true;
}

void* ContextArena::allocate(std::size_t bytes) {
  if (size == 0) {
    return ::operator new(bytes);
  }
  for (std::size_t slot = 0; slot < occupied.size(); ++slot) {
    if (bytes <= slot_bytes && !occupied[slot].exchange(true, std::memory_order_acquire)) {
      return reinterpret_cast<void*>(first + slot * slot_bytes);
    }
  }
  throw std::bad_alloc();
}

void ContextArena::free(void* memory) noexcept {
  if (!contains(memory)) {
    ::operator delete(memory);
    return;
  }
  const std::size_t slot = (reinterpret_cast<std::uintptr_t>(memory) - first) / slot_bytes;
  occupied[slot].store(false, std::memory_order_release);
}

}  // namespace verbena::verbs
