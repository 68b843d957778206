// Identifiers: their life, and how events get to them.

#include "verbs/rdma_cm/cm_id.h"

#include <pthread.h>

#include <boost/endian/conversion.hpp>
#include <cstring>
#include <utility>

#include "ports/sys.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

constexpr std::uint8_t port = 1;

}  // namespace

std::mutex& library_mutex() {
  // A child must not inherit the lock from a thread that it doesn't have. Never destroyed: the
  // connection manager's thread may use it while the process ends.
  static std::mutex& mutex = []() -> std::mutex& {
    static std::mutex& made = *new std::mutex;
    pthread_atfork([] { library_mutex().lock(); }, [] { library_mutex().unlock(); },
                   [] { library_mutex().unlock(); });
    return made;
  }();
  return mutex;
}

CmId::CmId(EventChannel* event_channel, void* user_context, rdma_port_space space, ibv_qp_type type)
    : rdma_cm_id{} {
  channel = event_channel;
  context = user_context;
  ps = space;
  qp_type = type;
  agreement.receive_psn = Psn(static_cast<std::uint32_t>(ports::sys::random_bits()));
}

CmId::~CmId() {
  if (synchronous) {
    ChannelCloser()(&events());
  }
}

void CmId::set_device(Device& on, const Gid& local) {
  device = &on;
  verbs = on.context;
  pd = pd != nullptr ? pd : on.pd;
  port_num = port;
  path.local = local;
  path.gid_index = on.index_of(local).value_or(0);
  path.mtu = on.mtu;
  route.addr.addr.ibaddr.sgid = abi_gid(local);
  route.addr.addr.ibaddr.pkey = htobe16(to_value(pkey_default));
}

void CmId::push(rdma_cm_event_type type, int event_status, PeerNews news) {
  events().push({.owner = this, .type = type, .status = event_status, .news = std::move(news)});
}

Errno create_id(CmId*& created, rdma_event_channel* channel, void* context, rdma_port_space space,
                ibv_qp_type type) {
  if (devices().empty()) {
    return ENODEV;
  }
  OwnedChannel own;
  if (channel == nullptr) {
    own = open_channel();
    if (!own) {
      return EMFILE;
    }
  }
  EventChannel* used = own ? own.get() : &EventChannel::of(channel);
  created = new CmId(used, context, space, type);
  created->synchronous = own != nullptr;
  static_cast<void>(own.release());
  return 0;
}

std::unique_ptr<CmId> make_requested(CmId& listener, Device& device, const Gid& local,
                                     const Gid& remote) {
  auto fresh =
      std::make_unique<CmId>(&listener.events(), listener.context, listener.ps, listener.qp_type);
  fresh->state = IdState::requested;
  fresh->pd = listener.pd;
  fresh->set_device(device, local);
  fresh->path.remote = remote;
  return fresh;
}

std::uintptr_t queue_request(CmId& listener, std::unique_ptr<CmId> fresh, PeerNews news) {
  ++listener.requests_waiting;
  listener.events().push({.owner = &listener,
                          .type = RDMA_CM_EVENT_CONNECT_REQUEST,
                          .fresh = fresh.get(),
                          .news = std::move(news)});
  return fresh.release()->cookie();
}

void destroy_id(CmId& id) {
  // In a child of fork() there is nothing to say to anybody.
  const bool dead = id.device != nullptr && id.manager().is_dead();
  if (id.event != nullptr) {
    rdma_ack_cm_event(id.event);
    id.event = nullptr;
  }
  if (!dead) {
    leave_all_groups(id);
    if (id.state == IdState::listening) {
      for (Device& each : devices()) {
        each.manager->unlisten(id);
      }
    }
    if (id.device != nullptr) {
      id.manager().forget(id);
    }
    release_bindings(id);
  }
  std::vector<QueuedEvent> dropped;
  {
    std::unique_lock guard(library_mutex());
    dropped = id.events().take_events_of(id);
    id.acknowledged.wait(guard, [&] { return dead || id.unacknowledged == 0; });
  }
  for (const QueuedEvent& event : dropped) {
    if (event.fresh != nullptr) {
      destroy_id(*event.fresh);  // A request that nobody will answer.
    }
  }
  delete &id;
}

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                                  rdma_port_space ps) {
  return guarded([&]() -> Errno {
    ibv_qp_type type = IBV_QPT_RC;
    if (ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB) {
      type = IBV_QPT_UD;
    } else if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB) {
      return EPROTONOSUPPORT;
    }
    CmId* created = nullptr;
    const Errno error = create_id(created, channel, context, ps, type);
    *id = created;
    return error;
  });
}

VERBENA_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  return guarded([&]() -> Errno {
    destroy_id(CmId::of(id));
    return 0;
  });
}
