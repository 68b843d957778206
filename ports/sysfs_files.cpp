#include "ports/sysfs_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "ports/interfaces.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

/// The network interface that has the device's first address.
std::string interface_of(const DeviceConfig& config) {
  const Gid& address = config.addresses.front();
  const auto host = host_addresses();
  const auto found = std::ranges::find(host, address, &InterfaceAddress::address);
  // All of 127.0.0.0/8 is the loopback interface's, listed or not.
  return found != host.end() ? found->interface : "lo";
}

/// The files whose text depends on nothing or on little, as the kernel words them.
std::vector<SysfsFile> plain_files(const DeviceConfig& config) {
  const bool is_rnic = config.technology == nic::Technology::iwarp;
  std::vector<SysfsFile> files = {
      {"node_type", is_rnic ? "4: RNIC" : "1: CA"},
      {"node_guid", guid_text(config.guid)},
      {"sys_image_guid", guid_text(config.guid)},
      {"node_desc", config.name},
      {"fw_ver", std::string(config.profile.fw_ver)},
      {"device/numa_node", "-1"},
      {"ports/1/state", "4: ACTIVE"},
      {"ports/1/phys_state", "5: LinkUp"},
      {"ports/1/rate", "100 Gb/sec (4X EDR)"},
      {"ports/1/link_layer", "Ethernet"},
      {"ports/1/lid", "0x0"},
      {"ports/1/sm_lid", "0x0"},
      {"ports/1/sm_sl", "0"},
      {"ports/1/lid_mask_count", "0"},
      {"ports/1/cap_mask", fmt::format("0x{:08x}", config.profile.port_cap_flags)},
  };
  if (config.profile.pkeys_max > 0) {
    files.push_back({"ports/1/pkeys/0", "0xffff"});
  }
  if (!config.profile.board_id.empty()) {
    files.push_back({"board_id", std::string(config.profile.board_id)});
  }
  if (!config.profile.hca_type.empty()) {
    files.push_back({"hca_type", std::string(config.profile.hca_type)});
  }
  return files;
}

}  // namespace

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xFFFF,
                     guid >> 16 & 0xFFFF, guid & 0xFFFF);
}

std::vector<SysfsFile> sysfs_files(const DeviceConfig& config) {
  std::vector<SysfsFile> files = plain_files(config);
  const std::string interface = interface_of(config);
  files.push_back({fmt::format("device/net/{}/", interface), ""});
  const std::vector<nic::GidEntry> gids = nic_config(config).gids;
  const std::size_t rows = std::max<std::size_t>(gids.size(), config.profile.gid_table_rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const bool is_empty = row >= gids.size();
    files.push_back({fmt::format("ports/1/gids/{}", row),
                     roce::to_long_text(is_empty ? Gid{} : gids[row].gid)});
    // An empty row has no type and no interface: the kernel refuses to read them.
    if (!is_empty) {
      const bool is_v2 = gids[row].type == nic::GidEntry::Type::roce_v2;
      files.push_back(
          {fmt::format("ports/1/gid_attrs/types/{}", row), is_v2 ? "RoCE v2" : "IB/RoCE v1"});
      files.push_back({fmt::format("ports/1/gid_attrs/ndevs/{}", row), interface});
    }
  }
  return files;
}

std::string uverbs_name(int index) { return fmt::format("uverbs{}", index); }

}  // namespace verbena::ports
