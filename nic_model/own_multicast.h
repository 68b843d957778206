// Whether a queue pair gets back what it sends to a group that it is attached to.
#pragma once

namespace verbena::nic {

class Qp;

/// From now on it doesn't (IBV_QP_CREATE_BLOCK_SELF_MCAST_LB). Of use to datagram queue pairs only.
/// Everybody else in the group gets it as ever, also queue pairs of the same device.
void block_own_multicast(Qp& qp);

}  // namespace verbena::nic
