// Byte views, and the one way in which structs are read from and written to wire bytes: memcpy.
// Never reinterpret_cast wire memory: it is neither aligned nor typed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace verbena {

using ByteView = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// A struct that can be laid on wire bytes: no padding to worry about, alignment 1, exact size.
template <class T, std::size_t size_bytes>
inline constexpr bool is_wire_struct =
    std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> && alignof(T) == 1 &&
    sizeof(T) == size_bytes;

/// Reads a T from the start of `bytes`. The caller has checked the length.
template <class T>
[[nodiscard]] T read_struct(ByteView bytes) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  VERBENA_CHECK(bytes.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// Writes a T to the start of `bytes`. The caller has checked the length.
template <class T>
void write_struct(MutableBytes bytes, const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  VERBENA_CHECK(bytes.size() >= sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
}

/// The bytes of an object, for example of a wire struct that is about to be written.
template <class T>
[[nodiscard]] ByteView bytes_of(const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

/// Copies all of `from` to the start of `to`, which must be long enough.
inline void copy_bytes(MutableBytes to, ByteView from) noexcept {
  VERBENA_CHECK(to.size() >= from.size());
  if (!from.empty()) {
    std::memcpy(to.data(), from.data(), from.size());
  }
}

}  // namespace verbena
