// The devices of this process: what ibv_get_device_list() lists.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "ports/device_config.h"
#include "verbs/abi_layout.h"
#include "verbs/shared_engine.h"

namespace verbena::verbs {

/// A configured device. The program holds its ibv_device. Lives as long as the process: programs
/// keep pointers to devices beyond ibv_free_device_list().
struct Device : VerbsDevice {
  Device(ports::DeviceConfig device_config, int device_index);

  [[nodiscard]] static Device& of(ibv_device* device) {
    return static_cast<Device&>(*reinterpret_cast<VerbsDevice*>(device));
  }

  /// The engine that all contexts of this device share; opened when there is none. The error is a
  /// sentence for the user.
  [[nodiscard]] Result<std::shared_ptr<SharedEngine>, std::string> shared_engine();

  /// The contexts that are open on it.
  [[nodiscard]] std::vector<Context*> open_contexts();

  const ports::DeviceConfig config;
  const int index;

 private:
  std::weak_ptr<SharedEngine> engine_;
};

/// Loads the host's real devices if they are wanted and haven't been looked for. The list of
/// devices does it, too.
void load_real_devices();

/// The first device of ours that `matches`; nullptr if none does.
[[nodiscard]] Device* find_device(const std::function<bool(Device&)>& matches);

}  // namespace verbena::verbs
