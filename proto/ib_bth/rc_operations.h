// Kinds of request operations, as the responder of a reliable connection tells them apart.
#pragma once

#include "proto/ib_bth/opcode.h"

namespace verbena::ib {

/// Reads and writes a number of eight bytes at once.
[[nodiscard]] constexpr bool is_atomic(Operation operation) {
  return operation == Operation::compare_swap || operation == Operation::fetch_add;
}

/// Needs an address that is a multiple of eight.
[[nodiscard]] constexpr bool is_aligned_operation(Operation operation) {
  return is_atomic(operation) || operation == Operation::atomic_write;
}

/// Answered by a READ response that brings nothing (annex A19.4).
[[nodiscard]] constexpr bool is_answered_without_data(Operation operation) {
  return operation == Operation::flush || operation == Operation::atomic_write;
}

/// Answered with a response of its own, which is kept for replay.
[[nodiscard]] constexpr bool keeps_reply(Operation operation) {
  return operation == Operation::read_request || operation == Operation::flush ||
         is_aligned_operation(operation);
}

}  // namespace verbena::ib
