#include "cli/lab_places.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/bytes.h"
#include "base/crc.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* stamp_name = "stamp";
constexpr const char* accelerator_name = "accelerator";
constexpr const char* kernel_name = "release";
constexpr const char* build_script = "build_guest.sh";

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// Of what is in the guest's files for good; the rest it gets anew with each boot.
std::string current_stamp(const LabPlaces& places) {
  const std::string text =
      read(places.tools / build_script) + read(places.tools / "guest/first_init");
  const std::uint32_t crc =
      crc32(0, ByteView(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  return fmt::format("{:08x}", crc);
}

/// A file that tells that a package is there, so that no package manager must be asked.
struct Package {
  const char* name;
  std::vector<const char*> files;
};

bool is_headers(const fs::path& folder) {
  const std::string name = folder.filename();
  return name.starts_with("linux-headers-6.1.") && name.ends_with("-amd64");
}

bool has_kernel_headers() {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator("/usr/src", failure)) {
    if (is_headers(entry.path())) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<LabPlaces, std::string> lab_places() {
  const auto value = [](const char* variable) {
    const char* text = std::getenv(variable);
    return std::string(text == nullptr ? "" : text);
  };
  LabPlaces places;
  if (const std::string lab = value("VERBENA_LAB"); !lab.empty()) {
    places.cache = fs::absolute(lab);
  } else if (const std::string cache = value("XDG_CACHE_HOME"); cache.starts_with('/')) {
    places.cache = fs::path(cache) / "verbena/lab";
  } else if (const std::string home = value("HOME"); home.starts_with('/')) {
    places.cache = fs::path(home) / ".cache/verbena/lab";
  } else {
    return std::unexpected("there is no HOME to keep the guest in; VERBENA_LAB names a folder");
  }
  std::error_code failure;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", failure).parent_path().parent_path();
  places.tools = prefix / "share/verbena/lab";
  if (!fs::exists(places.tools / build_script, failure)) {
    return std::unexpected(fmt::format("{} is missing; build or install all of Verbena",
                                       (places.tools / build_script).string()));
  }
  return places;
}

LabState lab_state(const LabPlaces& places) {
  std::error_code failure;
  if (!fs::exists(places.guest() / stamp_name, failure)) {
    return LabState::missing;
  }
  return first_line(places.guest() / stamp_name) == current_stamp(places) ? LabState::ready
                                                                          : LabState::outdated;
}

void stamp_guest(const LabPlaces& places, const fs::path& guest) {
  std::ofstream(guest / stamp_name) << current_stamp(places) << '\n';
}

std::string guest_kernel(const LabPlaces& places) {
  return first_line(places.guest() / kernel_name);
}

std::vector<std::string> missing_lab_packages() {
  const std::array<Package, 7> packages{{
      {"qemu-system-x86", {"/usr/bin/qemu-system-x86_64"}},
      {"mmdebstrap", {"/usr/bin/mmdebstrap"}},
      {"kmod", {"/sbin/modprobe", "/usr/sbin/modprobe"}},
      {"gcc", {"/usr/bin/gcc"}},
      {"make", {"/usr/bin/make"}},
      {"binutils", {"/usr/bin/strip"}},
      {"xz-utils", {"/usr/bin/xz"}},
  }};
  std::vector<std::string> missing;
  std::error_code failure;
  for (const Package& package : packages) {
    bool found = false;
    for (const char* file : package.files) {
      found = found || fs::exists(file, failure);
    }
    if (!found) {
      missing.emplace_back(package.name);
    }
  }
  if (!has_kernel_headers()) {
    missing.emplace_back("linux-headers-amd64");
  }
  return missing;
}

std::optional<std::string> remembered_accelerator(const LabPlaces& places) {
  const std::string name = first_line(places.cache / accelerator_name);
  return name == "kvm" || name == "tcg" ? std::optional(name) : std::nullopt;
}

void remember_accelerator(const LabPlaces& places, const std::string& accelerator) {
  std::ofstream(places.cache / accelerator_name) << accelerator << '\n';
}

}  // namespace verbena::cli
