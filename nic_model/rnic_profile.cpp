#include "nic_model/rnic_profile.h"

#include <algorithm>

#include "nic_model/qp.h"

namespace verbena::nic {

DeviceProfile rnic_profile(DeviceProfile profile, bool rdmap_extensions) {
  // As siw reports them (Linux 6.1, IB_PORT_CM_SUP and IB_PORT_DEVICE_MGMT_SUP).
  constexpr std::uint32_t rnic_port_cap_flags = 0x0009'0000;
  // Of ibv_device_cap_flags: AUTO_PATH_MIG, RC_RNR_NAK_GEN and XRC are of InfiniBand.
  constexpr std::uint32_t infiniband_cap_flags = 1U << 4 | 1U << 12 | 1U << 20;
  profile.cap_flags &= ~infiniband_cap_flags;
  profile.port_cap_flags = rnic_port_cap_flags;
  profile.has_uc = false;
  profile.has_ud = false;
  profile.has_xrc = false;
  profile.atomic_cap = rdmap_extensions ? AtomicCap::hca : AtomicCap::none;
  profile.has_rdmap_extensions = rdmap_extensions;
  profile.has_placement_extensions = false;
  profile.odp = no_odp;
  profile.gid_order = GidOrder::as_configured;
  profile.sge_read_max = 1;
  profile.ah_max = 0;
  profile.mcast_group_max = 0;
  profile.mcast_group_qp_max = 0;
  profile.pkeys_max = 0;
  profile.gid_table_rows = 1;
  profile.qp_rd_atom_max =
      static_cast<std::uint8_t>(std::min<std::uint16_t>(profile.qp_rd_atom_max, stream_ird_max));
  profile.rate_limit_kbps_max = 0;
  profile.local_ca_ack_delay = 0;
  return profile;
}

}  // namespace verbena::nic
