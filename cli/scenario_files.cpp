#include "cli/scenario_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace verbena::cli {

Result<std::vector<std::string>, std::string> scenario_files(
    const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!std::filesystem::is_directory(argument, error)) {
      files.push_back(argument);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(argument, error)) {
      if (entry.path().extension() == ".toml") {
        found.push_back(entry.path().string());
      }
    }
    if (error) {
      return std::unexpected(fmt::format("{}: {}", argument, error.message()));
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Result<std::string, std::string> read_file(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return text;
}

Result<std::vector<sim::Scenario>, std::string> read_scenarios(const std::string& path) {
  const auto text = read_file(path);
  if (!text) {
    return std::unexpected(text.error());
  }
  return sim::load_scenarios(*text, path);
}

}  // namespace verbena::cli
