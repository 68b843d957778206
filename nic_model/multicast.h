// Which queue pairs are attached to which multicast group. Private to nic_model/.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "proto/gid.h"

namespace verbena::nic {

class Qp;

class MulticastTable {
 public:
  /// True if the group is new. Attaching twice is the same as once.
  bool attach(const Gid& group, Qp& qp);
  [[nodiscard]] bool is_attached(const Gid& group, const Qp& qp) const;
  /// True if nobody is left in the group. `qp` must be attached.
  bool detach(const Gid& group, Qp& qp);
  /// The groups of a queue pair.
  [[nodiscard]] std::vector<Gid> groups_of(const Qp& qp) const;
  /// The members of a group, in the order in which they came; empty if there is no such group.
  [[nodiscard]] std::span<Qp* const> members(const Gid& group) const;
  [[nodiscard]] std::size_t group_count() const { return groups_.size(); }

 private:
  /// Ordered, so that nothing depends on addresses or hashes.
  std::map<Gid, std::vector<Qp*>> groups_;
};

}  // namespace verbena::nic
