// Who has which Ethernet address on a link, and when to ask: the states of ARP (RFC 1122, 2.3.2)
// and neighbour discovery (RFC 4861, 7.3), without their packets.
//
//               find()             learn()
//   nobody ──────────▶ asked ─────────────────▶ known ── 30 s, then find() ──▶ asked again
//     ▲                  │ 3 questions, a second each    ▲                        │  (its address
//     │                  ▼                               └──────── learn() ───────┤   is used on)
//     └──── 1 s ──── given up ◀─────────────────────────────── 3 questions ───────┘
//
// Entries are made by find() and for peers that ask for us; whoever just sends packets can't fill
// the table with names that nobody looks for: those who are looked for are the last to go.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"

namespace verbena::inet {

/// RFC 4861, 10: MAX_MULTICAST_SOLICIT, RETRANS_TIMER, REACHABLE_TIME.
inline constexpr unsigned neighbour_questions_max = 3;
inline constexpr Duration neighbour_question_interval = std::chrono::seconds(1);
inline constexpr Duration neighbour_validity = std::chrono::seconds(30);
/// For how long nobody is asked for again who didn't answer.
inline constexpr Duration neighbour_failure_validity = std::chrono::seconds(1);
inline constexpr std::size_t neighbours_max = 128;

struct NeighbourAnswer {
  enum class Kind : std::uint8_t {
    known,
    /// Asked for: try again soon.
    pending,
    /// Nobody answers.
    unreachable,
  };
  Kind kind = Kind::unreachable;
  MacAddress mac{};
};

class NeighbourTable {
 public:
  struct Question {
    Ipv6Address address;
    /// Who is asked whether it still is its own; without one, everybody.
    std::optional<MacAddress> mac{};
  };

  NeighbourTable() { entries_.reserve(neighbours_max); }

  /// IPv4 addresses are mapped.
  [[nodiscard]] NeighbourAnswer find(const Ipv6Address& address, Time now);
  /// An answer came, or a question of this neighbour. `wanted`: if nobody has looked for it, an
  /// entry is made all the same.
  void learn(const Ipv6Address& address, const MacAddress& mac, bool wanted, Time now);
  /// What is to be asked now; nullopt if nothing is.
  [[nodiscard]] std::optional<Question> next_question(Time now);
  [[nodiscard]] Time next_timeout() const { return next_timeout_; }

  /// Forgets that nobody answered, for example because the link was out.
  void forget_failures();

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

 private:
  enum class State : std::uint8_t { asked, known, probed, given_up };
  struct Entry {
    Ipv6Address address;
    MacAddress mac{};
    State state = State::asked;
    /// Somebody looked for it.
    bool wanted = false;
    unsigned questions = 0;
    /// When the state ends, or the next question is due.
    Time until{};
    Time last_used{};
  };

  [[nodiscard]] Entry* entry_of(const Ipv6Address& address);
  Entry& add(const Ipv6Address& address, bool wanted, Time now);
  void ask(Entry& entry, State state, Time now);
  [[nodiscard]] Time time_of_next_question() const;

  std::vector<Entry> entries_;
  /// Where the last search ended: most frames go where the one before went.
  std::size_t last_hit_ = 0;
  Time next_timeout_ = time_never;
  std::uint64_t given_up_ = 0;
  std::uint64_t evicted_ = 0;
};

}  // namespace verbena::inet
