#include "cli/path_view.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/view_namespace.h"
#include "cli/view_tree.h"
#include "ports/path_view.h"

namespace verbena::cli {

namespace {

constexpr const char* preload_library = "/libverbena_view.so";
constexpr const char* preload_variable = "LD_PRELOAD";

constexpr std::array<std::pair<std::string_view, PathView>, 4> names = {{
    {"auto", PathView::automatic},
    {"userns", PathView::userns},
    {"preload", PathView::preload},
    {"none", PathView::none},
}};

/// A program that is linked with AddressSanitizer's library refuses to start if another one comes
/// before it, since that might replace malloc(). Ours doesn't. What the user says of it prevails.
void permit_before_sanitizer() {
  constexpr const char* variable = "ASAN_OPTIONS";
  const char* const before = std::getenv(variable);
  std::string options = "verify_asan_link_order=0";
  if (before != nullptr && *before != '\0') {
    options += std::string(":") + before;
  }
  ::setenv(variable, options.c_str(), 1);
}

/// First in the list, so that the program's own preloaded libraries see plain paths.
Result<void, std::string> preload(const std::string& root, const std::string& libraries) {
  const std::string library = libraries + preload_library;
  std::error_code failure;
  if (!std::filesystem::exists(library, failure)) {
    return std::unexpected(library + " isn't there");
  }
  const char* const before = std::getenv(preload_variable);
  std::string list = before == nullptr ? "" : before;
  if (list.find(library) == std::string::npos) {
    list = list.empty() ? library : library + ":" + list;
  }
  ::setenv(preload_variable, list.c_str(), 1);
  permit_before_sanitizer();
  ::setenv(ports::view_root_variable, root.c_str(), 1);
  return {};
}

}  // namespace

std::optional<PathView> path_view_of(std::string_view name) {
  const auto* const found =
      std::ranges::find(names, name, &std::pair<std::string_view, PathView>::first);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

Result<void, std::string> show_paths(PathView view, const std::vector<ports::DeviceConfig>& devices,
                                     const std::string& libraries) {
  if (view == PathView::none) {
    return {};
  }
  const auto root = make_view_tree(devices);
  if (!root) {
    return std::unexpected(root.error());
  }
  return view == PathView::userns ? enter_view_namespace(*root) : preload(*root, libraries);
}

}  // namespace verbena::cli
