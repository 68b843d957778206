// Questions about the network that the kernel answers over rtnetlink(7): the way to an address, and
// the Ethernet address of a neighbour. One answer to each, at once.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/sys.h"
#include "proto/gid.h"
#include "proto/inet/mac_address.h"

namespace verbena::ports {

class Netlink {
 public:
  /// The error is -errno.
  [[nodiscard]] static Result<Netlink, int> open();

  /// Who has to get a packet to `destination` that leaves by the interface: a gateway, or
  /// `destination` itself; nullopt if no way leads there.
  [[nodiscard]] std::optional<Gid> next_hop(const Gid& destination, unsigned interface_index) const;
  /// The Ethernet address that the kernel knows; nullopt if it knows none, or not yet.
  [[nodiscard]] std::optional<inet::MacAddress> neighbour(const Gid& address,
                                                          unsigned interface_index) const;

 private:
  explicit Netlink(sys::Fd socket) : socket_(std::move(socket)) {}
  /// What follows the header of the answer; nullopt if it is an error, or not the answer.
  [[nodiscard]] std::optional<ByteView> ask(MutableBytes question, std::uint16_t answer_type,
                                            MutableBytes room) const;

  sys::Fd socket_;
};

/// The value of the first attribute of that type in a row of them (rtnetlink(7)); nullopt if there
/// is none, or if the row makes no sense before it.
[[nodiscard]] std::optional<ByteView> attribute(ByteView row, std::uint16_t type);

}  // namespace verbena::ports
