// Multicast groups of datagram queue pairs.

#include <cstring>

#include "verbs/errors.h"
#include "verbs/qp.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {
namespace {

Gid gid_from(const ibv_gid& from) {
  Gid gid;
  std::memcpy(gid.bytes.data(), from.raw, gid.bytes.size());
  return gid;
}

/// Runs a command of the Nic, whose groups have no LID.
template <class Command>
Errno change(ibv_qp* base, Command&& command) noexcept {
  auto& qp = QueuePair::of(base);
  if (qp.engine.is_dead()) {
    return EIO;
  }
  try {
    return errno_of(qp.engine.with_nic([&](nic::Nic& nic, Time) { return command(nic, qp); }));
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid) {
  if (is_real(qp)) {
    return real_verbs().ibv_attach_mcast(qp, group, lid);
  }
  return change(qp, [&](nic::Nic& nic, QueuePair& attached) {
    return nic.attach_multicast(*attached.nic_qp, gid_from(*group));
  });
}

VERBENA_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid) {
  if (is_real(qp)) {
    return real_verbs().ibv_detach_mcast(qp, group, lid);
  }
  return change(qp, [&](nic::Nic& nic, QueuePair& attached) {
    return nic.detach_multicast(*attached.nic_qp, gid_from(*group));
  });
}
