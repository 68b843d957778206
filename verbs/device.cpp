// Device list, names and GUIDs. The list is read from the configuration once; see
// ports/device_config.h for where it comes from.

#include "verbs/device.h"

#include <endian.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "ports/log.h"
#include "ports/path_view.h"
#include "ports/process_hooks.h"
#include "ports/real_devices.h"
#include "ports/sysfs_files.h"
#include "verbs/errors.h"
#include "verbs/real_library.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {
namespace {

template <std::size_t size>
void set_text(char (&field)[size], std::string_view text) {
  field[text.copy(field, size - 1)] = '\0';
}

/// The devices, and the lock under which engines are opened. Never destroyed: background threads
/// and atexit handlers of the program may still use devices while the process ends.
class Registry {
 public:
  static Registry& get() {
    static Registry& registry = *new Registry;
    return registry;
  }

  /// Empty if the configuration is wrong: then the user has been told.
  std::span<const std::unique_ptr<Device>> devices() {
    const std::lock_guard guard(mutex);
    if (devices_.empty()) {
      load();
    }
    return devices_;
  }

  void look_for_real() {
    const std::lock_guard guard(mutex);
    load_real();
  }

  std::mutex mutex;

 private:
  Registry() {
    // A child must not inherit the lock from a thread that it doesn't have.
    ports::install_process_handlers();
    pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                   [] { get().mutex.unlock(); });
  }

  void load() {
    auto configs = ports::load_devices(ports::process_environment());
    if (!configs) {
      // Programs ask for the list again and again; the user needs one line.
      if (configs.error() != reported_) {
        reported_ = configs.error();
        ports::report(reported_, ports::LogLevel::error);
      }
      return;
    }
    // Before there is a device of ours to make a context of.
    load_real();
    for (auto& config : *configs) {
      devices_.push_back(
          std::make_unique<Device>(std::move(config), static_cast<int>(devices_.size())));
    }
  }

  /// Once. What is wrong with the settings is told by load().
  void load_real() {
    if (has_looked_for_real_) {
      return;
    }
    if (const auto real = ports::load_real_devices(ports::process_environment())) {
      has_looked_for_real_ = true;
      load_real_library(*real);
    }
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::string reported_;
  bool has_looked_for_real_ = false;
};

}  // namespace

Device::Device(ports::DeviceConfig device_config, int device_index)
    : VerbsDevice{}, config(std::move(device_config)), index(device_index) {
  ops = &our_device_mark;
  const std::string uverbs = ports::uverbs_name(index);
  const bool is_rnic = config.technology == nic::Technology::iwarp;
  device.node_type = is_rnic ? IBV_NODE_RNIC : IBV_NODE_CA;
  device.transport_type = is_rnic ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  set_text(device.name, config.name);
  set_text(device.dev_name, uverbs);
  set_text(device.dev_path, std::string(ports::uverbs_class_directory) + "/" + uverbs);
  set_text(device.ibdev_path, std::string(ports::sysfs_class_directory) + "/" + config.name);
}

Result<std::shared_ptr<SharedEngine>, std::string> Device::shared_engine() {
  const std::lock_guard guard(Registry::get().mutex);
  auto engine = engine_.lock();
  if (engine && !engine->engine().is_dead()) {
    return engine;
  }
  auto opened = SharedEngine::open(config);
  if (opened) {
    engine_ = *opened;
  }
  return opened;
}

std::vector<Context*> Device::open_contexts() {
  const std::lock_guard guard(Registry::get().mutex);
  const auto engine = engine_.lock();
  return engine ? engine->contexts() : std::vector<Context*>{};
}

void load_real_devices() { Registry::get().look_for_real(); }

Device* find_device(const std::function<bool(Device&)>& matches) {
  for (const auto& device : Registry::get().devices()) {
    if (matches(*device)) {
      return device.get();
    }
  }
  return nullptr;
}

namespace {

/// Programs go by names, and would take ours for the other. Told once.
void tell_of_namesakes(std::span<ibv_device* const> real) {
  static std::atomic<bool> told{false};
  for (const ibv_device* device : real) {
    const std::string_view name = device->name;
    const Device* const ours =
        find_device([&](const Device& candidate) { return candidate.device.name == name; });
    if (ours != nullptr && !told.exchange(true)) {
      ports::report(ours->config.name +
                    " is the name of a real device as well; programs that go by names find ours. "
                    "Give ours another (VERBENA_DEVICE)");
    }
  }
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

/// A list as programs get it: ours come first, so that what takes the first device, or one of two
/// with the same name, takes ours. In front of it, out of sight, is the real library's list, which
/// holds its devices.
VERBENA_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) {
    *num_devices = 0;
  }
  return create_or_null([&]() -> Created<ibv_device*> {
    const auto devices = Registry::get().devices();
    int real_count = 0;
    // Null if the kernel knows of no RDMA.
    ibv_device** const real =
        has_real_verbs() ? real_verbs().ibv_get_device_list(&real_count) : nullptr;
    const std::size_t count =
        devices.size() + static_cast<std::size_t>(real == nullptr ? 0 : real_count);
    auto* const room = new (std::nothrow) ibv_device*[1 + count + 1]{};
    if (room == nullptr) {
      if (real != nullptr) {
        real_verbs().ibv_free_device_list(real);
      }
      return failed(ENOMEM);
    }
    room[0] = reinterpret_cast<ibv_device*>(real);
    ibv_device** const list = room + 1;
    std::ranges::transform(devices, list, [](const auto& device) { return &device->device; });
    std::copy_n(real, count - devices.size(), list + devices.size());
    tell_of_namesakes(std::span(list, count).subspan(devices.size()));
    if (num_devices != nullptr) {
      *num_devices = static_cast<int>(count);
    }
    return list;
  });
}

VERBENA_EXPORT void ibv_free_device_list(ibv_device** list) {
  if (list == nullptr) {
    return;
  }
  if (auto* const real = reinterpret_cast<ibv_device**>(list[-1])) {
    real_verbs().ibv_free_device_list(real);
  }
  delete[] (list - 1);
}

VERBENA_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

VERBENA_EXPORT int ibv_get_device_index(ibv_device* device) {
  if (is_real(device)) {
    return real_verbs().ibv_get_device_index(device);
  }
  return Device::of(device).index;
}

VERBENA_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  if (is_real(device)) {
    return real_verbs().ibv_get_device_guid(device);
  }
  return htobe64(Device::of(device).config.guid);
}
