// An identifier: the program's rdma_cm_id, and what we know of it besides.
//
//   idle ─bind─▶ bound ─resolve_addr─▶ addr_resolved ─resolve_route─▶ route_resolved ─connect─┐
//                  └─listen─▶ listening ··request··▶ (a new one) requested ─accept─┐           │
//                                                                                  ▼           ▼
//                                              disconnected ◀───────────────── connected/connecting
//
// A program may use an identifier from several threads, though not destroy it under another's
// hands. What the connection manager's thread touches, too, is under the library's lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "ports/iwarp_device.h"
#include "proto/ib_bth/cm/agent.h"
#include "proto/ib_bth/cm/service_id.h"
#include "verbs/rdma_cm/abi.h"
#include "verbs/rdma_cm/channel.h"
#include "verbs/rdma_cm/devices.h"
#include "verbs/rdma_cm/manager.h"

namespace verbena::rdma_cm {

struct Multicast {
  Gid group;
  sockaddr_storage address{};
  void* context = nullptr;
  bool attached = false;
  /// Delivered and not acknowledged.
  std::uint32_t events = 0;
};

/// Both ends of the path that the connection takes, and how InfiniBand's queue pairs take it.
struct Path {
  Gid local;
  Gid remote;
  std::uint8_t gid_index = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t ack_timeout = 19;
};

/// What both ends have agreed on, for the transitions of the queue pair.
struct Agreement {
  Qpn remote_qpn{};
  /// With which we begin to send: the starting PSN that the peer's message tells.
  Psn send_psn;
  /// With which the peer shall begin. Ours to choose, and there from the beginning: a program may
  /// move its queue pair to RTR before it accepts.
  Psn receive_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool srq = false;
};

enum class IdState : std::uint8_t {
  idle,
  bound,
  addr_resolved,
  route_resolved,
  listening,
  connecting,
  requested,
  connected,
  disconnected,
};

struct CmId : rdma_cm_id {
  CmId(EventChannel* event_channel, void* user_context, rdma_port_space space, ibv_qp_type type);
  ~CmId();
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;

  [[nodiscard]] static CmId& of(rdma_cm_id* id) { return static_cast<CmId&>(*id); }
  [[nodiscard]] std::uintptr_t cookie() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static CmId& of_cookie(std::uintptr_t cookie) {
    return *reinterpret_cast<CmId*>(cookie);
  }

  [[nodiscard]] bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  [[nodiscard]] sockaddr& source() { return route.addr.src_addr; }
  [[nodiscard]] sockaddr& destination() { return route.addr.dst_addr; }
  [[nodiscard]] ib::cm::PortSpace port_space() const { return ib::cm::PortSpace(ps); }
  [[nodiscard]] EventChannel& events() { return EventChannel::of(channel); }
  /// Of the device that it is on.
  [[nodiscard]] Manager& manager() const { return *device->manager; }

  /// The identifier is on that device from now on, at both ends' addresses.
  void set_device(Device& on, const Gid& local);
  /// Under the library's lock.
  void push(rdma_cm_event_type type, int event_status = 0, PeerNews news = {});
  /// Of an identifier without a channel of the program's: waits for the event that ends the
  /// operation, and returns what it says. Others return 0 at once.
  [[nodiscard]] Errno complete();

  IdState state = IdState::idle;
  Device* device = nullptr;
  std::vector<Binding> bindings;
  Path path;
  Agreement agreement;
  ib::cm::Ece local_ece;
  ib::cm::Ece remote_ece;
  /// In the device's connection manager; 0 for none. What the peer answers may come, and be fetched
  /// by another thread, before the call that began the connection has returned: so the events bring
  /// it along as well.
  std::atomic<ib::cm::CommId> comm_id{};
  /// The same of an iWARP device.
  std::atomic<ports::IwarpConnectionId> stream_id{};
  Qkey qkey{RDMA_UDP_QKEY};

  // Options.
  std::uint8_t tos = 0;
  bool reuse_address = false;
  bool v6_only = false;
  std::optional<std::uint8_t> ack_timeout_option;

  /// It has a channel of its own, and operations wait for their end.
  bool synchronous = false;
  /// Connection requests that may wait to be fetched, and those that do.
  std::uint32_t backlog = 0;
  std::uint32_t requests_waiting = 0;

  /// Of rdma_create_ep(): for identifiers that come from this listener.
  std::optional<ibv_qp_init_attr> endpoint_attr;
  ibv_pd* endpoint_pd = nullptr;
  std::vector<std::byte> connect_data;
  bool owns_cqs = false;
  /// The receive CQ that it owns is that of its SRQ, and goes with it.
  bool srq_completes_here = false;
  bool is_endpoint = false;

  std::list<Multicast> groups;
  std::unique_ptr<ibv_sa_path_rec> path_record;

  /// Events that the program has fetched and not acknowledged, under the library's lock.
  std::uint32_t unacknowledged = 0;
  std::condition_variable acknowledged;
};

/// Without a program's channel the identifier gets one of its own.
[[nodiscard]] Errno create_id(CmId*& created, rdma_event_channel* channel, void* context,
                              rdma_port_space space, ibv_qp_type type);
void destroy_id(CmId& id);
// Under the library's lock: the identifier of whoever connects to a listener, and the event that
// tells the program. The latter returns the identifier's cookie; it lives from then on.
[[nodiscard]] std::unique_ptr<CmId> make_requested(CmId& listener, Device& device, const Gid& local,
                                                   const Gid& remote);
[[nodiscard]] std::uintptr_t queue_request(CmId& listener, std::unique_ptr<CmId> fresh,
                                           PeerNews news);

// resolve.cpp
[[nodiscard]] Errno bind_addr(CmId& id, const sockaddr& address);
/// The GID that leads from an identifier with a device to an address: another than the address when
/// it is this host's and no device's, like ::1.
[[nodiscard]] Gid remote_from(const CmId& id, const sockaddr& to);
[[nodiscard]] Errno resolve_addr(CmId& id, const sockaddr* source, const sockaddr& destination);
[[nodiscard]] Errno resolve_route(CmId& id);
void release_bindings(CmId& id);

// queue_pair.cpp
/// As the manager of the identifier's device has it.
[[nodiscard]] Errno move_qp(CmId& id, ibv_qp_state state);
void make_qp_fail(CmId& id);
[[nodiscard]] Errno create_qp(CmId& id, ibv_qp_init_attr_ex& attr);

// multicast.cpp
/// Attaches the queue pair, at the time the program fetches the event.
[[nodiscard]] Errno attach(CmId& id, Multicast& multicast);
void leave_all_groups(CmId& id);

// connect.cpp
[[nodiscard]] Errno migrate(CmId& id, rdma_event_channel* channel);
[[nodiscard]] ByteView private_data_of(const CmId& id, const rdma_conn_param* param);
/// Of the identifier's queue pair, or of the one that the program made by itself.
[[nodiscard]] Qpn own_qpn(const CmId& id, const rdma_conn_param* param);
/// How many READs a program wants to be possible at a time: without parameters, and with
/// RDMA_MAX_RESP_RES, as many as the device can.
[[nodiscard]] std::uint8_t responder_resources_of(const rdma_conn_param* param);
[[nodiscard]] std::uint8_t initiator_depth_of(const rdma_conn_param* param);

}  // namespace verbena::rdma_cm
