// The verbs ABI as we define it: rdma-core's header, minus the macros that would rename our
// definitions, plus the mark of an exported function.
#pragma once

#include <infiniband/verbs.h>

#include <cstring>
#include <type_traits>

// In a program these names are macros around inline functions; here they are the functions.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/// A function of the C ABI. libibverbs.map (or librdmacm.map) gives it its version.
#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbena::verbs {

/// The number in a field that a program has filled, or left as it was. The field's type is an
/// enumeration; a number that its enumerators can't have is lawful in C, but to read it as one of
/// them is undefined in C++.
template <class Enum>
[[nodiscard]] std::underlying_type_t<Enum> number_in(const Enum& field) {
  std::underlying_type_t<Enum> number;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

}  // namespace verbena::verbs
