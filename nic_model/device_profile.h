// What a device says of itself: identity, abilities and limits. Programs read it through
// ibv_query_device() and meet these limits; the Nic enforces them.
//
// There is one table for each device that can be imitated, in nic_model/profiles/, with the source
// of each number. A profile only takes away from what the Nic can do. What no source tells stays as
// it is in the default profile, and so do the port's speed and the clock of completions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/time.h"

namespace verbena::nic {

/// Towards whom an atomic operation is one access: values of ibv_atomic_cap.
enum class AtomicCap : std::uint8_t {
  /// There are no atomics.
  none = 0,
  /// Operations of this device.
  hca = 1,
  /// Also programs, and other devices of the host.
  global = 2,
};

/// The order of the rows of the GID table, which programs know by heart: "index 3".
enum class GidOrder : std::uint8_t {
  /// As the configuration lists them (ports/device_config.h).
  as_configured,
  /// As Linux fills the table of a device that speaks both versions: the link-local address, then
  /// the others, each as RoCE v1 and then as RoCE v2.
  linux_v1_and_v2,
  /// The same for a device that speaks RoCE v2 only.
  linux_v2,
  /// The first row of the configuration, and no other.
  only_first,
};

/// Bits of what can be demand-paged: values of ibv_odp_general_caps and ibv_odp_transport_cap_bits.
namespace odp {
inline constexpr std::uint32_t supported = 1U << 0;
inline constexpr std::uint32_t implicit = 1U << 1;

inline constexpr std::uint32_t send = 1U << 0;
inline constexpr std::uint32_t recv = 1U << 1;
inline constexpr std::uint32_t write = 1U << 2;
inline constexpr std::uint32_t read = 1U << 3;
inline constexpr std::uint32_t atomic = 1U << 4;
inline constexpr std::uint32_t srq_recv = 1U << 5;
}  // namespace odp

/// What a device says of demand paging. Without odp::supported, registrations that ask for it are
/// refused; the rest is told and not enforced.
struct OdpCaps {
  std::uint32_t general = odp::supported | odp::implicit;
  std::uint32_t rc = odp::send | odp::recv | odp::write | odp::read | odp::atomic | odp::srq_recv;
  std::uint32_t uc = odp::send | odp::recv | odp::write;
  std::uint32_t ud = odp::send | odp::recv;
  std::uint32_t xrc = odp::send | odp::recv | odp::write | odp::read | odp::atomic | odp::srq_recv;
};

/// Nothing can be.
inline constexpr OdpCaps no_odp{.general = 0, .rc = 0, .uc = 0, .ud = 0, .xrc = 0};

/// A kind of object whose limit is 0 is one that the device doesn't have: creating it is
/// `unsupported`, not `limit_reached`.
struct DeviceProfile {
  std::string_view name = "verbena";
  /// An OUI that belongs to nobody (IEEE 802-2014, 8.2.2: locally administered). Not 0, which
  /// programs take for a device that doesn't know itself.
  std::uint32_t vendor_id = 0x02'5642;
  std::uint32_t vendor_part_id = 1;
  std::uint32_t hw_ver = 0;
  std::string_view fw_ver = "1.0.0";
  /// The files of that name in sysfs; empty if the device has none.
  std::string_view board_id = "verbena";
  std::string_view hca_type = "verbena";

  /// As the device reports them (ibv_device_cap_flags and ibv_port_cap_flags). A program is told
  /// those of the device's flags that the NIC keeps.
  std::uint32_t cap_flags = ~std::uint32_t{0};
  /// IP_BASED_GIDS, which rdma-core 44's headers don't name.
  std::uint32_t port_cap_flags = 1U << 26;

  // Services and operations besides the reliable connection, which all devices have.
  bool has_uc = true;
  bool has_ud = true;
  bool has_xrc = true;
  /// They are atomic instructions of the processor, thus global; but programs that look for what
  /// devices usually say don't find it in `global` (UCX 1.13).
  AtomicCap atomic_cap = AtomicCap::hca;
  /// ATOMIC WRITE and FLUSH (IBTA vol 1, annex A19).
  bool has_placement_extensions = true;
  /// Of an iWARP device: immediate data and atomics (RFC 7306). See rnic_profile.h.
  bool has_rdmap_extensions = false;
  /// Completions carry the time.
  bool has_timestamps = true;
  OdpCaps odp;
  GidOrder gid_order = GidOrder::as_configured;

  std::uint64_t mr_bytes_max = ~std::uint64_t{0};
  /// Of one message; 2^31 is the specification's limit (IBTA vol 1, 9.7.7).
  std::uint64_t send_bytes_max = std::uint64_t{1} << 31;
  /// Bitmap of supported page sizes: 4 KiB and everything above.
  std::uint64_t page_size_cap = 0xFFFF'F000;
  std::uint32_t qp_max = 1U << 20;
  std::uint32_t qp_wr_max = 1U << 15;
  /// At most sges_of_any_profile; of an RDMA READ, and of a shared receive queue.
  std::uint32_t sge_max = 32;
  std::uint32_t sge_read_max = 32;
  std::uint32_t srq_sge_max = 32;
  std::uint32_t cq_max = 1U << 16;
  std::uint32_t cqe_max = (1U << 22) - 1;
  /// How long notifications of a CQ can be delayed: completions, and time in units of a
  /// microsecond. 0: not at all.
  std::uint32_t cq_moderation_count_max = 0xFFFF;
  Duration cq_moderation_period_max = std::chrono::microseconds(0xFFFF);
  std::uint32_t srq_max = 1U << 16;
  std::uint32_t srq_wr_max = 1U << 15;
  std::uint32_t mr_max = 1U << 20;
  std::uint32_t mw_max = 1U << 20;
  /// Device memory in all.
  std::uint64_t dm_bytes_max = 1U << 20;
  std::uint32_t pd_max = 1U << 16;
  std::uint32_t ah_max = 1U << 20;
  /// Multicast groups of the device, and queue pairs in one group.
  std::uint32_t mcast_group_max = 64;
  std::uint32_t mcast_group_qp_max = 256;
  /// Told and not enforced: the port's table has one row, the default partition.
  std::uint16_t pkeys_max = 1;
  /// Rows of the GID table; those that have no GID are empty.
  std::uint32_t gid_table_rows = 16;
  /// Outstanding RDMA READs and atomics of a QP, as responder and as initiator (IBTA: 8 bits).
  std::uint8_t qp_rd_atom_max = 128;
  /// Of all QPs, as responder: told and not enforced. By default each QP's.
  std::optional<std::uint32_t> res_rd_atom_max{};
  std::uint32_t inline_bytes_max = 1024;
  /// Of limit_rate(), in 1000 bits per second; 0: rates can't be limited.
  std::uint32_t rate_limit_kbps_max = 400'000'000;
  /// As the verbs attribute local_ca_ack_delay: 4.096 us * 2^n.
  std::uint8_t local_ca_ack_delay = 15;
};

/// The longest list of SGEs that any profile permits.
inline constexpr std::uint32_t sges_of_any_profile = 32;

/// The default: generous limits, nothing imitated.
[[nodiscard]] const DeviceProfile& default_profile() noexcept;

/// All of them, the default first.
[[nodiscard]] std::span<const DeviceProfile* const> all_profiles() noexcept;

/// nullptr if there is none of that name.
[[nodiscard]] const DeviceProfile* find_profile(std::string_view name) noexcept;

}  // namespace verbena::nic
