// Structs to and from wire bytes, at any alignment.
#include "base/bytes.h"

#include <array>
#include <catch2/catch.hpp>

namespace verbena {
namespace {

struct TwoBytes {
  std::uint8_t high;
  std::uint8_t low;
};
static_assert(is_wire_struct<TwoBytes, 2>);
static_assert(!is_wire_struct<TwoBytes, 3>, "the size counts");
static_assert(!is_wire_struct<std::uint16_t, 2>, "the alignment counts");

TEST_CASE("a struct written to unaligned bytes reads back, and its neighbours stay", "[bytes]") {
  std::array<std::byte, 8> buffer{};
  buffer.fill(std::byte{0xA5});
  write_struct(MutableBytes(buffer).subspan(3), std::uint32_t{0x0102'0304});
  REQUIRE(read_struct<std::uint32_t>(ByteView(buffer).subspan(3)) == 0x0102'0304);
  for (const std::size_t i : {0U, 1U, 2U, 7U}) {
    REQUIRE(buffer[i] == std::byte{0xA5});
  }
}

TEST_CASE("the bytes of a struct are its own memory", "[bytes]") {
  const TwoBytes value{.high = 0x12, .low = 0x34};
  const ByteView view = bytes_of(value);
  REQUIRE(view.size() == 2);
  REQUIRE(view[0] == std::byte{0x12});
  REQUIRE(view[1] == std::byte{0x34});
  REQUIRE(static_cast<const void*>(view.data()) == &value);
}

TEST_CASE("copying bytes fills the start of the target only", "[bytes]") {
  std::array<std::byte, 4> target{};
  target.fill(std::byte{0xA5});
  const std::array source{std::byte{1}, std::byte{2}};
  copy_bytes(target, source);
  REQUIRE(target == std::array{std::byte{1}, std::byte{2}, std::byte{0xA5}, std::byte{0xA5}});
  copy_bytes(target, {});
  copy_bytes({}, {});
  REQUIRE(target[0] == std::byte{1});
}

}  // namespace
}  // namespace verbena
