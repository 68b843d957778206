// The connection manager of a device, as librdmacm.so.1 sees it. The two drop-in libraries are two
// files: this is the interface between them, virtual functions and values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ports/service_table.h"
#include "proto/ib_bth/cm/agent.h"

namespace verbena::ports {

/// What becomes of a request.
struct CmAnswer {
  /// Of the connection that is new; 0 rejects it.
  std::uintptr_t cookie = 0;
  ib::cm::RejectReason refusal = ib::cm::RejectReason::no_resources;
};

/// Hears of everything that happens to connections. Called under the device's lock: be brief and
/// call nothing of the device.
class CmConsumer {
 public:
  virtual ~CmConsumer() = default;
  /// The answer counts for requests only.
  virtual CmAnswer on_cm_event(const ib::cm::Event& event) = 0;
};

/// Any thread may call any function. In a child of fork() all fail, those that return nothing do
/// nothing.
class CmDevice {
 public:
  virtual ~CmDevice() = default;

  /// The one consumer of this process; it must outlive the device.
  virtual void set_consumer(CmConsumer& consumer) = 0;
  [[nodiscard]] virtual bool is_dead() const = 0;

  // Ports. Errors are errno values.
  virtual Result<ServiceTable::Bound, int> bind(const ServiceClaim& claim) = 0;
  /// From now on requests for the service come with this cookie; `address` as in Agent::listen().
  virtual void listen(ib::cm::ServiceId service, const std::optional<Gid>& address,
                      std::uintptr_t cookie) = 0;
  /// Lets the host know that the owner of the port listens, which it does already.
  virtual int announce(ServiceEntryId entry) = 0;
  virtual void unlisten(std::uintptr_t cookie) = 0;
  virtual void release(ServiceEntryId entry) = 0;
  /// Who listens in a port space on this host, in words.
  virtual std::vector<std::string> listeners(std::uint64_t space) = 0;

  /// Remembers why a connection failed, for `verbena doctor`.
  virtual void note_failure(const std::string& sentence) = 0;

  /// Devices with the same path share their ports.
  [[nodiscard]] virtual const std::string& fabric_path() const = 0;
  /// Whether frames to that GID stay on this host.
  [[nodiscard]] virtual bool is_on_this_host(const Gid& gid) const = 0;
  /// The address of this device in whose subnet that GID is, for a device on a link: the kernel has
  /// no routes there. nullopt if it is in none, or the device is on no link.
  [[nodiscard]] virtual std::optional<Gid> address_toward(const Gid& gid) const = 0;
  /// Whether a device without a better reason to be chosen may lead to that GID of another host.
  [[nodiscard]] virtual bool may_lead_to(const Gid& gid) const = 0;

  // As the functions of ib::cm::Agent, which see.
  virtual ib::cm::CommId connect(const ib::cm::Route& route, const ib::cm::Req& req,
                                 std::uintptr_t cookie) = 0;
  virtual bool accept(ib::cm::CommId id, const ib::cm::Rep& rep) = 0;
  virtual bool ready(ib::cm::CommId id, const ib::cm::PrivateData<224>& private_data) = 0;
  virtual bool reject(ib::cm::CommId id, ib::cm::RejectReason reason, ByteView info,
                      ByteView private_data) = 0;
  virtual bool establish(ib::cm::CommId id) = 0;
  virtual bool disconnect(ib::cm::CommId id, ByteView private_data) = 0;
  virtual ib::cm::CommId resolve(const ib::cm::Route& route, const ib::cm::SidrReq& req,
                                 Duration answer_time, std::uint8_t retries_max,
                                 std::uintptr_t cookie) = 0;
  virtual bool answer(ib::cm::CommId id, const ib::cm::SidrRep& rep) = 0;
  /// When it returns, no event with the connection's cookie comes any more.
  virtual void destroy(ib::cm::CommId id) = 0;
};

}  // namespace verbena::ports
