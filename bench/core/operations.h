// What is measured of the core, each as something to do again and again: core_bench takes the time,
// core_repeat runs under callgrind, which counts instructions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace verbena::bench {

struct Operation {
  /// "what/bytes".
  std::string name;
  /// Bytes of payload that one call handles.
  std::size_t bytes = 0;
  /// Prepares, and gives what to call.
  std::function<std::function<void()>()> make;
};

[[nodiscard]] std::span<const Operation> operations();

}  // namespace verbena::bench
