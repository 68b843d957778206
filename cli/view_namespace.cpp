#include "cli/view_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "ports/path_view.h"

namespace verbena::cli {

namespace {

namespace fs = std::filesystem;

using Done = Result<void, std::string>;

Done failed(const std::string& what) {
  return std::unexpected(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

Done mount_at(const char* source, const std::string& target, const char* type, unsigned long flags,
              const std::string& data = {}) {
  if (::mount(source, target.c_str(), type, flags, data.empty() ? nullptr : data.c_str()) != 0) {
    return failed("can't mount " + target);
  }
  return {};
}

Done write_file(const char* name, const std::string& text) {
  std::ofstream file(name);
  file << text;
  file.flush();
  return file ? Done{} : failed(std::string("can't write to ") + name);
}

/// Inside, the user and the group have the numbers that they have outside; nobody else is there.
Done enter_namespaces() {
  const unsigned user = ::geteuid();
  const unsigned group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    auto error = failed("this system permits no user namespaces to you");
    error.error() += "; --view preload does without";
    return error;
  }
  auto done = write_file("/proc/self/setgroups", "deny");
  done = done ? write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) : done;
  done = done ? write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group)) : done;
  // What we mount is nobody else's business.
  return done ? mount_at(nullptr, "/", nullptr, MS_REC | MS_PRIVATE) : done;
}

bool is_there(std::string_view directory) {
  std::error_code failure;
  return fs::is_directory(directory, failure);
}

/// Where the kernel has RDMA devices of its own, ours take their place.
Done cover(const std::string& root, std::string_view directory) {
  const std::string ours = root + std::string(directory);
  return mount_at(ours.c_str(), std::string(directory), nullptr, MS_BIND | MS_REC);
}

/// Nobody can make a directory in sysfs; but one tree can be laid over another.
Done add_to_sysfs(const std::string& root) {
  if (is_there(ports::sysfs_class_directory) && is_there(ports::uverbs_class_directory)) {
    const Done done = cover(root, ports::sysfs_class_directory);
    return done ? cover(root, ports::uverbs_class_directory) : done;
  }
  const std::string class_directory = "/sys/class";
  return mount_at("overlay", class_directory, "overlay", MS_RDONLY,
                  fmt::format("lowerdir={}{}:{}", root, class_directory, class_directory));
}

/// Brings one entry of the old /dev into the new one.
Done keep_device(const fs::directory_entry& entry) {
  const std::string target = fmt::format("/dev/{}", entry.path().filename().string());
  if (entry.is_symlink()) {
    fs::copy_symlink(entry.path(), target);
    return {};
  }
  if (entry.is_directory()) {
    fs::create_directory(target);
  } else {
    std::ofstream(target).close();
  }
  return mount_at(entry.path().c_str(), target, nullptr, MS_BIND | MS_REC);
}

/// Device files work only where they were mounted outside, so each is brought over from the old
/// /dev, which is out of sight then but for its descriptor.
Done add_to_dev(const std::string& root) {
  if (is_there(ports::uverbs_device_directory)) {
    return cover(root, ports::uverbs_device_directory);
  }
  const int fd = ::open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return failed("can't open /dev");
  }
  if (auto done = mount_at("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=0755"); !done) {
    return done;
  }
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/self/fd/{}/", fd))) {
    if (const Done kept = keep_device(entry); !kept) {
      return kept;
    }
  }
  fs::create_directory_symlink(root + std::string(ports::uverbs_device_directory),
                               ports::uverbs_device_directory);
  ::close(fd);
  return {};
}

}  // namespace

Result<void, std::string> enter_view_namespace(const std::string& root) {
  try {
    // A current directory below what is covered would stay the old one.
    const fs::path here = fs::current_path();
    auto done = enter_namespaces();
    done = done ? add_to_sysfs(root) : done;
    done = done ? add_to_dev(root) : done;
    if (done) {
      fs::current_path(here);
    }
    return done;
  } catch (const std::exception& error) {
    return std::unexpected(std::string(error.what()));
  }
}

}  // namespace verbena::cli
