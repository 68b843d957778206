#include "ports/real_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "ports/config_file.h"
#include "ports/path_view.h"

namespace verbena::ports {

namespace {

/// Where the loader of a 64-bit system looks without being told to: Debian's folders, then those of
/// distributions without an architecture's name in them (ld.so(8)). LD_LIBRARY_PATH leads to us.
constexpr std::array<std::string_view, 6> default_folders = {"/lib/x86_64-linux-gnu",
                                                             "/usr/lib/x86_64-linux-gnu",
                                                             "/lib64",
                                                             "/usr/lib64",
                                                             "/lib",
                                                             "/usr/lib"};

constexpr std::string_view library_name = "libibverbs.so.1";

std::string_view value_of(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

Result<RealDevices, std::string> from_file(std::string_view path) {
  if (path.empty()) {
    return RealDevices();
  }
  const std::string name(path);
  const auto content = read_config_file(name);
  // What can't be read is told by whoever wants the devices of it.
  return content ? parse_real_devices(*content, name) : RealDevices();
}

}  // namespace

Result<RealDevices, std::string> load_real_devices(const Environment& environment) {
  auto real = from_file(value_of(environment, env::config));
  if (!real) {
    return real;
  }
  if (const std::string wanted(value_of(environment, env::real_devices)); !wanted.empty()) {
    if (wanted != "1" && wanted != "0") {
      return std::unexpected(
          fmt::format("{} is \"{}\"; it may be 1 or 0", env::real_devices, wanted));
    }
    real->wanted = wanted == "1";
  }
  if (const std::string_view library = value_of(environment, env::real_libibverbs);
      !library.empty()) {
    real->library = library;
  }
  // A name without a folder would be looked up where the loader finds us.
  if (!real->library.empty() && !real->library.starts_with('/')) {
    return std::unexpected(
        fmt::format("the library of the real devices ({}) is \"{}\"; give its "
                    "whole path, from / on",
                    env::real_libibverbs, real->library));
  }
  return real;
}

std::vector<std::string> real_library_candidates(const RealDevices& real) {
  if (!real.library.empty()) {
    return {real.library};
  }
  std::vector<std::string> files;
  files.reserve(default_folders.size());
  for (const std::string_view folder : default_folders) {
    files.push_back(fmt::format("{}/{}", folder, library_name));
  }
  return files;
}

std::vector<std::string> kernel_device_names() {
  std::vector<std::string> names;
  std::error_code failure;
  std::filesystem::directory_iterator entry(sysfs_class_directory, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace verbena::ports
