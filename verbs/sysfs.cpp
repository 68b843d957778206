// Files below /sys/class/infiniband that programs read through the library. No kernel makes them
// for our devices, so their contents are made here; everything else is read from the file system.

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "ports/sysfs_files.h"
#include "verbs/device.h"

namespace verbena::verbs {
namespace {

std::optional<std::string> device_file(const ports::DeviceConfig& config, std::string_view name) {
  const auto files = ports::sysfs_files(config);
  const auto file = std::ranges::find(files, name, &ports::SysfsFile::path);
  return file == files.end() ? std::nullopt : std::optional(file->text);
}

/// The text of `path` if it is below the directory of one of our devices; nullopt if there is no
/// such file. `ours` tells whether the path is ours to answer.
std::optional<std::string> our_file(std::string_view path, bool& ours) {
  const Device* const device = find_device([&](const Device& candidate) {
    return path.starts_with(candidate.device.ibdev_path + std::string("/"));
  });
  ours = device != nullptr;
  if (ours) {
    const std::size_t directory_length = std::strlen(device->device.ibdev_path) + 1;
    return device_file(device->config, path.substr(directory_length));
  }
  const Device* const linked = find_device([&](const Device& candidate) {
    return path == candidate.device.dev_path + std::string("/ibdev");
  });
  ours = linked != nullptr;
  return ours ? std::optional<std::string>(linked->device.name) : std::nullopt;
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
  return terminate(buffer, size, static_cast<int>(text->copy(buffer, size)));
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
