// What `verbena run` and the library that it preloads (verbs/path_view.cpp) agree on. Includes
// nothing of ours: the library is a part of every program that runs with a path view.
#pragma once

#include <array>
#include <string_view>

namespace verbena::ports {

/// The root of the tree that has our devices' files: below it, paths are those of the system.
inline constexpr const char* view_root_variable = "VERBENA_VIEW_ROOT";

/// Where programs look for devices, for what the kernel would do for them, and for the file that
/// they would open to talk to it.
inline constexpr std::string_view sysfs_class_directory = "/sys/class/infiniband";
inline constexpr std::string_view uverbs_class_directory = "/sys/class/infiniband_verbs";
inline constexpr std::string_view uverbs_device_directory = "/dev/infiniband";

/// What is in the tree. Everything else is the system's.
inline constexpr std::array viewed_directories = {sysfs_class_directory, uverbs_class_directory,
                                                  uverbs_device_directory};

}  // namespace verbena::ports
