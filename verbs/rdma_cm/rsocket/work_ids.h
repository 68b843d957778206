// What the work requests of a stream say of themselves, to be known again by their completions: in
// the upper bits what they were, in the lower ones how much of the send ring, or where a message
// comes.
#pragma once

#include <cstdint>

namespace verbena::rsocket {

inline constexpr std::uint64_t wr_receive = std::uint64_t{1} << 63;
inline constexpr std::uint64_t wr_control = std::uint64_t{1} << 62;
/// A write whose message follows: what is to be said of both is said of the message.
inline constexpr std::uint64_t wr_has_message_behind = std::uint64_t{1} << 61;

}  // namespace verbena::rsocket
