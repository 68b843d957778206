// Which devices this process has, and what they are like: from a TOML file (VERBENA_CONFIG), from
// single environment variables, or by default verbena0 on the loopback address. The drop-in
// library, `verbena run` and `verbena devices` read the same table through load_devices().
//
// A configuration file, every key but [[device]] itself may be left out:
//
//   [[device]]                       # one table for each device
//   name = "verbena0"
//   addresses = ["127.0.0.1"]        # IP addresses of this host, or instead of them
//   interface = "lo"                 # an interface, for all its IP addresses, or
//   raw = "eth0"                     # the same, by raw Ethernet
//   link = "qemu:/tmp/wire"          # a link without an interface: a QEMU guest's wire; addresses
//                                    # are then of its subnets and not this host's: "10.7.0.1/24"
//   mac = "02:00:0a:07:00:01"        # of a link device; by default made of its first address
//   vlan = 5                         # tag of a raw or loopback device, 1 to 4094
//   mtu = 4096                       # 256, 512, 1024, 2048 or 4096 bytes; by default the largest
//                                    # that the interface carries
//   guid = "0200:00ff:fe12:3456"     # node GUID, 16 hexadecimal digits
//   transport = "roce"               # or "iwarp"
//   profile = "cx5"                  # what to imitate: cx5, e810, rxe, siw, minimal (verbena)
//   ack_timeout_min_ms = 50
//   icrc_sent = "good"               # or "bad", "zero"; see icrc_mode.h
//   icrc_check = "on"                # or "count", "off"
//   connect_timeout_s = 10           # of rdma_cm, 1 to 3600; by default as Linux, over a minute
//   fabric = "default"               # a name, or a path with a '/'
//   ring_kib = 1024                  # ring to each process of the fabric, a power of two
//   mpa_revision = 2                 # iWARP, for peers in the field: the revision of MPA, 1 or 2
//   mpa_crc = "on"                   # "on": ask for it, "off": only if the peer asks, "refuse": no
//                                    # connection with a peer that asks
//   mpa_markers = false              # ask for markers in what we receive
//   mpa_peer_to_peer = true          # who connects shows that it is ready, so that who accepts
//                                    # may send first
//   mpa_legacy_depths = false        # revision 1 tells how many READs a side takes and wants, in
//                                    # front of the private data, as SMB Direct's providers do
//   [device.limits]                  # lower than the profile's, under the profile's names
//   qp_max = 1000
//
// Unknown keys and wrong types are errors that name file, line and column. So is a key that means
// nothing on a device's transport. A variable that belongs to one transport is for the devices of
// that transport; if there are none, it is an error.
//
// An iWARP device carries its connections over TCP sockets of the operating system, or on a link
// over a TCP of its own (own_tcp.h); without a name it is verbena_iw0. It is there only if it is
// asked for: a program that listens on all devices would otherwise occupy ports of the host.
// VERBENA_TRANSPORT=both, without a file, makes verbena0 and behind it verbena_iw0.
//
// The GID table is predictable: one RoCE v2 entry for each address, in the order in which the
// addresses are given; an interface gives its IPv4 addresses, then its IPv6 addresses, the
// link-local ones last. Index 0, which many programs take blindly, is the first address. A device
// on the loopback interface has more, because in the fabric everything works: a RoCE v2 entry for
// the link-local IPv6 address that belongs to the first address, and then all of them again as RoCE
// v1. One of raw Ethernet or on a link has the same, with the link-local address of its Ethernet
// address. So
// 127.0.0.1 gives the following, if no profile wants it otherwise (nic_model/gid_order.h):
//
//   0  ::ffff:127.0.0.1  RoCE v2      2  ::ffff:127.0.0.1  RoCE v1
//   1  fe80::7fff:fe00:1 RoCE v2      3  fe80::7fff:fe00:1 RoCE v1
//
// A device on the loopback interface speaks to this host only. One with another address opens UDP
// port 4791 of it, for other hosts (udp_socket.h), or the interface itself (raw_port.h), or a link
// (link_port.h).
//
// There is no ARP in a fabric: Ethernet addresses follow from IP addresses (nic::mac_of()).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "faults/rule.h"
#include "nic_model/device_profile.h"
#include "nic_model/types.h"
#include "ports/icrc_mode.h"
#include "proto/gid.h"
#include "proto/inet/link_address.h"
#include "proto/inet/mac_address.h"
#include "proto/iwarp/negotiation.h"

namespace verbena::ports {

/// One device, checked and complete.
struct DeviceConfig {
  std::string name = "verbena0";
  /// IP addresses that are local to this host, without duplicates, 1 to gids_max.
  std::vector<Gid> addresses;
  /// The network interface that they were taken of; empty if they were given one by one.
  std::string interface;
  /// Whole Ethernet frames leave by the interface, instead of datagrams by UDP sockets.
  bool raw = false;
  /// The link that the device is on (link.h); empty if it is on none. `addresses` are those of
  /// `link_addresses` then.
  std::string link;
  std::vector<inet::LinkAddress> link_addresses;
  /// The Ethernet address of the interface, if raw; the device's own on a link.
  inet::MacAddress mac{};
  /// See nic::GidEntry::vlan.
  std::optional<std::uint16_t> vlan{};
  nic::Mtu mtu = nic::Mtu::mtu_4096;
  /// Node GUID, never 0. By default derived from the device's name and the machine's identity
  /// (/etc/machine-id, or else the host name): the same after each start, different on two hosts.
  std::uint64_t guid = 0;
  /// Identity and limits.
  nic::DeviceProfile profile = nic::default_profile();
  /// See NicConfig::ack_timeout_min.
  Duration ack_timeout_min = std::chrono::milliseconds(50);
  IcrcSent icrc_sent = IcrcSent::good;
  IcrcCheck icrc_check = IcrcCheck::on;
  /// After how long the connection manager gives up who doesn't answer, if not later than the
  /// connection's parameters say.
  Duration connect_timeout = Duration::max();
  /// Absolute path of the fabric file through which processes of this host reach each other.
  std::string fabric_path;
  /// Capacity of the ring to each process of the fabric. A power of two.
  std::size_t ring_bytes = std::size_t{1} << 20;
  /// Where to write a capture, see pcap::PcapngWriter::open(); empty for none.
  std::string capture;
  /// What happens to frames on their way, and the seed of its chances.
  faults::RuleSet faults;
  std::uint64_t fault_seed = 1;

  /// What its connections are made of.
  nic::Technology technology = nic::Technology::roce;
  /// Of an iWARP device. Peer-to-peer unless configured otherwise: programs that were written for
  /// InfiniBand let either side send first (ib_write_lat: the one that has accepted), and without
  /// it a responder has to wait for the initiator's first message.
  iwarp::MpaSettings mpa{.peer_to_peer = true};

  /// Sentences that its user should read: what was asked for, and isn't for this device.
  std::vector<std::string> notes;

  /// An address is not a loopback address: other hosts can reach the device.
  [[nodiscard]] bool faces_network() const;
  /// Of a device on a link: its address in whose subnet `peer` is. Nothing if it is in none, and of
  /// other devices, whose kernel knows better.
  [[nodiscard]] std::optional<Gid> address_toward(const Gid& peer) const;
  /// The device makes whole Ethernet frames for others, under an address of `mac`.
  [[nodiscard]] bool makes_frames() const { return raw || !link.empty(); }
};

inline constexpr std::size_t gids_max = 256;
inline constexpr std::size_t devices_max = 64;
/// IBV_SYSFS_NAME_MAX is 64 with its final zero.
inline constexpr std::size_t device_name_bytes_max = 63;
inline constexpr std::size_t ring_bytes_min = std::size_t{64} << 10;
inline constexpr std::size_t ring_bytes_max = std::size_t{64} << 20;
inline constexpr std::size_t config_file_bytes_max = std::size_t{1} << 20;

/// An environment variable that Verbena reads: the one table from which help texts are made.
struct EnvironmentVariable {
  /// "VERBENA_MTU".
  const char* name;
  /// The option of `verbena run` that sets it, "--mtu".
  const char* option;
  /// What the value is, for usage lines: "BYTES".
  const char* value_name;
  const char* help;
};

/// Names of the variables, to set and to look up.
namespace env {
inline constexpr const char* config = "VERBENA_CONFIG";
inline constexpr const char* device = "VERBENA_DEVICE";
inline constexpr const char* address = "VERBENA_ADDRESS";
inline constexpr const char* interface = "VERBENA_INTERFACE";
inline constexpr const char* raw = "VERBENA_RAW";
inline constexpr const char* link = "VERBENA_LINK";
inline constexpr const char* mac = "VERBENA_MAC";
inline constexpr const char* vlan = "VERBENA_VLAN";
inline constexpr const char* mtu = "VERBENA_MTU";
inline constexpr const char* guid = "VERBENA_GUID";
inline constexpr const char* transport = "VERBENA_TRANSPORT";
inline constexpr const char* profile = "VERBENA_PROFILE";
inline constexpr const char* ack_timeout_min_ms = "VERBENA_ACK_TIMEOUT_MIN_MS";
inline constexpr const char* icrc_sent = "VERBENA_ICRC_SENT";
inline constexpr const char* icrc_check = "VERBENA_ICRC_CHECK";
inline constexpr const char* connect_timeout_s = "VERBENA_CONNECT_TIMEOUT_S";
inline constexpr const char* mpa_revision = "VERBENA_MPA_REVISION";
inline constexpr const char* mpa_crc = "VERBENA_MPA_CRC";
inline constexpr const char* mpa_markers = "VERBENA_MPA_MARKERS";
inline constexpr const char* mpa_peer_to_peer = "VERBENA_MPA_PEER_TO_PEER";
inline constexpr const char* mpa_legacy_depths = "VERBENA_MPA_LEGACY_DEPTHS";
inline constexpr const char* fabric = "VERBENA_FABRIC";
inline constexpr const char* ring_kib = "VERBENA_RING_KIB";
inline constexpr const char* capture = "VERBENA_CAPTURE";
inline constexpr const char* loss = "VERBENA_LOSS";
inline constexpr const char* duplicate = "VERBENA_DUP";
inline constexpr const char* reorder = "VERBENA_REORDER";
inline constexpr const char* corrupt = "VERBENA_CORRUPT";
inline constexpr const char* delay = "VERBENA_DELAY";
inline constexpr const char* fault = "VERBENA_FAULT";
inline constexpr const char* faults = "VERBENA_FAULTS";
inline constexpr const char* seed = "VERBENA_SEED";
inline constexpr const char* log = "VERBENA_LOG";
}  // namespace env

/// All of them, in the order in which help lists them.
[[nodiscard]] std::span<const EnvironmentVariable> environment_variables();

/// Looks a variable up; nullptr if it is not set. The result is copied before the next call.
using Environment = std::function<const char*(const char* name)>;

/// The environment of this process; nothing in a setuid program (secure_getenv).
[[nodiscard]] Environment process_environment();

/// The devices that `environment` asks for, at least one. An empty variable counts as not set. The
/// file comes first, then the single variables override it: with several devices in the file,
/// VERBENA_DEVICE chooses one, and what belongs to one device (address, interface, GUID) is refused
/// until one is chosen. The error is a sentence that says what is wrong, where, and what to do.
[[nodiscard]] Result<std::vector<DeviceConfig>, std::string> load_devices(
    const Environment& environment);

/// The devices of a configuration file's text; `file_name` is for messages. Addresses are checked
/// against this host's.
[[nodiscard]] Result<std::vector<DeviceConfig>, std::string> parse_devices(
    std::string_view toml, std::string_view file_name);

/// The Nic's part of a configuration.
[[nodiscard]] nic::NicConfig nic_config(const DeviceConfig& config);

}  // namespace verbena::ports
