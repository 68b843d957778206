// Message layouts as tables: a message lists its fields once, with name, member and place; reading,
// writing and printing are loops over that list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/ids.h"
#include "proto/gid.h"

namespace verbena::ib::cm {

/// A place in a message: `width` bits from bit `bit` (0 is the most significant) of byte `byte`,
/// both counted from the end of the MAD header. Fields don't cross eight bytes.
struct Place {
  std::size_t byte = 0;
  std::size_t bit = 0;
  std::size_t width = 0;
};

template <class Message, class Value>
struct Field {
  const char* name;
  Value Message::* member;
  Place place;
};

template <class Message, class Value>
[[nodiscard]] constexpr Field<Message, Value> field(const char* name, Value Message::* member,
                                                    std::size_t byte, std::size_t width) {
  return {name, member, {byte, 0, width}};
}
template <class Message, class Value>
[[nodiscard]] constexpr Field<Message, Value> field_at_bit(const char* name,
                                                           Value Message::* member,
                                                           std::size_t byte, std::size_t bit,
                                                           std::size_t width) {
  return {name, member, {byte, bit, width}};
}
/// A field that fills whole bytes, or a group of fields: its size is that of its type.
template <class Message, class Value>
[[nodiscard]] constexpr Field<Message, Value> block(const char* name, Value Message::* member,
                                                    std::size_t byte) {
  return {name, member, {byte, 0, 0}};
}

/// A struct that lists its own fields.
template <class T>
concept FieldGroup = requires { T::fields(); };

template <class T>
concept NumberField = std::is_integral_v<T> || std::is_enum_v<T> || std::is_same_v<T, Psn>;

template <NumberField T>
[[nodiscard]] constexpr std::uint64_t number_of(T value) {
  if constexpr (std::is_same_v<T, Psn>) {
    return value.value();
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

template <NumberField T>
[[nodiscard]] constexpr T from_number(std::uint64_t number) {
  if constexpr (std::is_same_v<T, Psn>) {
    return Psn(static_cast<std::uint32_t>(number));
  } else {
    return static_cast<T>(number);
  }
}

[[nodiscard]] std::uint64_t read_bits(ByteView bytes, const Place& place);
/// Bits of `value` beyond the width are lost; neighbours keep theirs.
void write_bits(MutableBytes bytes, const Place& place, std::uint64_t value);

/// Calls visit(field, value, byte offset of the group) for each field of `group` that is not itself
/// a group. `Group` may be const.
template <class Group, class Visitor>
void for_each_field(Group& group, Visitor&& visit, std::size_t base = 0) {
  std::apply(
      [&](const auto&... each) {
        const auto visit_one = [&](const auto& one) {
          auto& value = group.*one.member;
          if constexpr (FieldGroup<std::remove_cvref_t<decltype(value)>>) {
            for_each_field(value, visit, base + one.place.byte);
          } else {
            visit(one, value, base);
          }
        };
        (visit_one(each), ...);
      },
      std::remove_const_t<Group>::fields());
}

/// Reads all fields of a group from the bytes behind a MAD header.
template <class Group>
void read_fields(ByteView bytes, Group& group) {
  for_each_field(group, [&](const auto& field, auto& value, std::size_t base) {
    using Value = std::remove_reference_t<decltype(value)>;
    const Place place{base + field.place.byte, field.place.bit, field.place.width};
    if constexpr (NumberField<Value>) {
      value = from_number<Value>(read_bits(bytes, place));
    } else {
      value = read_struct<Value>(bytes.subspan(place.byte));
    }
  });
}

/// Writes all fields of a group; the bytes between them keep their values.
template <class Group>
void write_fields(MutableBytes bytes, const Group& group) {
  for_each_field(group, [&](const auto& field, const auto& value, std::size_t base) {
    using Value = std::remove_cvref_t<decltype(value)>;
    const Place place{base + field.place.byte, field.place.bit, field.place.width};
    if constexpr (NumberField<Value>) {
      write_bits(bytes, place, number_of(value));
    } else {
      write_struct(bytes.subspan(place.byte), value);
    }
  });
}

}  // namespace verbena::ib::cm
