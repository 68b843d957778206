// What the settings of a device come to together: which don't go with each other, and what those
// that nobody made are.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <utility>

#include "base/fnv.h"
#include "base/prng.h"
#include "nic_model/rnic_profile.h"
#include "ports/device_draft.h"
#include "ports/interfaces.h"
#include "ports/packet_sizes.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

std::unexpected<std::string> refuse(std::string reason) {
  return std::unexpected(std::move(reason));
}

std::size_t overhead_bytes(const Gid& address) {
  return packet_overhead_bytes(roce::ipv4_from_gid(address) ? inet::ipv4_header_bytes
                                                            : inet::ipv6_header_bytes);
}

/// What tells this machine from others and stays the same.
std::string machine_identity() {
  std::ifstream file("/etc/machine-id");
  std::string identity;
  if (file >> identity && !identity.empty()) {
    return identity;
  }
  std::array<char, 256> host_name{};
  static_cast<void>(gethostname(host_name.data(), host_name.size() - 1));
  return host_name.data();
}

/// A 64-bit identifier that is ours to give: EUI-64 with the "local" bit set and the "group" bit
/// clear (IEEE 802-2014, 8.2).
std::uint64_t derived_guid(std::string_view device_name) {
  const std::uint64_t hash = fnv1a(machine_identity() + '/' + std::string(device_name));
  constexpr std::uint64_t low_56 = (std::uint64_t{1} << 56) - 1;
  return (Prng(hash).next() & low_56) | std::uint64_t{0x02} << 56;
}

}  // namespace

SetResult DeviceDraft::finish_link() {
  if (config_.link.empty()) {
    return mac_ ? refuse(fmt::format("only a device on a link has an Ethernet address of its own: "
                                     "{} goes with {}",
                                     env::mac, env::link))
                : SetResult{};
  }
  if (config_.link_addresses.empty()) {
    return refuse(
        fmt::format("a device on a link needs an IP address of its own there, one of the subnet of "
                    "whoever is at the other end: {}=10.7.0.1/24, or --address of `verbena run`",
                    env::address));
  }
  if (config_.vlan) {
    return refuse("a link carries untagged frames: a VLAN doesn't go with it");
  }
  config_.mac = mac_.value_or(nic::mac_of(config_.addresses.front()));
  return {};
}

SetResult DeviceDraft::finish_mtu() {
  if (!config_.link.empty()) {
    // What fits an Ethernet of 1500 bytes, which is what guests have unless told otherwise.
    config_.mtu = mtu_.value_or(nic::Mtu::mtu_1024);
    return {};
  }
  // What is local goes by the fabric, whatever its interface would carry.
  InterfaceAddress narrowest{.address = config_.addresses.front(),
                             .mtu_bytes = std::numeric_limits<std::uint16_t>::max()};
  const auto room_bytes = [](const InterfaceAddress& item) {
    return item.mtu_bytes - std::min(item.mtu_bytes, overhead_bytes(item.address));
  };
  const auto host = config_.faces_network() ? host_addresses() : std::vector<InterfaceAddress>{};
  for (const InterfaceAddress& item : host) {
    if (!roce::is_loopback(item.address) && room_bytes(item) < room_bytes(narrowest) &&
        std::ranges::find(config_.addresses, item.address) != config_.addresses.end()) {
      narrowest = item;
    }
  }
  const auto fits = [&](nic::Mtu mtu) { return nic::mtu_bytes(mtu) <= room_bytes(narrowest); };
  const auto largest = std::ranges::find_if(mtus.rbegin(), mtus.rend(), fits);
  if (largest == mtus.rend() || (mtu_ && !fits(*mtu_))) {
    return refuse(fmt::format(
        "the network interface of {} carries IP packets of {} bytes, so that an MTU of {} bytes "
        "doesn't fit ({} bytes are headers)",
        roce::to_address_text(narrowest.address), narrowest.mtu_bytes,
        nic::mtu_bytes(mtu_.value_or(mtus.front())), overhead_bytes(narrowest.address)));
  }
  config_.mtu = mtu_.value_or(*largest);
  return {};
}

SetResult DeviceDraft::check_transport() const {
  if (!is_iwarp()) {
    return has_iwarp_settings_
               ? SetResult(refuse(
                     fmt::format("settings of MPA and RDMAP are for iWARP devices only ({}=iwarp)",
                                 env::transport)))
               : SetResult();
  }
  if (config_.raw || config_.vlan) {
    return refuse(
        "an iWARP device uses TCP sockets of the operating system, or a TCP of its own on a link: "
        "it takes addresses, an interface or a link, no raw Ethernet and no VLAN");
  }
  if (!config_.faults.empty() && config_.link.empty()) {
    return refuse(
        "faults are of frames, and those of an iWARP device are made by the operating system's "
        "TCP; use a device on a link, the simulator (verbena sim), or tc-netem(8) on the "
        "interface");
  }
  if (has_roce_settings_) {
    return refuse("ICRC and ACK timers are RoCE's: an iWARP device has MPA's CRC and TCP's timers");
  }
  return {};
}

Result<DeviceConfig, std::string> DeviceDraft::finish() && {
  config_.name = name();
  if (const SetResult result = finish_link(); !result) {
    return refuse(fmt::format("{}: {}", config_.name, result.error()));
  }
  if (config_.addresses.empty()) {
    config_.addresses = {roce::gid_from_ipv4({{127, 0, 0, 1}})};
  }
  if (const SetResult result = check_transport(); !result) {
    return refuse(fmt::format("{}: {}", config_.name, result.error()));
  }
  if (config_.vlan && config_.faces_network() && !config_.makes_frames()) {
    return refuse(fmt::format(
        "{}: the kernel makes the Ethernet frames of a UDP socket; for VLAN {} use raw Ethernet "
        "({}), or the addresses of a VLAN interface (ip link add link ... type vlan id {})",
        config_.name, *config_.vlan, env::raw, *config_.vlan));
  }
  if (const SetResult result = finish_mtu(); !result) {
    return refuse(fmt::format("{}: {}", config_.name, result.error()));
  }
  if (is_iwarp()) {
    config_.profile = nic::rnic_profile(config_.profile, config_.rdmap_extensions);
  }
  if (config_.guid == 0) {
    config_.guid = derived_guid(config_.name);
  }
  if (config_.fabric_path.empty()) {
    if (const SetResult result = set_fabric("default"); !result) {
      return refuse(result.error());
    }
  }
  return std::move(config_);
}

}  // namespace verbena::ports
