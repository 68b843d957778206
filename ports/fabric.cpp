#include "ports/fabric.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>

#include "base/check.h"
#include "ports/device_config.h"
#include "ports/fabric_file.h"

namespace verbena::ports {

namespace {

/// Whether the name `path` still leads to that file.
bool is_linked(const std::string& path, ino_t inode) {
  struct stat status{};
  return sys::lstat(path, status) == 0 && status.st_ino == inode;
}

struct TakenSlot {
  OpenFabric fabric;
  std::uint32_t slot = 0;
};

Result<TakenSlot, std::string> take_slot(const Fabric::Options& options) {
  // Two things pass by themselves: a process that leaves last holds all slots for a moment, and
  // then removes the file that we have just opened.
  constexpr int attempts_max = 50;
  constexpr auto pause = std::chrono::milliseconds(1);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto fabric = open_or_create_fabric(options.path, options.allocate);
    if (!fabric) {
      return std::unexpected(std::move(fabric.error()));
    }
    const auto slot = lock_free_slot(*fabric, options.path);
    if (slot && is_linked(options.path, fabric->inode)) {
      return TakenSlot{.fabric = std::move(*fabric), .slot = *slot};
    }
    static_cast<void>(sys::poll(nullptr, 0, pause));
  }
  return std::unexpected(fmt::format(
      "all {} slots of the fabric {} are taken; end some of the programs that use it, or set "
      "VERBENA_FABRIC to another name",
      slots_max, options.path));
}

void write_name(Slot& slot, std::string_view name) {
  for (std::size_t i = 0; i < slot.device_name.size(); ++i) {
    const bool inside = i < name.size() && i + 1 < slot.device_name.size();
    slot.device_name[i].store(inside ? name[i] : '\0', std::memory_order_relaxed);
  }
}

std::string read_name(const Slot& slot) {
  std::string name;
  for (const auto& character : slot.device_name) {
    const char c = character.load(std::memory_order_relaxed);
    if (c == '\0') {
      break;
    }
    name += c >= ' ' && c <= '~' ? c : '?';
  }
  return name;
}

}  // namespace

RingHeader& RingMapping::header() const {
  return *reinterpret_cast<RingHeader*>(memory.bytes().data());
}

Result<std::unique_ptr<Fabric>, std::string> Fabric::join(const Options& options) {
  VERBENA_CHECK(options.path.starts_with('/'));
  const std::string longest = bell_path(options.path, slots_max - 1);
  if (longest.size() > sys::unix_path_bytes_max) {
    return std::unexpected(fmt::format(
        "the fabric's path {} is too long: with the name of a doorbell it may have {} bytes, not "
        "{}; set VERBENA_FABRIC to a shorter one",
        options.path, sys::unix_path_bytes_max, longest.size()));
  }
  auto taken = take_slot(options);
  if (!taken) {
    return std::unexpected(std::move(taken.error()));
  }
  auto doorbell = Doorbell::create(bell_path(options.path, taken->slot));
  if (!doorbell) {
    return std::unexpected(fmt::format("can't make the doorbell {}: {}",
                                       bell_path(options.path, taken->slot),
                                       sys::error_text(-doorbell.error())));
  }
  // The descriptor goes here; the lock stays with the mapping.
  return std::unique_ptr<Fabric>(new Fabric(options, std::move(taken->fabric.memory),
                                            taken->fabric.inode, taken->slot,
                                            std::move(*doorbell)));
}

Fabric::Fabric(const Options& options, sys::SharedMemory memory, ino_t inode,
               std::uint32_t slot_index, Doorbell doorbell)
    : path_(options.path),
      ring_bytes_(options.ring_bytes),
      allocate_(options.allocate),
      memory_(std::move(memory)),
      inode_(inode),
      doorbell_(std::move(doorbell)) {
  Slot& slot = file().slots[slot_index];
  const std::uint32_t life_count = slot.life_count.load() + 1;
  self_ = make_life(slot_index, life_count);
  slot.pid.store(sys::process_id());
  write_name(slot, options.device_name);
  slot.asleep.store(0);
  announcements_seen_ = slot.announcements.load();
  slot.life_count.store(life_count);
  slot.in_use.store(1);
}

Fabric::~Fabric() { leave_fabric(std::move(memory_), path_, inode_, slot_of(self_)); }

FabricFile& Fabric::file() const { return *reinterpret_cast<FabricFile*>(memory_.bytes().data()); }

std::string Fabric::device_name() const { return read_name(file().slots[slot_of(self_)]); }

std::int32_t Fabric::process_of(SlotLife life) const {
  const std::uint32_t slot = slot_of(life);
  return slot < slots_max ? file().slots[slot].pid.load(std::memory_order_relaxed) : 0;
}

std::optional<Qpn> Fabric::take_qpn_block() {
  constexpr std::uint32_t usable = last_block - first_block + 1;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < usable; ++i) {
      const std::uint32_t block = first_block + file().header.block_cursor.fetch_add(1) % usable;
      std::uint64_t nobody = 0;
      if (file().block_owners[block].compare_exchange_strong(nobody, to_value(self_))) {
        return Qpn{block * block_qpns};
      }
    }
    for (std::uint32_t slot = 0; slot < slots_max; ++slot) {
      static_cast<void>(check_alive(make_life(slot, file().slots[slot].life_count.load())));
    }
  }
  return std::nullopt;
}

SlotLife Fabric::owner_of(Qpn qpn) const {
  const std::uint32_t block = to_value(qpn) / block_qpns;
  if (block < first_block || block > last_block) {
    return SlotLife{};
  }
  const SlotLife life{file().block_owners[block].load(std::memory_order_acquire)};
  return is_current(life) ? life : SlotLife{};
}

bool Fabric::is_current(SlotLife life) const {
  const std::uint32_t slot = slot_of(life);
  return slot < slots_max &&
         file().slots[slot].life_count.load(std::memory_order_relaxed) == life_count_of(life) &&
         file().slots[slot].in_use.load(std::memory_order_acquire) != 0;
}

bool Fabric::check_alive(SlotLife life) {
  if (!is_current(life)) {
    return false;
  }
  if (life == self_) {
    return true;
  }
  const auto fd = reopen_fabric(path_, inode_);
  const std::int64_t byte = slot_lock_base + slot_of(life);
  // If somebody removed the file, nothing can be told: then nobody is declared dead.
  if (!fd || sys::try_lock_range(fd->get(), byte, 1) < 0) {
    return true;
  }
  if (is_current(life)) {
    clear_slot(file(), path_, slot_of(life));
  }
  return false;
}

namespace {

using GidWords = std::array<std::uint64_t, 2>;

GidWords words_of(const Gid& gid) { return read_struct<GidWords>(bytes_of(gid)); }

/// Where `gid` stands in a list, or the list's length.
std::uint32_t find_gid(const Memberships& list, const Gid& gid) {
  const GidWords words = words_of(gid);
  const std::uint32_t count = std::min(list.count.load(), memberships_max);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (list.gids[i][0].load() == words[0] && list.gids[i][1].load() == words[1]) {
      return i;
    }
  }
  return count;
}

}  // namespace

void Fabric::join_gid(const Gid& gid) {
  Memberships& list = file().memberships[slot_of(self_)];
  const std::uint32_t place = find_gid(list, gid);
  if (place != list.count.load()) {
    return;
  }
  VERBENA_CHECK(place < memberships_max);
  const GidWords words = words_of(gid);
  list.gids[place][0].store(words[0]);
  list.gids[place][1].store(words[1]);
  list.count.store(place + 1);
  file().header.membership_changes.fetch_add(1);
}

void Fabric::leave_gid(const Gid& gid) {
  Memberships& list = file().memberships[slot_of(self_)];
  const std::uint32_t place = find_gid(list, gid);
  const std::uint32_t count = list.count.load();
  if (place >= count) {
    return;
  }
  list.gids[place][0].store(list.gids[count - 1][0].load());
  list.gids[place][1].store(list.gids[count - 1][1].load());
  list.count.store(count - 1);
  file().header.membership_changes.fetch_add(1);
}

std::vector<SlotLife> Fabric::members_of(const Gid& gid) const {
  std::vector<SlotLife> members;
  for (std::uint32_t slot = 0; slot < slots_max; ++slot) {
    const Memberships& list = file().memberships[slot];
    const SlotLife life = make_life(slot, file().slots[slot].life_count.load());
    if (is_current(life) && find_gid(list, gid) < std::min(list.count.load(), memberships_max)) {
      members.push_back(life);
    }
  }
  return members;
}

std::uint32_t Fabric::membership_changes() const {
  return file().header.membership_changes.load(std::memory_order_acquire);
}

SlotLife Fabric::life_of(std::uint32_t slot) const {
  return slot < slots_max ? make_life(slot, file().slots[slot].life_count.load()) : SlotLife{};
}

Result<RingMapping, int> Fabric::create_ring(SlotLife consumer) {
  const std::uint32_t producer_slot = slot_of(self_);
  const std::uint32_t consumer_slot = slot_of(consumer);
  VERBENA_CHECK(consumer_slot < slots_max);
  const std::uint64_t serial = next_serial_++;
  const std::string path = ring_path(path_, producer_slot, consumer_slot, serial);
  // A file of this name can only be a dead owner's of this slot.
  static_cast<void>(sys::unlink(path));
  auto fd = sys::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!fd) {
    return std::unexpected(fd.error());
  }
  const std::size_t bytes = ring_header_bytes + ring_bytes_;
  Result<sys::SharedMemory, int> memory = std::unexpected(allocate_(fd->get(), bytes));
  if (memory.error() == 0) {
    memory = sys::SharedMemory::map(fd->get(), bytes);
  }
  if (!memory) {
    static_cast<void>(sys::unlink(path));
    return std::unexpected(memory.error());
  }
  RingMapping ring{.memory = std::move(*memory), .producer = self_, .consumer = consumer};
  RingHeader& header = ring.header();
  header.magic = ring_magic;
  header.version = ring_version;
  header.header_bytes = ring_header_bytes;
  header.producer = self_;
  header.consumer = consumer;
  header.data_bytes = ring_bytes_;

  const std::uint64_t replaced = file().announced[consumer_slot][producer_slot].exchange(serial);
  if (replaced != 0) {
    // The consumer has not even looked at the ring before; what is in it is lost.
    static_cast<void>(sys::unlink(ring_path(path_, producer_slot, consumer_slot, replaced)));
  }
  file().slots[consumer_slot].announcements.fetch_add(1, std::memory_order_release);
  return ring;
}

bool Fabric::has_announcements() const {
  return file().slots[slot_of(self_)].announcements.load(std::memory_order_acquire) !=
         announcements_seen_;
}

std::vector<RingMapping> Fabric::take_announced_rings(std::uint64_t& bad) {
  const std::uint32_t consumer_slot = slot_of(self_);
  announcements_seen_ = file().slots[consumer_slot].announcements.load(std::memory_order_acquire);
  std::vector<RingMapping> rings;
  for (std::uint32_t producer_slot = 0; producer_slot < slots_max; ++producer_slot) {
    const std::uint64_t serial = file().announced[consumer_slot][producer_slot].exchange(0);
    if (serial == 0) {
      continue;
    }
    auto ring = map_ring(producer_slot, serial);
    static_cast<void>(sys::unlink(ring_path(path_, producer_slot, consumer_slot, serial)));
    if (ring) {
      rings.push_back(std::move(*ring));
    } else {
      ++bad;
    }
  }
  return rings;
}

Result<RingMapping, int> Fabric::map_ring(std::uint32_t producer_slot, std::uint64_t serial) const {
  const std::string path = ring_path(path_, producer_slot, slot_of(self_), serial);
  auto fd = sys::open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) {
    return std::unexpected(fd.error());
  }
  struct stat status{};
  if (const int result = sys::fstat(fd->get(), status); result < 0) {
    return std::unexpected(result);
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t data_bytes = bytes - ring_header_bytes;
  constexpr std::uint64_t block_bytes = 512;  // The unit of st_blocks (stat(2)).
  const bool sound = S_ISREG(status.st_mode) && status.st_uid == sys::effective_user_id() &&
                     bytes > ring_header_bytes && std::has_single_bit(data_bytes) &&
                     data_bytes >= ring_data_bytes_min && data_bytes <= ring_bytes_max &&
                     static_cast<std::uint64_t>(status.st_blocks) * block_bytes >= bytes;
  if (!sound) {
    return std::unexpected(-EINVAL);
  }
  auto memory = sys::SharedMemory::map(fd->get(), bytes);
  if (!memory) {
    return std::unexpected(memory.error());
  }
  RingMapping ring{.memory = std::move(*memory)};
  const RingHeader& header = ring.header();
  ring.producer = header.producer;
  ring.consumer = header.consumer;
  if (header.magic != ring_magic || header.version != ring_version ||
      header.header_bytes != ring_header_bytes || header.data_bytes != data_bytes ||
      slot_of(ring.producer) != producer_slot || ring.consumer != self_) {
    return std::unexpected(-EINVAL);
  }
  return ring;
}

void Fabric::set_asleep(bool asleep) {
  file().slots[slot_of(self_)].asleep.store(asleep ? 1 : 0, std::memory_order_relaxed);
  if (asleep) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

bool Fabric::wake(SlotLife life) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t slot = slot_of(life);
  if (slot >= slots_max) {
    return false;
  }
  auto& asleep = file().slots[slot].asleep;
  if (asleep.load(std::memory_order_relaxed) == 0 ||
      asleep.exchange(0, std::memory_order_relaxed) == 0) {
    return false;
  }
  doorbell_.ring(bell_path(path_, slot));
  return true;
}

Result<std::vector<FabricMember>, std::string> list_members(const std::string& path) {
  auto opened = open_fabric(path);
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  std::vector<FabricMember> members;
  if (!*opened) {
    return members;
  }
  const FabricFile& file = (*opened)->file();
  for (std::uint32_t slot = 0; slot < slots_max; ++slot) {
    const bool alive =
        file.slots[slot].in_use.load() != 0 &&
        sys::is_range_locked((*opened)->fd.get(), slot_lock_base + slot, 1).value_or(true);
    if (!alive) {
      continue;
    }
    FabricMember& member = members.emplace_back();
    member.slot = slot;
    member.life = make_life(slot, file.slots[slot].life_count.load());
    member.pid = file.slots[slot].pid.load();
    member.device_name = read_name(file.slots[slot]);
    for (const auto& owner : file.block_owners) {
      member.qpn_blocks += slot_of(SlotLife{owner.load()}) == slot ? 1 : 0;
    }
  }
  return members;
}

Result<void, std::string> send_injection(const std::string& path, std::uint32_t slot,
                                         const Injection& injection) {
  // A doorbell holds few rings (unix(7), max_dgram_qlen). Its owner takes them when it has its
  // turn.
  constexpr Duration patience = std::chrono::seconds(5);
  constexpr Duration pause = std::chrono::milliseconds(10);
  int sent = Doorbell::send(injection, bell_path(path, slot));
  for (Duration waited{}; sent == -EAGAIN && waited < patience; waited += pause) {
    static_cast<void>(sys::poll(nullptr, 0, pause));
    sent = Doorbell::send(injection, bell_path(path, slot));
  }
  if (sent < 0) {
    return std::unexpected(fmt::format("can't reach the process in slot {} of {}: {}", slot, path,
                                       sent == -EAGAIN
                                           ? "it doesn't look at its doorbell. Is it stopped?"
                                           : sys::error_text(-sent)));
  }
  return {};
}

}  // namespace verbena::ports
