// Address vectors, and what becomes of them: the headers of every packet to a peer. Private to
// nic_model/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic_model/nic.h"
#include "nic_model/types.h"
#include "proto/address_handle.h"
#include "proto/packet_sink.h"
#include "proto/roce/encap.h"

namespace verbena::nic {

/// The way to a peer. The route lacks the destination QPN.
struct Way {
  roce::Encapsulation encapsulation;
  FrameRoute route;
};

/// An address vector can be used: a GRH as RoCE wants it, a GID of ours, a peer of the same kind.
[[nodiscard]] bool address_is_valid(const NicConfig& config, const AddressVector& av);

/// `address` is valid. A flow label decides the UDP source port; without one it is
/// `source_port_default`.
[[nodiscard]] Way make_way(const NicConfig& config, const AddressVector& av,
                           std::uint16_t source_port_default);

/// An address handle: a way that requests name.
class Ah final : public AddressHandle {
 public:
  Ah(Pd& pd_of_ah, const AddressVector& vector, const Way& way_to_peer, std::size_t place_in_list)
      : pd(pd_of_ah), av(vector), way(way_to_peer), place(place_in_list) {}

  Pd& pd;
  const AddressVector av;
  const Way way;
  /// Position in the Nic's list.
  std::size_t place;
};

}  // namespace verbena::nic
