// Contexts whose address tells that they are ours.
#include "verbs/context_arena.h"

#include <catch2/catch.hpp>
#include <new>
#include <set>

namespace verbena::verbs {
namespace {

constexpr std::size_t context_bytes = 1000;

TEST_CASE("an arena's memory is used again and known by its address, and it has an end") {
  void* const before = ContextArena::allocate(context_bytes);
  CHECK_FALSE(ContextArena::contains(before));
  REQUIRE(ContextArena::open());

  std::set<void*> all;
  for (std::size_t i = 0; i < arena_contexts_max; ++i) {
    all.insert(ContextArena::allocate(context_bytes));
  }
  CHECK(all.size() == arena_contexts_max);
  for (void* const memory : all) {
    CHECK(ContextArena::contains(memory));
  }
  CHECK_THROWS_AS(ContextArena::allocate(context_bytes), std::bad_alloc);

  void* const one = *all.begin();
  ContextArena::free(one);
  CHECK(ContextArena::contains(one));  // Whoever still has it, has it from us.
  CHECK(ContextArena::allocate(context_bytes) == one);

  for (void* const memory : all) {
    ContextArena::free(memory);
  }
  ContextArena::free(before);  // Which came from the heap, and goes there.
}

}  // namespace
}  // namespace verbena::verbs
