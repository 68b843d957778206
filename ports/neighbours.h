// The Ethernet addresses of peers, as the kernel knows them: it speaks ARP and ND, answers them,
// and keeps the table. Who is not in it yet is asked for, by a datagram that nobody wants.
//
//             ┌── known ──▶ fresh for a second, then looked up again
//   look up ──┤
//             └── unknown ──▶ asked for ──▶ known, or given up for a second
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "proto/gid.h"
#include "proto/inet/mac_address.h"

namespace verbena::ports {

class Neighbours {
 public:
  struct Answer {
    enum class Kind : std::uint8_t {
      known,
      /// Asked for: try again soon.
      pending,
      /// Nobody answers, or no way leads there.
      unreachable,
    };
    Kind kind = Kind::unreachable;
    inet::MacAddress mac{};
  };

  /// `device` is for messages.
  Neighbours(std::string device, unsigned interface_index)
      : device_(std::move(device)), interface_index_(interface_index) {}

  /// Who gets frames to `destination`. Groups and link-local addresses made of an Ethernet address
  /// tell it themselves.
  [[nodiscard]] Answer find(const Gid& destination, Time now);

  /// How often a neighbour was given up.
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }

 private:
  struct Entry {
    std::optional<inet::MacAddress> mac;
    /// Until then the answer stands, whatever it is.
    Time valid_until{};
    std::optional<Time> asked;
    bool is_reported = false;
  };

  [[nodiscard]] Answer look_up(const Gid& destination, Entry& entry, Time now);
  void ask_for(const Gid& address) const;
  void give_up(const Gid& destination, Entry& entry, Time now);

  std::string device_;
  unsigned interface_index_;
  std::map<Gid, Entry> entries_;
  std::uint64_t given_up_ = 0;
};

}  // namespace verbena::ports
