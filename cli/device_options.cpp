#include "cli/device_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <string_view>
#include <utility>

namespace verbena::cli {

void DeviceOptions::add_to(CLI::App& command, std::string_view except) {
  for (const ports::EnvironmentVariable& variable : ports::environment_variables()) {
    if (variable.option != nullptr && variable.name != except) {
      add(command, variable);
    }
  }
}

void DeviceOptions::add_only(CLI::App& command, std::span<const char* const> variables) {
  for (const ports::EnvironmentVariable& variable : ports::environment_variables()) {
    if (std::ranges::find(variables, std::string_view(variable.name)) != variables.end()) {
      add(command, variable);
    }
  }
}

void DeviceOptions::add(CLI::App& command, const ports::EnvironmentVariable& variable) {
  const std::string name = variable.name;
  if (variable.value_name == nullptr) {
    command.add_flag_callback(
        variable.option, [this, name] { values_[name] = "1"; }, std::string(variable.help));
    return;
  }
  command
      .add_option_function<std::string>(
          variable.option, [this, name](const std::string& value) { values_[name] = value; },
          std::string(variable.help))
      ->type_name(variable.value_name);
}

std::string DeviceOptions::value_of(const char* variable) const {
  const char* value = environment()(variable);
  return value == nullptr ? "" : value;
}

std::string DeviceOptions::in_words_of_options(std::string error) const {
  for (const ports::EnvironmentVariable& variable : ports::environment_variables()) {
    const std::string name = variable.name;
    const std::size_t at = error.find(name);
    if (variable.option != nullptr && values_.contains(name) && at != std::string::npos) {
      error.replace(at, name.size(), variable.option);
    }
  }
  return error;
}

Result<std::vector<ports::DeviceConfig>, std::string> DeviceOptions::load_devices() const {
  auto devices = ports::load_devices(environment());
  if (!devices) {
    return std::unexpected(in_words_of_options(std::move(devices.error())));
  }
  return devices;
}

ports::Environment DeviceOptions::environment() const {
  return [this, process = ports::process_environment()](const char* name) -> const char* {
    const auto option = values_.find(name);
    return option != values_.end() ? option->second.c_str() : process(name);
  };
}

std::set<std::string> fabrics_of(std::span<const ports::DeviceConfig> devices) {
  std::set<std::string> fabrics;
  for (const ports::DeviceConfig& device : devices) {
    fabrics.insert(device.fabric_path);
  }
  return fabrics;
}

}  // namespace verbena::cli
