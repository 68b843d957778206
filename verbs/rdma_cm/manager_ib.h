// InfiniBand's connection manager, for RoCE devices: REQ, REP and RTU make a connection, and the
// queue pair is taken to RTS by what they say (IBTA vol 1, chapter 12).
#pragma once

#include "ports/cm_device.h"
#include "verbs/rdma_cm/manager.h"

namespace verbena::rdma_cm {

class IbManager final : public Manager, private ports::CmConsumer {
 public:
  /// Both must outlive it.
  IbManager(Device& device, ports::CmDevice& cm);

  [[nodiscard]] bool is_dead() const override { return cm_.is_dead(); }
  [[nodiscard]] bool serves(rdma_port_space) const override { return true; }
  [[nodiscard]] bool is_on_this_host(const Gid& gid) const override;
  [[nodiscard]] std::optional<Gid> address_toward(const Gid& gid) const override;
  [[nodiscard]] bool may_lead_to(const Gid& gid) const override;
  /// All of a fabric have the ports of the fabric.
  [[nodiscard]] std::string port_table() const override { return cm_.fabric_path(); }

  [[nodiscard]] Result<Binding, Errno> bind(CmId& id, std::uint16_t port) override;
  void release(const Binding& binding) override;
  [[nodiscard]] Errno listen(CmId& id) override;
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
  // connect_ib.cpp
  [[nodiscard]] Errno connect_datagram(CmId& id, const rdma_conn_param* param);
  [[nodiscard]] Errno connect_stream(CmId& id, const rdma_conn_param* param);
  [[nodiscard]] Errno accept_datagram(CmId& id, const rdma_conn_param* param);
  [[nodiscard]] Errno accept_stream(CmId& id, const rdma_conn_param* param);

  // queue_pair_ib.cpp
  /// To RTR and RTS, as agreed.
  [[nodiscard]] Errno make_qp_ready(CmId& id);

  // consumer_ib.cpp: what the connection manager tells. Called by its thread, under its lock.
  ports::CmAnswer on_cm_event(const ib::cm::Event& event) override;
  ports::CmAnswer on_request(CmId& listener, const ib::cm::Event& event);

  // events_ib.cpp
  void finish_connection(CmId& id, FetchedEvent& event, const ib::cm::Rep& rep);
  void note_rejection(CmId& id, const QueuedEvent& queued);
  void tell_failure(const std::string& sentence);
  void say_nobody_listens(CmId& id);
  void say_no_answer(CmId& id);

  Device& device_;
  ports::CmDevice& cm_;
};

}  // namespace verbena::rdma_cm
