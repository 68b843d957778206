// Files below /sys/class/infiniband that programs read through the library. No kernel makes them
// for our devices, so their contents are made here; everything else is read from the file system.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ports/device_config.h"
#include "proto/roce/gid.h"
#include "verbs/device.h"

namespace verbena::verbs {
namespace {

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xFFFF,
                     guid >> 16 & 0xFFFF, guid & 0xFFFF);
}

/// The number of the row of the GID table that a name such as "ports/1/gids/3" ends in.
std::optional<std::size_t> gid_row(std::string_view name, std::string_view directory) {
  if (!name.starts_with(directory)) {
    return std::nullopt;
  }
  name.remove_prefix(directory.size());
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = error == std::errc{} && end == name.data() + name.size();
  return whole ? std::optional(index) : std::nullopt;
}

/// The files of a device's directory whose text depends on nothing or on little, as the kernel
/// words them.
struct DeviceFile {
  std::string_view name;
  std::string (*text)(const ports::DeviceConfig& config);
};

constexpr DeviceFile device_files[] = {
    {"node_type", [](const ports::DeviceConfig&) -> std::string { return "1: CA"; }},
    {"node_guid", [](const ports::DeviceConfig& config) { return guid_text(config.guid); }},
    {"sys_image_guid", [](const ports::DeviceConfig& config) { return guid_text(config.guid); }},
    {"fw_ver",
     [](const ports::DeviceConfig& config) { return std::string(config.profile.fw_ver); }},
    {"board_id",
     [](const ports::DeviceConfig& config) { return std::string(config.profile.name); }},
    {"hca_type",
     [](const ports::DeviceConfig& config) { return std::string(config.profile.name); }},
    {"ports/1/state", [](const ports::DeviceConfig&) -> std::string { return "4: ACTIVE"; }},
    {"ports/1/phys_state", [](const ports::DeviceConfig&) -> std::string { return "5: LinkUp"; }},
    {"ports/1/rate",
     [](const ports::DeviceConfig&) -> std::string { return "100 Gb/sec (4X EDR)"; }},
    {"ports/1/link_layer", [](const ports::DeviceConfig&) -> std::string { return "Ethernet"; }},
    {"ports/1/pkeys/0", [](const ports::DeviceConfig&) -> std::string { return "0xffff"; }},
};

std::optional<std::string> device_file(const ports::DeviceConfig& config, std::string_view name) {
  for (const DeviceFile& file : device_files) {
    if (file.name == name) {
      return file.text(config);
    }
  }
  const std::vector<nic::GidEntry> gids = ports::nic_config(config).gids;
  if (const auto row = gid_row(name, "ports/1/gids/")) {
    if (*row < gids.size()) {
      return roce::to_long_text(gids[*row].gid);
    }
    return *row < config.profile.gid_table_rows ? std::optional(roce::to_long_text(Gid{}))
                                                : std::nullopt;
  }
  // An empty row has no type: the kernel refuses to read it.
  if (const auto row = gid_row(name, "ports/1/gid_attrs/types/"); row && *row < gids.size()) {
    return gids[*row].type == nic::GidEntry::Type::roce_v2 ? "RoCE v2" : "IB/RoCE v1";
  }
  return std::nullopt;
}

/// The text of `path` if it is below the directory of one of our devices; nullopt if there is no
/// such file. `ours` tells whether the path is ours to answer.
std::optional<std::string> our_file(std::string_view path, bool& ours) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  std::optional<std::string> text;
  ours = false;
  for (int i = 0; i < count && !ours; ++i) {
    const std::string device_directory = list[i]->ibdev_path + std::string("/");
    if (path.starts_with(device_directory)) {
      ours = true;
      text = device_file(Device::of(list[i]).config, path.substr(device_directory.size()));
    } else if (path == list[i]->dev_path + std::string("/ibdev")) {
      ours = true;
      text = list[i]->name;
    }
  }
  ibv_free_device_list(list);
  return text;
}

int read_file(const std::string& path, char* buffer, std::size_t size) {
  const auto fd =
      static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd < 0) {
    return -1;
  }
  const auto length = ::syscall(SYS_read, fd, buffer, size);
  const int error = errno;
  ::syscall(SYS_close, fd);
  errno = error;
  return static_cast<int>(length);
}

/// rdma-core's rule: a file's last line feed becomes the final zero, which is added where there is
/// room, too.
int terminate(char* buffer, std::size_t size, int length) {
  if (length > 0 && buffer[length - 1] == '\n') {
    buffer[--length] = '\0';
  } else if (static_cast<std::size_t>(length) < size) {
    buffer[length] = '\0';
  } else {
    errno = EOVERFLOW;
    return -1;
  }
  return length;
}

int read_sysfs_file(const char* directory, const char* file, char* buffer, std::size_t size) {
  const std::string path = std::string(directory) + "/" + file;
  bool ours = false;
  const auto text = our_file(path, ours);
  if (!ours) {
    const int length = read_file(path, buffer, size);
    return length < 0 ? -1 : terminate(buffer, size, length);
  }
  if (!text) {
    errno = ENOENT;
    return -1;
  }
  const std::size_t length = std::min(text->size(), size);
  std::memcpy(buffer, text->data(), length);
  return terminate(buffer, size, static_cast<int>(length));
}

}  // namespace
}  // namespace verbena::verbs

VERBENA_EXPORT const char* ibv_get_sysfs_path() {
  const char* path = secure_getenv("SYSFS_PATH");
  return path == nullptr ? "/sys" : path;
}

// Returns the length without the final zero, or -1.
VERBENA_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                       std::size_t size) {
  try {
    return verbena::verbs::read_sysfs_file(directory, file, buffer, size);
  } catch (const std::exception&) {
    errno = ENOMEM;
    return -1;
  }
}
