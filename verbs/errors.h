// How failures cross the C ABI: the Nic's reasons become errno values, and exceptions stop here.
#pragma once

#include <cerrno>
#include <exception>
#include <utility>

#include "base/result.h"
#include "nic_model/types.h"
#include "proto/work.h"

namespace verbena::verbs {

/// A positive errno value, as most verbs return it. 0 is success.
using Errno = int;

[[nodiscard]] constexpr Errno errno_of(nic::NicError error) {
  switch (error) {
    case nic::NicError::invalid_argument:
      return EINVAL;
    case nic::NicError::limit_reached:
    case nic::NicError::qpns_exhausted:
      return ENOMEM;
    case nic::NicError::busy:
      return EBUSY;
    case nic::NicError::unsupported:
      return EOPNOTSUPP;
  }
  return EINVAL;
}

[[nodiscard]] constexpr Errno errno_of(PostError error) {
  return error == PostError::queue_full ? ENOMEM : EINVAL;
}

template <class T, class Error>
[[nodiscard]] constexpr Errno errno_of(const Result<T, Error>& result) {
  return result ? 0 : errno_of(result.error());
}

/// The outcome of a verb that creates an object.
template <class T>
using Created = Result<T*, Errno>;

[[nodiscard]] inline std::unexpected<Errno> failed(Errno error) { return std::unexpected(error); }

/// Runs `create`, which returns a Created<T>. The caller of the verb gets the object, or NULL and
/// errno. What our code may throw is that memory ran out: no exception crosses the C ABI.
template <class Create>
auto create_or_null(Create&& create) noexcept -> typename decltype(create())::value_type {
  try {
    auto created = std::forward<Create>(create)();
    if (created) {
      return *created;
    }
    errno = created.error();
  } catch (const std::exception&) {
    errno = ENOMEM;
  }
  return nullptr;
}

/// NULL and EOPNOTSUPP: programs try, and do without.
[[nodiscard]] inline std::nullptr_t unsupported_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}

/// -1 and errno, for the few verbs that report that way.
[[nodiscard]] inline int minus_one(Errno error) {
  errno = error;
  return -1;
}

}  // namespace verbena::verbs
