// Shared by the tests of device configuration: devices and errors of a set of variables.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "ports/device_config.h"

namespace verbena::ports::test {

using Variables = std::map<std::string, std::string>;

inline Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

inline DeviceConfig only_device(const Variables& variables) {
  auto devices = load_devices(environment_of(variables));
  INFO((devices ? "" : devices.error()));
  REQUIRE(devices);
  REQUIRE(devices->size() == 1);
  return devices->front();
}

inline std::string error_of(const Variables& variables) {
  const auto devices = load_devices(environment_of(variables));
  REQUIRE_FALSE(devices);
  return devices.error();
}

}  // namespace verbena::ports::test
