// Identifiers: their life, and how events get to them.

#include "verbs/rdma_cm/cm_id.h"

#include <pthread.h>

#include <boost/endian/conversion.hpp>
#include <cstring>

#include "ports/sys.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

constexpr std::uint8_t port = 1;

ibv_gid abi_gid(const Gid& gid) {
  ibv_gid abi{};
  std::memcpy(abi.raw, gid.bytes.data(), gid.bytes.size());
  return abi;
}

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
    delete &events();
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

void CmId::publish_path() {
  constexpr std::uint8_t exactly = 2;  // IB_SA_EQ: the selectors of a path record.
  path_record = std::make_unique<ibv_sa_path_rec>();
  path_record->sgid = abi_gid(path.local);
  path_record->dgid = abi_gid(path.remote);
  path_record->flow_label = htobe32(path.flow_label);
  path_record->hop_limit = path.hop_limit;
  path_record->traffic_class = path.traffic_class;
  path_record->reversible = 1;
  path_record->numb_path = 1;
  path_record->pkey = htobe16(to_value(pkey_default));
  path_record->mtu_selector = exactly;
  path_record->mtu = static_cast<std::uint8_t>(path.mtu);
  path_record->rate_selector = exactly;
  path_record->packet_life_time_selector = exactly;
  path_record->packet_life_time = static_cast<std::uint8_t>(path.ack_timeout - 1);
  route.path_rec = path_record.get();
  route.num_paths = 1;
  route.addr.addr.ibaddr.dgid = abi_gid(path.remote);
}

void CmId::push(rdma_cm_event_type type, int event_status, std::optional<ib::cm::Message> message) {
  events().push(
      {.owner = this, .type = type, .status = event_status, .message = std::move(message)});
}

Errno create_id(CmId*& created, rdma_event_channel* channel, void* context, rdma_port_space space,
                ibv_qp_type type) {
  if (devices().empty()) {
    return ENODEV;
  }
  std::unique_ptr<EventChannel> own;
  if (channel == nullptr) {
    own = std::make_unique<EventChannel>();
    if (own->fd < 0) {
      return EMFILE;
    }
  }
  EventChannel* used = own ? own.get() : &EventChannel::of(channel);
  created = new CmId(used, context, space, type);
  created->synchronous = own != nullptr;
  static_cast<void>(own.release());
  return 0;
}

void destroy_id(CmId& id) {
  // In a child of fork() there is nothing to say to anybody.
  const bool dead = id.device != nullptr && id.device->cm->is_dead();
  if (id.event != nullptr) {
    rdma_ack_cm_event(id.event);
    id.event = nullptr;
  }
  if (!dead) {
    leave_all_groups(id);
    if (id.state == IdState::listening) {
      for (Device& each : devices()) {
        each.cm->unlisten(id.cookie());
      }
    }
    if (id.device != nullptr && id.comm_id != ib::cm::CommId{}) {
      id.device->cm->destroy(id.comm_id);
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
