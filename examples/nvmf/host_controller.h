// The initiator's side of a controller: its admin queue, from Connect to shutdown.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/nvmf/host_queue.h"

namespace nvmf {

// Who we are.
struct HostName {
  std::string nqn = "nqn.2014-08.org.nvmexpress:uuid:6f2bd1a4-8d1e-4c5f-9b60-0d2f8a7c4e11";
  std::array<std::uint8_t, 16> id{};
  // We promise a sign of life in this time, and give none but commands: long enough for all that is
  // done with a controller.
  std::uint32_t keep_alive_ms = 600'000;
};

// A row of the discovery log.
struct DiscoveryRecord {
  bool is_rdma = false;
  bool is_nvm = false;
  std::string nqn;
  Place place;
};

struct ControllerFacts {
  std::string model;
  std::string serial;
  std::size_t in_capsule_bytes = 0;
  std::size_t transfer_bytes_max = 0;
};

struct NamespaceFacts {
  std::uint32_t id = 0;
  std::uint64_t blocks = 0;
  std::size_t block_bytes = 0;
};

class HostController {
 public:
  // Connects to a subsystem and enables the controller. Throws a Failure.
  HostController(Place place, std::string subsystem_nqn, HostName host,
                 std::chrono::milliseconds timeout);

  // Only of a discovery controller.
  std::vector<DiscoveryRecord> discover();

  ControllerFacts identify();
  // Of the first namespace that is active.
  NamespaceFacts identify_namespace();
  // Asks for so many I/O queues. Returns how many there may be.
  std::uint16_t set_number_of_queues(std::uint16_t count);
  // An event request, which waits in the target, and a sign of life.
  void request_event_and_keep_alive();
  std::unique_ptr<HostQueue> connect_io(QueueWishes wishes);
  // Tells the controller that we are going. The connection ends with this object.
  void shut_down();

 private:
  // Throws a Failure if the status isn't success.
  Completion execute(const char* what, const Command& command,
                     Direction direction = Direction::none, std::size_t length = 0);
  Completion connect_command(HostQueue& queue, std::uint16_t controller_id);
  std::uint32_t get_status();
  void configure(std::uint32_t value, std::uint32_t mask, std::uint32_t wanted);

  const Place place_;
  const std::string subsystem_nqn_;
  const HostName host_;
  const std::chrono::milliseconds timeout_;
  HostQueue queue_;
  std::uint16_t id_ = 0;
};

// Throws a Failure if the status isn't success.
void expect_success(const std::string& what, const Completion& completion);

}  // namespace nvmf
