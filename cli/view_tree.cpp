#include "cli/view_tree.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "base/fnv.h"
#include "ports/path_view.h"
#include "ports/sysfs_files.h"

namespace verbena::cli {

namespace {

namespace fs = std::filesystem;

/// Of the interface between the kernel and libibverbs, which nobody uses here: the current one.
constexpr const char* uverbs_abi_version = "6";
/// A character device that anybody may open to read and write, which is all that programs look at.
constexpr const char* character_device = "/dev/null";

/// What is to be made: files with their text, and symbolic links.
struct Tree {
  /// By path below the root. One that ends in '/' is an empty directory.
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> links;
};

void add_device(Tree& tree, const ports::DeviceConfig& config, int index) {
  const std::string uverbs = ports::uverbs_name(index);
  const std::string device = fmt::format("{}/{}", ports::sysfs_class_directory, config.name);
  for (const ports::SysfsFile& file : ports::sysfs_files(config)) {
    tree.files.emplace(device + "/" + file.path, file.text);
  }
  const std::string verbs = fmt::format("{}/{}", ports::uverbs_class_directory, uverbs);
  tree.files.emplace(verbs + "/ibdev", config.name);
  tree.files.emplace(verbs + "/abi_version", "1");
  tree.links.emplace(verbs + "/device", fmt::format("../../infiniband/{}/device", config.name));
  tree.files.emplace(device + "/device/infiniband_verbs/" + uverbs + "/", "");
  tree.links.emplace(fmt::format("{}/{}", ports::uverbs_device_directory, uverbs),
                     character_device);
}

Tree tree_of(const std::vector<ports::DeviceConfig>& devices) {
  Tree tree;
  tree.files.emplace(fmt::format("{}/abi_version", ports::uverbs_class_directory),
                     uverbs_abi_version);
  int index = 0;
  for (const ports::DeviceConfig& config : devices) {
    add_device(tree, config, index++);
  }
  return tree;
}

std::uint64_t hash_of(const Tree& tree) {
  Fnv1a hash;
  for (const auto* entries : {&tree.files, &tree.links}) {
    for (const auto& [path, text] : *entries) {
      for (const std::string* part : {&path, &text}) {
        // With the zero at its end, by which two parts differ from one.
        hash.add({part->c_str(), part->size() + 1});
      }
    }
  }
  return hash.value();
}

/// Files of the same text are one file: empty rows of a GID table take no room.
void write(const Tree& tree, const std::string& root) {
  std::map<std::string, std::string> written;
  for (const auto& [path, text] : tree.files) {
    const std::string name = root + path;
    if (name.ends_with('/')) {
      fs::create_directories(name);
      continue;
    }
    fs::create_directories(fs::path(name).parent_path());
    if (const auto [same, is_new] = written.try_emplace(text, name); !is_new) {
      fs::create_hard_link(same->second, name);
      continue;
    }
    std::ofstream file(name);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    file << text << '\n';
    file.close();
  }
  for (const auto& [path, target] : tree.links) {
    fs::create_directories(fs::path(root + path).parent_path());
    fs::create_symlink(target, root + path);
  }
}

/// The directory of this user's, which nobody else may write to.
Result<std::string, std::string> private_directory() {
  std::string directory = fmt::format("/dev/shm/verbena-{}", ::geteuid());
  constexpr unsigned private_mode = 0700;
  constexpr unsigned writable_by_others = 0022;
  if (::mkdir(directory.c_str(), private_mode) != 0 && errno != EEXIST) {
    return std::unexpected(
        fmt::format("can't create {}: {}", directory, std::generic_category().message(errno)));
  }
  struct stat status{};
  if (::lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid() || (status.st_mode & writable_by_others) != 0) {
    return std::unexpected(directory + " isn't a directory that only you may write to");
  }
  return directory;
}

}  // namespace

Result<std::string, std::string> make_view_tree(const std::vector<ports::DeviceConfig>& devices) {
  const auto directory = private_directory();
  if (!directory) {
    return directory;
  }
  const Tree tree = tree_of(devices);
  std::string root = fmt::format("{}/view-{:016x}", *directory, hash_of(tree));
  const std::string unfinished = fmt::format("{}.{}", root, ::getpid());
  std::error_code failure;
  if (fs::exists(root, failure)) {
    return root;
  }
  try {
    write(tree, unfinished);
    fs::rename(unfinished, root);
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    fs::remove_all(unfinished, failure);
    // Another process may have been faster.
    if (!fs::exists(root, failure)) {
      return std::unexpected("can't make " + root + ": " + reason);
    }
  }
  return root;
}

}  // namespace verbena::cli
