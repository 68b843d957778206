// Address handles, multicast groups, and what ports are told of them.

#include "nic_model/nic_impl.h"
#include "nic_model/own_multicast.h"
#include "proto/roce/gid.h"
#include "proto/roce/sport.h"

namespace verbena::nic {

Result<Ah*, NicError> Nic::create_ah(Pd& pd, const AddressVector& av) {
  if (impl_->config.technology == Technology::iwarp) {
    return std::unexpected(NicError::unsupported);
  }
  if (!address_is_valid(impl_->config, av)) {
    return std::unexpected(NicError::invalid_argument);
  }
  auto& ahs = impl_->ahs;
  const std::uint32_t most = impl_->profile.ah_max;
  const Qp* const gsi = find_qp(qpn_gsi);
  // Those of the general services interface are the device's own, and are gone when it has sent.
  if (ahs.size() >= most && (gsi == nullptr || &gsi->pd != &pd)) {
    return std::unexpected(most == 0 ? NicError::unsupported : NicError::limit_reached);
  }
  // An address handle stands for any queue pair of the peer, so its number can't spread the flows.
  const Way way = make_way(impl_->config, av, roce::udp_source_port_min);
  ahs.push_back(boost::intrusive_ptr<Ah>(new Ah(pd, av, way, ahs.size())));
  ++pd.users;
  return ahs.back().get();
}

void Nic::destroy_ah(Ah& ah) {
  auto& ahs = impl_->ahs;
  --ah.pd.users;
  const std::size_t place = ah.place;
  ahs.back()->place = place;
  std::swap(ahs[place], ahs.back());
  ahs.pop_back();
}

Result<void, NicError> Nic::attach_multicast(Qp& qp, const Gid& group) {
  if (qp.type != QpType::ud || !roce::is_multicast(group)) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (impl_->profile.mcast_group_max == 0) {
    return std::unexpected(NicError::unsupported);
  }
  MulticastTable& table = impl_->multicast;
  const auto members = table.members(group);
  const bool group_fits = !members.empty() || table.group_count() < impl_->profile.mcast_group_max;
  const bool qp_fits =
      table.is_attached(group, qp) || members.size() < impl_->profile.mcast_group_qp_max;
  if (!group_fits || !qp_fits) {
    return std::unexpected(NicError::limit_reached);
  }
  if (table.attach(group, qp)) {
    impl_->memberships.push_back({.gid = group, .joined = true});
  }
  return {};
}

void block_own_multicast(Qp& qp) { qp.blocks_own_multicast = true; }

Result<void, NicError> Nic::detach_multicast(Qp& qp, const Gid& group) {
  if (!impl_->multicast.is_attached(group, qp)) {
    return std::unexpected(NicError::invalid_argument);
  }
  impl_->leave_group(group, qp);
  return {};
}

void Nic::detach_multicast(Qp& qp) {
  for (const Gid& group : impl_->multicast.groups_of(qp)) {
    impl_->leave_group(group, qp);
  }
}

void Nic::Impl::leave_group(const Gid& group, Qp& qp) {
  if (multicast.detach(group, qp)) {
    memberships.push_back({.gid = group, .joined = false});
  }
}

void Nic::Impl::tell_gsi_addresses(bool joined) {
  for (const GidEntry& entry : config.gids) {
    memberships.push_back({.gid = entry.gid, .joined = joined});
  }
}

const AddressHandle& handle_of(const Ah& ah) { return ah; }

std::optional<Membership> Nic::poll_membership() {
  if (impl_->memberships.empty()) {
    return std::nullopt;
  }
  const Membership membership = impl_->memberships.front();
  impl_->memberships.pop_front();
  return membership;
}

}  // namespace verbena::nic
