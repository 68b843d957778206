// What a device says of itself: identity and limits. Programs read it through ibv_query_device()
// and meet these limits; the Nic enforces them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace verbena::nic {

struct DeviceProfile {
  std::string_view name = "verbena";
  /// An OUI that belongs to nobody (IEEE 802-2014, 8.2.2: locally administered). Not 0, which
  /// programs take for a device that doesn't know itself.
  std::uint32_t vendor_id = 0x02'5642;
  std::uint32_t vendor_part_id = 1;
  std::uint32_t hw_ver = 0;
  std::string_view fw_ver = "1.0.0";

  std::uint64_t mr_bytes_max = ~std::uint64_t{0};
  /// Bitmap of supported page sizes: 4 KiB and everything above.
  std::uint64_t page_size_cap = 0xFFFF'F000;
  std::uint32_t qp_max = 1U << 20;
  std::uint32_t qp_wr_max = 1U << 15;
  std::uint32_t sge_max = 32;
  std::uint32_t cq_max = 1U << 16;
  std::uint32_t cqe_max = (1U << 22) - 1;
  /// How long notifications of a CQ can be delayed: completions, and time in units of a
  /// microsecond.
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
  /// Rows of the GID table; those that have no GID are empty.
  std::uint32_t gid_table_rows = 16;
  /// Outstanding RDMA READs and atomics of a QP, as responder and as initiator (IBTA: 8 bits).
  std::uint8_t qp_rd_atom_max = 128;
  std::uint32_t inline_bytes_max = 1024;
  /// Of limit_rate(), in 1000 bits per second.
  std::uint32_t rate_limit_kbps_max = 400'000'000;
  /// As the verbs attribute local_ca_ack_delay: 4.096 us * 2^n.
  std::uint8_t local_ca_ack_delay = 15;
};

/// The default: generous limits, nothing imitated.
[[nodiscard]] const DeviceProfile& default_profile() noexcept;

}  // namespace verbena::nic
