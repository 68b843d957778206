// The connection manager of a host in virtual time: an ib::cm::Agent whose MADs go through QP1 of
// the host's NIC, over the same links and faults as everything else.
#pragma once

#include <cstdint>

#include "nic_model/gsi.h"
#include "proto/ib_bth/cm/agent.h"
#include "sim/node.h"

namespace verbena::sim {

/// Hears what happens to a host's connections. May give commands to the agent.
class CmApplication {
 public:
  virtual ~CmApplication() = default;
  virtual void on_cm_event(Node& node, const ib::cm::Event& event) = 0;
};

class CmHost final : public NodeService, private nic::MadHandler {
 public:
  /// Opens QP1 of the node, which must live longer.
  CmHost(Node& node, std::uint64_t seed);
  ~CmHost() override;
  CmHost(const CmHost&) = delete;
  CmHost& operator=(const CmHost&) = delete;

  [[nodiscard]] ib::cm::Agent& agent() { return agent_; }
  void set_application(CmApplication* application) { application_ = application; }

  bool serve(Time now) override;
  [[nodiscard]] Time next_deadline() const override { return agent_.next_timeout(); }

 private:
  void on_mad(const ib::cm::Route& route, ByteView mad) override;
  bool receive(Time now);
  bool hand_out_events();
  bool send(Time now);

  Node& node_;
  nic::Gsi gsi_;
  ib::cm::Agent agent_;
  CmApplication* application_ = nullptr;
};

}  // namespace verbena::sim
