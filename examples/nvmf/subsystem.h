// What a target has: one namespace in memory, and the controllers that hosts have connected to.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/nvmf/nvme.h"

namespace nvmf {

constexpr std::uint16_t io_queues_max = 64;
constexpr std::uint16_t queue_entries_max = 128;  // of one queue
constexpr std::size_t controllers_max = 64;
constexpr std::size_t held_events_max = 4;
// Identify's MDTS: the most that one command moves is 2^8 pages.
constexpr std::uint8_t transfer_pages_shift = 8;
constexpr std::uint32_t transfer_bytes_max = page_bytes << transfer_pages_shift;
constexpr std::uint32_t version_1_3 = 0x00010300;
constexpr std::uint32_t the_namespace = 1;

struct Settings {
  std::string nqn = "nqn.2026-11.example.verbena:memory";
  // Rounded down to whole blocks.
  std::uint64_t storage_bytes = 64ULL << 20;
  // Data that may lie behind a command of an I/O queue; a multiple of 16.
  std::uint32_t in_capsule_bytes = 4096;
  std::uint16_t io_queues = 16;
};

// The namespace: blocks that are zero until they are written.
class Storage {
 public:
  explicit Storage(std::uint64_t bytes) : memory_(bytes / block_bytes * block_bytes) {}

  [[nodiscard]] std::uint64_t blocks() const { return memory_.size() / block_bytes; }
  [[nodiscard]] std::span<std::uint8_t> memory() { return memory_; }
  // Nothing if a block of it doesn't exist.
  std::optional<std::span<std::uint8_t>> range(std::uint64_t first, std::uint64_t count);

 private:
  std::vector<std::uint8_t> memory_;
};

// For the log page of health information.
struct Totals {
  std::uint64_t read_commands = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_commands = 0;
  std::uint64_t written_bytes = 0;
};

// A host's controller. Its admin queue made it, and it goes with that queue.
struct Controller {
  std::uint16_t id = 0;
  bool is_discovery = false;
  std::string host_nqn;
  std::string subsystem_nqn;
  std::uint32_t configuration = 0;
  std::uint32_t status = 0;
  std::uint32_t keep_alive_ms = 0;
  std::uint32_t async_events = 0;
  std::uint16_t io_queues = 0;
  std::bitset<io_queues_max + 1> connected;
  // Identifiers of the commands that wait for an event.
  std::vector<std::uint16_t> held_events;
  // When the last command came.
  std::chrono::steady_clock::time_point heard;
  bool is_alive = true;

  [[nodiscard]] bool is_enabled() const { return (status & csts_ready) != 0; }
  void set_configuration(std::uint32_t value);
};

class Subsystem {
 public:
  explicit Subsystem(Settings settings)
      : settings_(std::move(settings)), storage_(settings_.storage_bytes) {}

  [[nodiscard]] const Settings& settings() const { return settings_; }
  Storage& storage() { return storage_; }
  Totals& totals() { return totals_; }

  // Nothing if there are too many.
  std::shared_ptr<Controller> create_controller(bool is_discovery, std::string host_nqn);
  // Nothing if there is none.
  std::shared_ptr<Controller> find_controller(std::uint16_t id);
  void remove_controller(std::uint16_t id);

 private:
  Settings settings_;
  Storage storage_;
  Totals totals_;
  std::map<std::uint16_t, std::shared_ptr<Controller>> controllers_;
  std::uint16_t last_id_ = 0;
};

}  // namespace nvmf
