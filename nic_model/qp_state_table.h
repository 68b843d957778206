// Which transitions a queue pair may make, and which attributes each requires and permits: one
// table. Read first: IBTA vol 1, 10.3.1 (states), 11.2.5.2 with table 91 (modify queue pair).
//
//     RESET ──► INIT ──► RTR ──► RTS ◄──► SQD
//       ▲                         ▲ └──► SQE (UC, UD: an error of the send queue alone)
//       │                         └──────┘
//     any state ──► RESET, any state ──► ERR
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "nic_model/types.h"

namespace verbena::nic {

struct TransitionRule {
  std::uint32_t required = 0;
  std::uint32_t optional = 0;
};

/// The rule for a transition, nullopt if there is none. Attribute bits are of qp_attr_mask; `state`
/// itself belongs to none of the masks and is always permitted.
[[nodiscard]] std::optional<TransitionRule> transition_rule(QpType type, QpState from, QpState to);

/// Whether a modify_qp() with `mask` may take a queue pair from one state to another.
[[nodiscard]] bool transition_permits(QpType type, QpState from, QpState to, std::uint32_t mask);

/// From RESET on, until packets can be sent.
inline constexpr std::array bring_up_states{QpState::init, QpState::rtr, QpState::rts};

/// The mask of the modify_qp() that takes a queue pair to the next of these states: `state`, and
/// what the transition requires.
[[nodiscard]] std::uint32_t bring_up_mask(QpType type, QpState to);

}  // namespace verbena::nic
