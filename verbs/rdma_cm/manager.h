// How the devices of one kind make connections. What the functions of the API have in common is in
// their files; what InfiniBand's connection manager and iWARP do each in its own way is behind this
// class: manager_ib.h, manager_iw.h.
//
//   rdma_connect() ─▶ connect.cpp ─▶ Manager ─▶ ports::CmDevice, or ports::IwarpDevice
//                                                  │ events, under the device's lock
//   rdma_get_cm_event() ◀─ events.cpp ◀─ EventChannel ◀─ Manager
//                            └─ Manager::act_on(), in the program's thread
//
// Errors are errno values. None of the functions may be called with the library's lock held. In a
// child of fork() commands fail, and what returns nothing does nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/gid.h"
#include "verbs/rdma_cm/abi.h"

namespace verbena::rdma_cm {

struct CmId;
struct Device;
struct FetchedEvent;
struct QueuedEvent;

/// A port that an identifier has bound, on one device or for all that share its ports.
struct Binding {
  Device* device = nullptr;
  /// The manager's own number of it.
  std::uint64_t handle = 0;
  std::uint16_t port = 0;
};

/// Why a program refuses a connection. iWARP knows no reasons.
enum class Refusal : std::uint8_t { consumer, vendor_option };

class Manager {
 public:
  virtual ~Manager() = default;

  [[nodiscard]] virtual bool is_dead() const = 0;
  /// Whether identifiers of that port space can be on the device.
  [[nodiscard]] virtual bool serves(rdma_port_space space) const = 0;
  /// Whether what is sent to that address stays on this host.
  [[nodiscard]] virtual bool is_on_this_host(const Gid& gid) const = 0;
  /// The device's address in whose subnet that one is, if the device has subnets of its own.
  [[nodiscard]] virtual std::optional<Gid> address_toward(const Gid& gid) const = 0;
  /// Whether a device without a better reason to be chosen may lead to that address.
  [[nodiscard]] virtual bool may_lead_to(const Gid& gid) const = 0;
  /// Devices whose tables have one name share their ports.
  [[nodiscard]] virtual std::string port_table() const = 0;

  /// Binds a port of the identifier's address; 0: any that is free.
  [[nodiscard]] virtual Result<Binding, Errno> bind(CmId& id, std::uint16_t port) = 0;
  virtual void release(const Binding& binding) = 0;
  /// On what the identifier has bound here. Its backlog is set.
  [[nodiscard]] virtual Errno listen(CmId& id) = 0;
  virtual void unlisten(CmId& id) = 0;

  /// The route has been resolved: fills what the connection will be like.
  virtual void publish_path(CmId& id) = 0;
  [[nodiscard]] virtual Errno connect(CmId& id, const rdma_conn_param* param) = 0;
  /// Returns when the answer is on its way; so does refuse().
  [[nodiscard]] virtual Errno accept(CmId& id, const rdma_conn_param* param) = 0;
  [[nodiscard]] virtual Errno refuse(CmId& id, Refusal reason, ByteView private_data) = 0;
  /// ENOTCONN if it is over already.
  [[nodiscard]] virtual Errno disconnect(CmId& id) = 0;
  /// The program has made its queue pair ready by itself.
  [[nodiscard]] virtual Errno establish(CmId& id) = 0;
  /// The peer's first message came before what it answers with.
  virtual void note_traffic(CmId& id) = 0;
  /// Ends what the identifier has begun. When it returns, no event of it comes any more.
  virtual void forget(CmId& id) = 0;

  [[nodiscard]] virtual Errno init_qp_attr(CmId& id, ibv_qp_attr& attr, int& mask) = 0;

  /// In the program's thread, as it fetches the event: what it means for the identifier and its
  /// queue pair, and what the program is told.
  virtual void act_on(const QueuedEvent& queued, CmId& id, FetchedEvent& event) = 0;
};

}  // namespace verbena::rdma_cm
