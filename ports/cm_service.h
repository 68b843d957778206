// The connection manager of one device in one process: runs an ib::cm::Agent in real time.
//
// Behind one address there are several processes, each with a QP1 of its own, and each of them gets
// a copy of every MAD. Communication IDs carry the number of their process's slot in the fabric, so
// everybody knows what is not his own. A request for a service that nobody of this host listens on
// is refused by exactly one: the process with the lowest slot of those that have a QP1 there.
// Before that everybody waits a moment: a program that has just started, or that ends one listener
// and begins the next, is about to listen, and its peer needn't know how fast we are.
//
// One thread does what comes by itself: MADs that arrive, timeouts, and every now and then a look
// whether the peers on this host are still alive. A kernel would end a dead process's connections;
// here the peers notice.
//
// Locks: the service's own, then the engine's; never the other way round.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nic_model/gsi.h"
#include "ports/cm_device.h"
#include "ports/device_config.h"
#include "ports/engine.h"

namespace verbena::ports {

class CmService final : public CmDevice, private nic::MadHandler {
 public:
  /// The error is a sentence. The engine must outlive the service.
  [[nodiscard]] static Result<std::unique_ptr<CmService>, std::string> open(
      Engine& engine, const DeviceConfig& config);
  /// Not in a child of fork(): there it is leaked.
  ~CmService() override;
  CmService(const CmService&) = delete;
  CmService& operator=(const CmService&) = delete;

  /// Any thread, under any lock: a CQ of QP1, with the cookie 0, has notified.
  void wake();

  void set_consumer(CmConsumer& consumer) override;
  [[nodiscard]] bool is_dead() const override { return engine_.is_dead(); }
  Result<ServiceTable::Bound, int> bind(const ServiceClaim& claim) override;
  void listen(ib::cm::ServiceId service, const std::optional<Gid>& address,
              std::uintptr_t cookie) override;
  int announce(ServiceEntryId entry) override;
  void unlisten(std::uintptr_t cookie) override;
  void release(ServiceEntryId entry) override;
  std::vector<std::string> listeners(std::uint64_t space) override;
  void note_failure(const std::string& sentence) override;
  [[nodiscard]] const std::string& fabric_path() const override { return config_.fabric_path; }
  [[nodiscard]] bool is_on_this_host(const Gid& gid) const override;
  [[nodiscard]] std::optional<Gid> address_toward(const Gid& gid) const override;
  [[nodiscard]] bool may_lead_to(const Gid& gid) const override;
  ib::cm::CommId connect(const ib::cm::Route& route, const ib::cm::Req& req,
                         std::uintptr_t cookie) override;
  bool accept(ib::cm::CommId id, const ib::cm::Rep& rep) override;
  bool ready(ib::cm::CommId id, const ib::cm::PrivateData<224>& private_data) override;
  bool reject(ib::cm::CommId id, ib::cm::RejectReason reason, ByteView info,
              ByteView private_data) override;
  bool establish(ib::cm::CommId id) override;
  bool disconnect(ib::cm::CommId id, ByteView private_data) override;
  ib::cm::CommId resolve(const ib::cm::Route& route, const ib::cm::SidrReq& req,
                         Duration answer_time, std::uint8_t retries_max,
                         std::uintptr_t cookie) override;
  bool answer(ib::cm::CommId id, const ib::cm::SidrRep& rep) override;
  void destroy(ib::cm::CommId id) override;

 private:
  CmService(Engine& engine, const DeviceConfig& config, std::uint32_t slot);

  /// Runs command(agent, now) under the lock and lets its effects out. In a child of fork() it does
  /// nothing and returns zero.
  template <class Command>
  auto with_agent(Command&& command);
  void let_effects_out();
  [[nodiscard]] bool send(const ib::cm::Outgoing& outgoing);
  void hand_over_events();

  /// All MADs that have come.
  void receive();
  void on_mad(const ib::cm::Route& route, ByteView mad) override;
  /// Gives those that have waited to a listener that is new, or refuses them in the end.
  void claim_requests();
  void refuse_requests(Time now);
  /// Whether it is on us to say that nobody listens.
  [[nodiscard]] bool is_to_refuse(const ib::cm::Route& route, ib::cm::ServiceId service);
  void look_after_peers(Time now);

  [[nodiscard]] Result<void, int> start();
  static void* thread_entry(void* self);
  void thread_main();
  /// When the thread has something to do by itself.
  [[nodiscard]] Time next_deadline() const;

  Engine& engine_;
  const DeviceConfig config_;
  /// Whose frames stay on this host.
  std::vector<Gid> host_;
  std::mutex mutex_;
  nic::Gsi gsi_;
  ib::cm::Agent agent_;
  CmConsumer* consumer_ = nullptr;
  /// What the send queue had no room for.
  std::deque<ib::cm::Outgoing> waiting_;
  Time next_send_attempt_ = time_never;

  /// Requests that nobody listens for, in the order of their deadlines.
  struct Unclaimed {
    Time deadline;
    ib::cm::Route route;
    ib::cm::Mad mad;
  };
  std::deque<Unclaimed> unclaimed_;

  /// In which of its lives a peer's slot of the fabric was when the peer named itself.
  std::map<ib::cm::CommId, SlotLife> lives_;
  Time next_look_ = time_never;

  /// When the thread means to wake by itself.
  Time wake_time_{};
  /// Futex: counts what the thread is woken for.
  std::atomic<std::uint32_t> news_{0};
  std::atomic<bool> stop_{false};
  std::optional<pthread_t> thread_;
};

}  // namespace verbena::ports
