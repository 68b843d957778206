// A queue of the target without its transport: what each command does.
//
// A command is begun when its capsule is there. Data for the host are then ready; data of the host
// are fetched by whoever called, and the command is finished with them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "examples/nvmf/identify.h"
#include "examples/nvmf/nvme.h"
#include "examples/nvmf/subsystem.h"

namespace nvmf {

struct Outcome {
  Status status = Status::success;
  std::uint64_t result = 0;
};

struct Plan {
  enum class Data : std::uint8_t { none, to_host, from_host };

  Outcome outcome{};
  Data data = Data::none;
  // Where data are, or go to: in the namespace, or in the page that was given.
  std::span<std::uint8_t> memory{};
  // An asynchronous event request: answered when there is an event.
  bool is_held = false;
};

class Session {
 public:
  // Queue 0 is the admin queue. `entries` bounds what Connect may ask for.
  Session(Subsystem& subsystem, std::uint16_t queue_id, std::uint16_t entries, Portal portal);
  // The controller goes with its admin queue.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // `page` has page_bytes, and is this command's until it is completed.
  Plan begin(const Command& command, std::span<std::uint8_t> page);
  // With the data that begin() asked for.
  Outcome finish(const Command& command, std::span<std::uint8_t> data);
  // Moves the queue's head: once for each command that is answered.
  Completion complete(const Command& command, const Outcome& outcome);

  // False when the admin queue is gone, so that nothing works any more.
  [[nodiscard]] bool is_alive() const { return controller_ == nullptr || controller_->is_alive; }
  // Why this queue is of no more use to anybody; nothing if it is. `grace` is how much longer than
  // its time a host may be silent.
  [[nodiscard]] const char* why_lost(std::chrono::steady_clock::time_point now,
                                     std::chrono::seconds grace) const;
  [[nodiscard]] std::uint16_t queue_id() const { return queue_id_; }

 private:
  Plan begin_fabrics(const Command& command, std::span<std::uint8_t> page);
  Plan begin_admin(const Command& command, std::span<std::uint8_t> page);
  Plan begin_io(const Command& command);
  Plan identify(const Command& command, std::span<std::uint8_t> page);
  Plan get_log_page(const Command& command, std::span<std::uint8_t> page);
  Outcome set_features(const Command& command);
  Outcome get_features(const Command& command);
  Outcome get_property(const Command& command);
  Outcome set_property(const Command& command);
  Plan hold_event(const Command& command);
  Outcome connect(const Command& command, const Page& data);
  Outcome connect_admin(const ConnectFields& fields, const Page& data);
  Outcome connect_io(const ConnectFields& fields, const Page& data);

  Subsystem& subsystem_;
  const std::uint16_t queue_id_;
  const std::uint16_t entries_;
  const Portal portal_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::shared_ptr<Controller> controller_;
  std::uint16_t sq_size_ = 0;
  std::uint16_t sq_head_ = 0;
  bool has_flow_control_ = true;
};

}  // namespace nvmf
