// One end of a connection, or of a SIDR exchange, as the agent holds it. Private to the agent.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "proto/ib_bth/cm/agent.h"

namespace verbena::ib::cm {

/// The drawing is in agent.h.
enum class State : std::uint8_t {
  req_sent,
  req_received,
  rep_sent,
  rep_received,
  established,
  dreq_sent,
  dreq_received,
  timewait,
  sidr_req_sent,
  sidr_req_received,
  sidr_answered,
  /// The exchange is over; what remains is the consumer's to destroy.
  closed,
};

struct Connection {
  CommId id{};
  std::uintptr_t cookie = 0;
  State state = State::closed;
  /// The consumer has destroyed it: it hears of nothing more.
  bool orphan = false;
  Route route;
  /// Of the exchange that is under way.
  std::uint64_t transaction_id = 0;

  // The peer. Its queue pair is 0 until known.
  CommId remote_id{};
  std::uint64_t remote_guid = 0;
  Qpn remote_qpn{};

  /// For how long to wait for an answer, how often to ask again, and for how long after the end a
  /// packet of the connection may still be under way (12.9.8.4: twice the packet lifetime and the
  /// target's ACK delay; the ACK timeout of the path covers both).
  Duration answer_time{};
  Duration timewait{};
  std::uint8_t retries_max = 0;

  /// The message that is sent again until it is answered, and when duplicates ask for it.
  std::optional<Mad> last_sent;
  std::uint8_t retries_left = 0;
  Time deadline = time_never;
};

}  // namespace verbena::ib::cm
