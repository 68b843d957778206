#include "cli/libraries.h"

#include <filesystem>
#include <system_error>

namespace verbena::cli {

namespace fs = std::filesystem;

std::optional<std::string> library_directory() {
  std::error_code failure;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failure);
  const fs::path prefix = executable.parent_path().parent_path();
  for (const char* place : {"lib/verbena", "lib"}) {
    const fs::path directory = prefix / place;
    if (fs::exists(directory / library_name, failure)) {
      return directory.string();
    }
  }
  return std::nullopt;
}

}  // namespace verbena::cli
