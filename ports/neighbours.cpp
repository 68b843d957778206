#include "ports/neighbours.h"

#include <fmt/format.h>

#include <chrono>

#include "ports/log.h"
#include "ports/netlink.h"
#include "ports/socket_address.h"
#include "ports/sys_net.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// After so long the kernel is asked again: it hears of changes, we don't.
constexpr Duration validity = 1s;
/// For how long an answer is awaited. The kernel repeats its question after a second.
constexpr Duration patience = 1500ms;
/// The application chooses whom it sends to: it can't make us remember all.
constexpr std::size_t entries_max = 4096;
/// RFC 863.
constexpr std::uint16_t discard_port = 9;

}  // namespace

Neighbours::Answer Neighbours::find(const Gid& destination, Time now) {
  using Kind = Answer::Kind;
  if (const auto group = roce::multicast_mac(destination)) {
    return {.kind = Kind::known, .mac = *group};
  }
  if (const auto mac = roce::mac_from_link_local(destination)) {
    return {.kind = Kind::known, .mac = *mac};
  }
  if (entries_.size() >= entries_max) {
    entries_.clear();
  }
  Entry& entry = entries_[destination];
  if (now < entry.valid_until) {
    return {.kind = entry.mac ? Kind::known : Kind::unreachable,
            .mac = entry.mac.value_or(inet::MacAddress{})};
  }
  return look_up(destination, entry, now);
}

Neighbours::Answer Neighbours::look_up(const Gid& destination, Entry& entry, Time now) {
  using Kind = Answer::Kind;
  // A descriptor of our own for each look would be one more that the program may close.
  const auto kernel = Netlink::open();
  const auto hop = kernel ? kernel->next_hop(destination, interface_index_) : std::nullopt;
  if (!hop) {
    give_up(destination, entry, now);
    return {};
  }
  entry.mac = kernel->neighbour(*hop, interface_index_);
  if (entry.mac) {
    entry.valid_until = now + validity;
    entry.asked.reset();
    entry.is_reported = false;
    return {.kind = Kind::known, .mac = *entry.mac};
  }
  if (!entry.asked) {
    entry.asked = now;
    ask_for(*hop);
  }
  if (now < *entry.asked + patience) {
    return {.kind = Kind::pending};
  }
  give_up(destination, entry, now);
  return {};
}

void Neighbours::ask_for(const Gid& address) const {
  if (const auto socket = sys::udp_socket(family_of(address))) {
    sys::send_empty(socket->get(), socket_address(address, discard_port, interface_index_));
  }
}

void Neighbours::give_up(const Gid& destination, Entry& entry, Time now) {
  ++given_up_;
  entry.mac.reset();
  entry.valid_until = now + validity;
  entry.asked.reset();
  if (!entry.is_reported) {
    entry.is_reported = true;
    report(
        fmt::format("{}: no Ethernet address for {}: no way leads there, or nobody answers; "
                    "frames to it are lost until somebody does",
                    device_, roce::to_address_text(destination)));
  }
}

}  // namespace verbena::ports
