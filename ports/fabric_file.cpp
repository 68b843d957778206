#include "ports/fabric_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

namespace verbena::ports {

namespace {

constexpr unsigned private_file_mode = 0600;
constexpr unsigned private_directory_mode = 0700;
/// Everybody but the owner.
constexpr unsigned others_mask = 0077;

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::optional<std::string> reason_against_directory(const std::string& directory) {
  struct stat status{};
  int result = sys::lstat(directory, status);
  if (result == -ENOENT) {
    result = sys::mkdir(directory, private_directory_mode);
    if (result == 0 || result == -EEXIST) {
      result = sys::lstat(directory, status);
    }
  }
  constexpr std::string_view remedy = "set VERBENA_FABRIC to a path in a directory of your own";
  if (result < 0) {
    return fmt::format("can't use {} for the fabric: {}; {}", directory, sys::error_text(-result),
                       remedy);
  }
  if (!S_ISDIR(status.st_mode)) {
    return fmt::format("{} is not a directory, so no fabric can be there; {}", directory, remedy);
  }
  if (status.st_uid != sys::effective_user_id()) {
    return fmt::format("the fabric's directory {} belongs to user {}, not to user {}; {}",
                       directory, status.st_uid, sys::effective_user_id(), remedy);
  }
  if ((status.st_mode & others_mask) != 0) {
    return fmt::format(
        "the fabric's directory {} has mode {:04o}, so other users could reach your programs' "
        "memory; chmod 700 {}, or {}",
        directory, status.st_mode & 07777U, directory, remedy);
  }
  return std::nullopt;
}

std::optional<std::string> reason_against_file(const std::string& path, const struct stat& status) {
  constexpr std::string_view remedy = "set VERBENA_FABRIC to another name";
  if (!S_ISREG(status.st_mode)) {
    return fmt::format("{} is not a file, so it is no fabric; remove it or {}", path, remedy);
  }
  if (status.st_uid != sys::effective_user_id()) {
    return fmt::format("the fabric {} belongs to user {}, not to user {}; {}", path, status.st_uid,
                       sys::effective_user_id(), remedy);
  }
  if ((status.st_mode & others_mask) != 0) {
    return fmt::format(
        "the fabric {} has mode {:04o}, so other users could change it; remove it or {}", path,
        status.st_mode & 07777U, remedy);
  }
  return std::nullopt;
}

std::optional<std::string> reason_against_content(const std::string& path, MutableBytes bytes) {
  const auto damaged = [&] {
    return fmt::format(
        "{} is not a fabric; remove it if you don't need it, or set VERBENA_FABRIC to another name",
        path);
  };
  if (bytes.size() < sizeof(FabricHeader)) {
    return damaged();
  }
  const auto& header = reinterpret_cast<const FabricFile*>(bytes.data())->header;
  if (header.magic != fabric_magic) {
    return damaged();
  }
  if (header.version != fabric_version) {
    return fmt::format(
        "the fabric {} has version {}, this Verbena speaks version {}; end the programs that use "
        "it and remove it, or set VERBENA_FABRIC to another name",
        path, header.version, fabric_version);
  }
  if (header.file_bytes != sizeof(FabricFile) || bytes.size() != sizeof(FabricFile) ||
      header.slots != slots_max || header.qpns_per_block != block_qpns) {
    return damaged();
  }
  return std::nullopt;
}

std::string creation_error(const std::string& path, int error) {
  if (error == EOPNOTSUPP || error == EISDIR) {
    return fmt::format(
        "the file system of {} can't make unnamed files; set VERBENA_FABRIC to a path elsewhere, "
        "for example in /dev/shm",
        path);
  }
  if (error == ENOSPC || error == EFBIG || error == EDQUOT) {
    return fmt::format(
        "no space for the fabric {} ({} KiB): {}; free some (df -h {}) or set VERBENA_FABRIC to a "
        "path on another file system",
        path, sizeof(FabricFile) / 1024, sys::error_text(error), directory_of(path));
  }
  return fmt::format("can't make the fabric {}: {}", path, sys::error_text(error));
}

/// Makes the fabric under a name that appears only when the file is complete. If another process
/// was faster, its fabric is as good: the caller opens it.
std::optional<std::string> create_fabric(const std::string& path, AllocateFunction allocate) {
  auto fd = sys::open(directory_of(path), O_TMPFILE | O_RDWR, private_file_mode);
  if (!fd) {
    return creation_error(path, -fd.error());
  }
  if (const int result = allocate(fd->get(), sizeof(FabricFile)); result < 0) {
    return creation_error(path, -result);
  }
  auto memory = sys::SharedMemory::map(fd->get(), sizeof(FabricFile));
  if (!memory) {
    return creation_error(path, -memory.error());
  }
  // The kernel's zeros are the right start for all the rest.
  auto& header = reinterpret_cast<FabricFile*>(memory->bytes().data())->header;
  header.magic = fabric_magic;
  header.version = fabric_version;
  header.file_bytes = sizeof(FabricFile);
  header.slots = slots_max;
  header.qpns_per_block = block_qpns;
  if (const int result = sys::link_unnamed(fd->get(), path); result < 0 && result != -EEXIST) {
    return creation_error(path, -result);
  }
  return std::nullopt;
}

/// What a file in the fabric's directory is, by its name.
struct FabricFileName {
  /// What goes with its slot, or a ring.
  enum class Kind : std::uint8_t { of_slot, ring } kind;
  /// Its slot, or the producer of the ring.
  std::uint32_t slot = 0;
  std::uint32_t consumer = 0;
  std::uint64_t serial = 0;
};

/// "<fabric>.<slot>.bell", "<fabric>.<slot>.stats" or
/// "<fabric>.<producer>.<consumer>.<serial>.ring"; nullopt for others.
std::optional<FabricFileName> parse_name(std::string_view name, std::string_view fabric_name) {
  if (!name.starts_with(fabric_name)) {
    return std::nullopt;
  }
  name.remove_prefix(fabric_name.size());
  std::array<std::uint64_t, 3> numbers{};
  std::size_t count = 0;
  for (; name.starts_with('.') && count < numbers.size(); ++count) {
    const char* begin = name.data() + 1;
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), numbers[count]);
    if (error != std::errc{}) {
      break;
    }
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  }
  const bool slots_valid = numbers[0] < slots_max && (count < 2 || numbers[1] < slots_max);
  if (!slots_valid) {
    return std::nullopt;
  }
  const auto slot = static_cast<std::uint32_t>(numbers[0]);
  if (count == 1 && (name == ".bell" || name == ".stats")) {
    return FabricFileName{.kind = FabricFileName::Kind::of_slot, .slot = slot};
  }
  if (count == 3 && name == ".ring") {
    return FabricFileName{.kind = FabricFileName::Kind::ring,
                          .slot = slot,
                          .consumer = static_cast<std::uint32_t>(numbers[1]),
                          .serial = numbers[2]};
  }
  return std::nullopt;
}

/// Whether a file has lost its purpose, now that `cleared` has no owner.
bool is_left_over(const FabricFile& file, const FabricFileName& name, std::uint32_t cleared) {
  if (name.kind == FabricFileName::Kind::of_slot) {
    return name.slot == cleared;
  }
  if (name.consumer == cleared) {
    return true;
  }
  if (name.slot != cleared) {
    return false;
  }
  const bool awaited = file.slots[name.consumer].in_use.load() != 0 &&
                       file.announced[name.consumer][name.slot].load() == name.serial;
  return !awaited;
}

void remove_left_over_files(const FabricFile& file, const std::string& path, std::uint32_t slot) {
  const std::string directory = directory_of(path);
  const std::string fabric_name = file_name_of(path);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), &closedir);
  if (!entries) {
    return;
  }
  std::vector<std::string> left_over;
  while (const dirent* entry = readdir(entries.get())) {
    const auto name = parse_name(entry->d_name, fabric_name);
    if (name && is_left_over(file, *name, slot)) {
      left_over.emplace_back(entry->d_name);
    }
  }
  for (const std::string& name : left_over) {
    static_cast<void>(sys::unlink(fmt::format("{}/{}", directory, name)));
  }
}

/// False if it was in vain: whoever holds it may have been stopped, and nobody waits for that at
/// the end of a program.
bool wait_for_leaving_lock(int fd) {
  constexpr Duration pause = std::chrono::milliseconds(1);
  constexpr int attempts_max = 1000;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    if (sys::try_lock_range(fd, leaving_lock, 1) == 0) {
      return true;
    }
    static_cast<void>(sys::poll(nullptr, 0, pause));
  }
  return false;
}

/// Locks all slots but `own`; false if somebody else holds one.
bool lock_others(int fd, std::uint32_t own_slot) {
  const std::int64_t own = slot_lock_base + own_slot;
  const std::int64_t end = slot_lock_base + slots_max;
  // A length of 0 would mean "to the end of the file".
  return (own_slot == 0 || sys::try_lock_range(fd, slot_lock_base, own_slot) == 0) &&
         (own + 1 == end || sys::try_lock_range(fd, own + 1, end - own - 1) == 0);
}

FabricFile& fabric_file_of(const sys::SharedMemory& memory) {
  return *reinterpret_cast<FabricFile*>(memory.bytes().data());
}

}  // namespace

std::string bell_path(const std::string& fabric_path, std::uint32_t slot) {
  return fmt::format("{}.{}.bell", fabric_path, slot);
}

std::string ring_path(const std::string& fabric_path, std::uint32_t producer,
                      std::uint32_t consumer, std::uint64_t serial) {
  return fmt::format("{}.{}.{}.{}.ring", fabric_path, producer, consumer, serial);
}

FabricFile& OpenFabric::file() const { return fabric_file_of(memory); }

Result<std::optional<OpenFabric>, std::string> open_fabric(const std::string& path) {
  auto fd = sys::open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (!fd && fd.error() == -ENOENT) {
    return std::nullopt;
  }
  if (!fd) {
    return std::unexpected(
        fmt::format("can't open the fabric {}: {}; set VERBENA_FABRIC to another name", path,
                    sys::error_text(-fd.error())));
  }
  struct stat status{};
  if (const int result = sys::fstat(fd->get(), status); result < 0) {
    return std::unexpected(
        fmt::format("can't examine the fabric {}: {}", path, sys::error_text(-result)));
  }
  if (auto reason = reason_against_file(path, status)) {
    return std::unexpected(std::move(*reason));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return std::unexpected(*reason_against_content(path, {}));
  }
  auto memory = sys::SharedMemory::map(fd->get(), std::min(size, sizeof(FabricFile)));
  if (!memory) {
    return std::unexpected(
        fmt::format("can't map the fabric {}: {}", path, sys::error_text(-memory.error())));
  }
  if (auto reason = reason_against_content(path, memory->bytes())) {
    return std::unexpected(std::move(*reason));
  }
  return OpenFabric{.fd = std::move(*fd), .memory = std::move(*memory), .inode = status.st_ino};
}

Result<OpenFabric, std::string> open_or_create_fabric(const std::string& path,
                                                      AllocateFunction allocate) {
  if (auto reason = reason_against_directory(directory_of(path))) {
    return std::unexpected(std::move(*reason));
  }
  // Whoever leaves last removes the file, maybe right after we found or made it.
  constexpr int attempts_max = 100;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto opened = open_fabric(path);
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    if (*opened) {
      return std::move(**opened);
    }
    if (auto reason = create_fabric(path, allocate)) {
      return std::unexpected(std::move(*reason));
    }
  }
  return std::unexpected(
      fmt::format("the fabric {} vanishes as often as it is made; who removes it?", path));
}

std::optional<sys::Fd> reopen_fabric(const std::string& path, ino_t inode) {
  auto fd = sys::open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (!fd || sys::fstat(fd->get(), status) < 0 || status.st_ino != inode) {
    return std::nullopt;
  }
  return std::move(*fd);
}

std::optional<std::uint32_t> lock_free_slot(OpenFabric& fabric, const std::string& path) {
  FabricFile& file = fabric.file();
  std::optional<std::uint32_t> taken;
  for (std::uint32_t slot = 0; slot < slots_max; ++slot) {
    const bool in_use = file.slots[slot].in_use.load() != 0;
    if (taken && !in_use) {
      continue;
    }
    if (sys::try_lock_range(fabric.fd.get(), slot_lock_base + slot, 1) < 0) {
      continue;
    }
    // Whatever `in_use` says, nobody owns this slot now.
    clear_slot(file, path, slot);
    if (!taken) {
      taken = slot;
    } else {
      static_cast<void>(sys::unlock_range(fabric.fd.get(), slot_lock_base + slot, 1));
    }
  }
  return taken;
}

void clear_slot(FabricFile& file, const std::string& path, std::uint32_t slot) {
  for (auto& owner : file.block_owners) {
    std::uint64_t life = owner.load(std::memory_order_relaxed);
    if (slot_of(SlotLife{life}) == slot) {
      owner.compare_exchange_strong(life, 0);
    }
  }
  for (auto& serial : file.announced[slot]) {
    serial.store(0);
  }
  remove_left_over_files(file, path, slot);
  file.memberships[slot].count.store(0);
  file.header.membership_changes.fetch_add(1);
  for (ServiceEntry& entry : file.services) {
    std::uint64_t life = entry.owner.load(std::memory_order_relaxed);
    if (slot_of(SlotLife{life}) == slot) {
      entry.owner.compare_exchange_strong(life, 0);
    }
  }
  file.slots[slot].pid.store(0);
  file.slots[slot].in_use.store(0);
}

void leave_fabric(sys::SharedMemory memory, const std::string& path, ino_t inode,
                  std::uint32_t own_slot) {
  FabricFile& file = fabric_file_of(memory);
  const auto fd = reopen_fabric(path, inode);
  const bool alone = fd && wait_for_leaving_lock(fd->get()) && lock_others(fd->get(), own_slot);
  if (alone) {
    for (std::uint32_t slot = 0; slot < slots_max; ++slot) {
      if (slot != own_slot && file.slots[slot].in_use.load() != 0) {
        clear_slot(file, path, slot);
      }
    }
  }
  clear_slot(file, path, own_slot);
  if (alone) {
    static_cast<void>(sys::unlink(path));
  }
  // Our slot's lock goes before the leaving lock, so that the next one to leave doesn't see us.
  memory.reset();
}

}  // namespace verbena::ports
