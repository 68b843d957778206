// Result: the one alias for "a value or the reason why not".
#pragma once

#include <expected>

namespace verbena {

template <class T, class E>
using Result = std::expected<T, E>;

}  // namespace verbena
