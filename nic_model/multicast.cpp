#include "nic_model/multicast.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::nic {

bool MulticastTable::attach(const Gid& group, Qp& qp) {
  const auto [place, is_new] = groups_.try_emplace(group);
  if (std::ranges::find(place->second, &qp) == place->second.end()) {
    place->second.push_back(&qp);
  }
  return is_new;
}

bool MulticastTable::is_attached(const Gid& group, const Qp& qp) const {
  const auto all = members(group);
  return std::ranges::find(all, &qp) != all.end();
}

bool MulticastTable::detach(const Gid& group, Qp& qp) {
  const auto place = groups_.find(group);
  VERBENA_CHECK(place != groups_.end());
  std::erase(place->second, &qp);
  if (!place->second.empty()) {
    return false;
  }
  groups_.erase(place);
  return true;
}

std::vector<Gid> MulticastTable::groups_of(const Qp& qp) const {
  std::vector<Gid> groups;
  for (const auto& [group, attached] : groups_) {
    if (std::ranges::find(attached, &qp) != attached.end()) {
      groups.push_back(group);
    }
  }
  return groups;
}

std::span<Qp* const> MulticastTable::members(const Gid& group) const {
  const auto place = groups_.find(group);
  return place == groups_.end() ? std::span<Qp* const>() : std::span<Qp* const>(place->second);
}

}  // namespace verbena::nic
