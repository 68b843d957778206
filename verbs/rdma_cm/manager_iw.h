// Connections of iWARP devices: TCP and MPA's start frames, as Linux' iw_cm and its cma.c tell of
// them. There are no services but reliable streams, no reply that a program confirms, and no
// timewait: TCP's own is nobody's business.
#pragma once

#include "ports/iwarp_device.h"
#include "verbs/rdma_cm/manager.h"

namespace verbena::rdma_cm {

class IwManager final : public Manager, private ports::IwarpConsumer {
 public:
  /// Both must outlive it.
  IwManager(Device& device, ports::IwarpDevice& iwarp);

  [[nodiscard]] bool is_dead() const override { return iwarp_.is_dead(); }
  [[nodiscard]] bool serves(rdma_port_space space) const override { return space == RDMA_PS_TCP; }
  [[nodiscard]] bool is_on_this_host(const Gid& gid) const override;
  [[nodiscard]] std::optional<Gid> address_toward(const Gid& gid) const override {
    return iwarp_.address_toward(gid);
  }
  [[nodiscard]] bool may_lead_to(const Gid& gid) const override { return !is_on_this_host(gid); }
  /// Sockets are bound to the addresses of one device.
  [[nodiscard]] std::string port_table() const override;

  [[nodiscard]] Result<Binding, Errno> bind(CmId& id, std::uint16_t port) override;
  void release(const Binding& binding) override;
  [[nodiscard]] Errno listen(CmId& id) override;
  /// Releases the port: a socket can't stop listening and stay bound. listen() binds it again.
  void unlisten(CmId& id) override;

  void publish_path(CmId& id) override;
  [[nodiscard]] Errno connect(CmId& id, const rdma_conn_param* param) override;
  [[nodiscard]] Errno accept(CmId& id, const rdma_conn_param* param) override;
  [[nodiscard]] Errno refuse(CmId& id, Refusal reason, ByteView private_data) override;
  [[nodiscard]] Errno disconnect(CmId& id) override;
  [[nodiscard]] Errno establish(CmId& id) override;
  void note_traffic(CmId& id) override;
  void forget(CmId& id) override;

  [[nodiscard]] Errno init_qp_attr(CmId& id, ibv_qp_attr& attr, int& mask) override;
  void act_on(const QueuedEvent& queued, CmId& id, FetchedEvent& event) override;

 private:
  // consumer_iw.cpp: what the device tells, under its lock.
  std::uintptr_t on_iwarp_event(const ports::IwarpEvent& event) override;
  std::uintptr_t on_request(CmId& listener, const ports::IwarpEvent& event);

  // events_iw.cpp
  void note_rejection(CmId& id, int status);
  void tell_failure(const std::string& sentence);

  Device& device_;
  ports::IwarpDevice& iwarp_;
};

}  // namespace verbena::rdma_cm
