#include "examples/nvmf/subsystem.h"

#include <utility>

namespace nvmf {

std::optional<std::span<std::uint8_t>> Storage::range(std::uint64_t first, std::uint64_t count) {
  if (first > blocks() || count > blocks() - first) {
    return std::nullopt;
  }
  return std::span(memory_).subspan(first * block_bytes, count * block_bytes);
}

void Controller::set_configuration(std::uint32_t value) {
  configuration = value;
  status = (value & cc_enable) != 0 ? csts_ready : 0;
  if ((value & cc_shutdown_mask) != 0) {
    // Nothing has to be written anywhere first.
    status |= csts_shutdown_done;
  }
}

std::shared_ptr<Controller> Subsystem::create_controller(bool is_discovery, std::string host_nqn) {
  if (controllers_.size() >= controllers_max) {
    return nullptr;
  }
  // 0 is left out, and the highest ones mean something else.
  do {
    last_id_ = last_id_ >= 0xffef ? std::uint16_t{1} : static_cast<std::uint16_t>(last_id_ + 1);
  } while (controllers_.contains(last_id_));
  auto controller = std::make_shared<Controller>();
  controller->id = last_id_;
  controller->is_discovery = is_discovery;
  controller->host_nqn = std::move(host_nqn);
  controller->subsystem_nqn = is_discovery ? std::string(discovery_nqn) : settings_.nqn;
  controller->io_queues = settings_.io_queues;
  controllers_.emplace(controller->id, controller);
  return controller;
}

std::shared_ptr<Controller> Subsystem::find_controller(std::uint16_t id) {
  const auto found = controllers_.find(id);
  return found == controllers_.end() ? nullptr : found->second;
}

void Subsystem::remove_controller(std::uint16_t id) {
  if (const auto controller = find_controller(id)) {
    controller->is_alive = false;
    controllers_.erase(id);
  }
}

}  // namespace nvmf
