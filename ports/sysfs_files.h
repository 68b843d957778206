// The files that a kernel would have in /sys/class/infiniband/NAME for one of our devices. Nobody
// makes them for us, so programs read them through the library (ibv_read_sysfs_file()) or in the
// tree that `verbena run` makes for those that open files themselves (cli/path_view.h).
//
// What changes while a device is used isn't here: counters are in the stats file (stats_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ports/device_config.h"

namespace verbena::ports {

struct SysfsFile {
  /// Relative to the device's directory; a directory without files ends in '/'.
  std::string path;
  /// Without the final line feed.
  std::string text;
};

[[nodiscard]] std::vector<SysfsFile> sysfs_files(const DeviceConfig& config);

/// "0200:00ff:fe12:3456", as a kernel and ibv_devinfo write a GUID.
[[nodiscard]] std::string guid_text(std::uint64_t guid);

/// The name of the character device of the device with this index: "uverbs0".
[[nodiscard]] std::string uverbs_name(int index);

}  // namespace verbena::ports
