#include "nic_model/gid_order.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "proto/roce/gid.h"

namespace verbena::nic {

namespace {

using Type = GidEntry::Type;

/// Each GID once: the link-local ones, then the others, as they come.
std::vector<Gid> in_order_of_linux(const std::vector<GidEntry>& gids) {
  std::vector<Gid> order;
  for (const bool link_local : {true, false}) {
    for (const GidEntry& entry : gids) {
      const bool is_new = std::ranges::find(order, entry.gid) == order.end();
      if (is_new && roce::mac_from_link_local(entry.gid).has_value() == link_local) {
        order.push_back(entry.gid);
      }
    }
  }
  return order;
}

std::vector<GidEntry> as_linux_fills_it(const std::vector<GidEntry>& gids,
                                        std::span<const Type> versions) {
  std::vector<GidEntry> rows;
  for (const Gid& gid : in_order_of_linux(gids)) {
    for (const Type version : versions) {
      std::ranges::copy_if(gids, std::back_inserter(rows), [&](const GidEntry& entry) {
        return entry.gid == gid && entry.type == version;
      });
    }
  }
  return rows.empty() ? gids : rows;
}

std::vector<GidEntry> in_order(GidOrder order, const std::vector<GidEntry>& gids) {
  constexpr Type both[] = {Type::roce_v1, Type::roce_v2};
  switch (order) {
    case GidOrder::linux_v1_and_v2:
      return as_linux_fills_it(gids, both);
    case GidOrder::linux_v2:
      return as_linux_fills_it(gids, std::span(both).last(1));
    case GidOrder::only_first:
      return {gids.begin(), gids.begin() + (gids.empty() ? 0 : 1)};
    case GidOrder::as_configured:
      break;
  }
  return gids;
}

}  // namespace

std::vector<GidEntry> arranged(const DeviceProfile& profile, const std::vector<GidEntry>& gids) {
  std::vector<GidEntry> rows = in_order(profile.gid_order, gids);
  if (profile.gid_order != GidOrder::as_configured) {
    rows.resize(std::min<std::size_t>(rows.size(), profile.gid_table_rows));
  }
  return rows;
}

}  // namespace verbena::nic
