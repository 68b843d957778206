// The connections of one iWARP device in one process, in real time: sockets that listen, TCP
// connections in the making, and MPA's exchange of start frames (proto/iwarp/connector.h). What two
// peers have agreed on is handed over to the engine's TcpPort, which moves its bytes from then on.
//
// One thread waits for all of them (Boost.Asio), each with a time limit of its own, so a peer that
// is slow or silent holds nobody up; of those that have come and said nothing yet only a limited
// number is kept, the newest. The thread and whoever calls a function do their work under the
// service's lock.
//
// Locks: the service's own, then the engine's; never the other way round.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "ports/device_config.h"
#include "ports/engine.h"
#include "ports/iwarp_device.h"
#include "ports/tcp_port.h"

namespace verbena::ports {

/// How long one waits, and for how many; tests have others. An initiator never waits longer for
/// one answer than DeviceConfig::connect_timeout.
struct IwarpLimits {
  /// An initiator, where nobody listens: programs end one listener and begin the next. As the
  /// connection manager of RoCE waits (cm_service.cpp).
  Duration listener_patience = std::chrono::milliseconds(100);
  /// An initiator, for TCP's handshake. Linux itself gives up after about two minutes.
  Duration connect_timeout = std::chrono::seconds(10);
  /// An initiator, for the reply; a responder, for the request. As siw (MPAREQ_TIMEOUT,
  /// MPAREP_TIMEOUT).
  Duration reply_timeout = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(5);
  /// Who was refused may take so long to read that and to close.
  Duration leave_patience = std::chrono::seconds(1);
  /// See TcpPort::set_close_patience().
  Duration close_patience = TcpPort::close_patience_default;
  /// Those who have come and whose request is not complete; and as many who were refused.
  std::size_t half_open_max = 256;
};

class IwarpService final : public IwarpDevice {
 public:
  /// The error is a sentence. The engine must outlive the service.
  [[nodiscard]] static Result<std::unique_ptr<IwarpService>, std::string> open(
      Engine& engine, const DeviceConfig& config, const IwarpLimits& limits = {});
  /// Not in a child of fork(): there it is leaked. Connections that stand stay with the engine.
  ~IwarpService() override;
  IwarpService(const IwarpService&) = delete;
  IwarpService& operator=(const IwarpService&) = delete;

  void set_consumer(IwarpConsumer& consumer) override;
  [[nodiscard]] bool is_dead() const override;
  [[nodiscard]] std::span<const Gid> addresses() const override;
  [[nodiscard]] std::optional<Gid> address_toward(const Gid& peer) const override;
  [[nodiscard]] iwarp::ReadDepths depths_max() const override;
  [[nodiscard]] std::size_t private_data_room() const override;
  Result<Bound, int> bind(const IwarpBindClaim& claim) override;
  int listen(IwarpPortId id, int backlog, std::uintptr_t cookie) override;
  void release(IwarpPortId id) override;
  Result<IwarpConnectionId, int> connect(const IwarpConnect& what) override;
  int accept(IwarpConnectionId id, Qpn qpn, const iwarp::ReadDepths& depths,
             ByteView private_data) override;
  int reject(IwarpConnectionId id, ByteView private_data) override;
  int disconnect(IwarpConnectionId id, bool at_once) override;
  void destroy(IwarpConnectionId id) override;
  void note_failure(const std::string& sentence) override;

 private:
  class Impl;
  explicit IwarpService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::ports
