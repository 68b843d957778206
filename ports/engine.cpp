#include "ports/engine.h"

#include <fmt/format.h>

#include <ctime>

#include "ports/capture_port.h"
#include "ports/engine_loop.h"
#include "ports/fabric_port.h"
#include "ports/sys.h"

namespace verbena::ports {

struct Engine::Impl {
  EngineLoop loop;
};

Result<std::unique_ptr<Engine>, std::string> Engine::open(const DeviceConfig& config,
                                                          EngineListener& listener) {
  auto fabric = Fabric::join(
      {.path = config.fabric_path, .device_name = config.name, .ring_bytes = config.ring_bytes});
  if (!fabric) {
    return std::unexpected(std::move(fabric.error()));
  }
  Fabric& joined = **fabric;
  std::unique_ptr<Port> port = std::make_unique<FabricPort>(std::move(*fabric));
  if (!config.capture.empty()) {
    auto file = CaptureFile::open(config.capture);
    if (!file) {
      return std::unexpected(std::move(file.error()));
    }
    const std::string description = fmt::format("{} of process {}", config.name, sys::process_id());
    port =
        std::make_unique<CapturePort>(std::move(port), std::move(*file), config.name, description);
  }
  auto impl = std::unique_ptr<Impl>(
      new Impl{.loop = EngineLoop(config, listener, std::move(port), joined)});
  if (auto started = impl->loop.start(); !started) {
    return std::unexpected(fmt::format("can't start the background thread of {}: {}", config.name,
                                       sys::error_text(started.error())));
  }
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  if (is_dead()) {
    // The thread and the shared memory belong to the parent: there is nothing to end here, and
    // nothing that may be touched.
    static_cast<void>(impl_.release());
  }
}

Result<nic::Qp*, nic::NicError> Engine::create_qp(nic::Pd& pd, const nic::QpInitAttr& attr) {
  return with_nic([&](nic::Nic& nic, Time) -> Result<nic::Qp*, nic::NicError> {
    for (;;) {
      auto created = nic.create_qp(pd, attr);
      if (created || created.error() != nic::NicError::qpns_exhausted) {
        return created;
      }
      if (!impl_->loop.add_qpn_block()) {
        return std::unexpected(nic::NicError::limit_reached);
      }
    }
  });
}

bool Engine::try_progress() { return impl_->loop.try_progress(); }

PortStatistics Engine::port_statistics() {
  return with_nic([&](nic::Nic&, Time) { return impl_->loop.port().statistics(); });
}

const nic::Nic& Engine::peek() const { return impl_->loop.nic(); }

nic::Nic& Engine::nic() { return impl_->loop.nic(); }

Time Engine::now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Time(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

bool Engine::is_dead() const { return impl_->loop.is_dead(); }

void Engine::lock() { impl_->loop.lock().lock(); }

void Engine::unlock() { impl_->loop.lock().unlock(); }

void Engine::run_locked() { impl_->loop.run_effects(); }

}  // namespace verbena::ports
