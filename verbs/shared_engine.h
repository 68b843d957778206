// The engine of a device, shared by all contexts that this process has open on it: two contexts of
// one process are two users of one NIC, as on real hardware, and can talk to each other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "ports/cm_service.h"
#include "ports/engine.h"
#include "ports/iwarp_service.h"

namespace verbena::verbs {

struct Context;

class SharedEngine final : public ports::EngineListener {
 public:
  /// The error is a sentence for the user.
  [[nodiscard]] static Result<std::shared_ptr<SharedEngine>, std::string> open(
      const ports::DeviceConfig& config);
  ~SharedEngine() override;

  [[nodiscard]] ports::Engine& engine() { return *engine_; }

  /// The connection manager of the device in this process, started when there is none. The error
  /// is a sentence for the user.
  [[nodiscard]] Result<ports::CmService*, std::string> connection_manager(
      const ports::DeviceConfig& config);

  /// The same of an iWARP device: its connections.
  [[nodiscard]] Result<ports::IwarpService*, std::string> iwarp_service(
      const ports::DeviceConfig& config);

  /// From attach to detach the context hears of events that belong to no object.
  void attach(Context& context);
  void detach(Context& context) noexcept;

  /// The contexts that are attached now.
  [[nodiscard]] std::vector<Context*> contexts();

  /// Both are called under the engine's lock and sort events to their objects: a cookie of the Nic
  /// is the address of the object of ours (QueuePair, CompletionQueue).
  void on_async_event(const nic::AsyncEvent& event) override;
  void on_cq_notification(nic::Cq& cq) override;

 private:
  SharedEngine() = default;

  std::unique_ptr<ports::Engine> engine_;
  std::mutex cm_mutex_;
  std::unique_ptr<ports::CmService> cm_;
  std::unique_ptr<ports::IwarpService> iwarp_;
  /// The same, for the engine's threads.
  std::atomic<ports::CmService*> cm_to_wake_{nullptr};
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
};

}  // namespace verbena::verbs
