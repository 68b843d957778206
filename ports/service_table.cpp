#include "ports/service_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/bytes.h"
#include "ports/fabric_file.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

/// Linux's default range (ip_local_port_range).
constexpr std::uint16_t ephemeral_first = 32768;
constexpr std::uint16_t ephemeral_last = 60999;
constexpr std::uint64_t port_mask = 0xFFFF;

using GidWords = std::array<std::uint64_t, 2>;

ServiceClaim claim_of(const ServiceEntry& entry) {
  const GidWords words{entry.address[0].load(std::memory_order_relaxed),
                       entry.address[1].load(std::memory_order_relaxed)};
  const std::uint64_t id = entry.service_id.load(std::memory_order_relaxed);
  const std::uint32_t flags = entry.flags.load(std::memory_order_relaxed);
  return {.space = id & ~port_mask,
          .port = static_cast<std::uint16_t>(id & port_mask),
          .address = read_struct<Gid>(bytes_of(words)),
          .reuse = (flags & ServiceEntry::reuse) != 0,
          .v6_only = (flags & ServiceEntry::v6_only) != 0};
}

bool listens(const ServiceEntry& entry) {
  return (entry.flags.load(std::memory_order_relaxed) & ServiceEntry::listening) != 0;
}

/// Whether both mean some same address.
bool overlap(const ServiceClaim& a, const ServiceClaim& b) {
  if (a.is_v4() != b.is_v4()) {
    const ServiceClaim& v6 = a.is_v4() ? b : a;
    return !v6.v6_only && (a.is_any_address() || b.is_any_address());
  }
  return a.is_any_address() || b.is_any_address() || a.address == b.address;
}

}  // namespace

bool ServiceClaim::is_v4() const { return roce::ipv4_from_gid(address).has_value(); }

bool ServiceClaim::is_any_address() const {
  return address == Gid{} || address == roce::gid_from_ipv4({});
}

std::optional<sys::Fd> ServiceTable::lock() const {
  // Held for microseconds. Whoever waits so long waits for a process that was stopped there.
  constexpr auto pause = std::chrono::microseconds(50);
  constexpr int attempts_max = 20'000;
  auto fd = reopen_fabric(fabric_.path_, fabric_.inode_);
  for (int attempt = 0; fd && attempt < attempts_max; ++attempt) {
    if (sys::try_lock_range(fd->get(), services_lock, 1) == 0) {
      return fd;
    }
    static_cast<void>(sys::poll(nullptr, 0, pause));
  }
  return std::nullopt;
}

bool ServiceTable::conflicts(const ServiceClaim& claim, std::optional<ServiceEntryId> except,
                             bool to_listen) {
  auto& entries = fabric_.file().services;
  const std::uint64_t id = claim.space | claim.port;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    const SlotLife owner{entries[i].owner.load(std::memory_order_acquire)};
    if (owner == SlotLife{} || ServiceEntryId{i} == except ||
        entries[i].service_id.load(std::memory_order_relaxed) != id) {
      continue;
    }
    const ServiceClaim other = claim_of(entries[i]);
    const bool both_reuse = claim.reuse && other.reuse && !to_listen && !listens(entries[i]);
    if (!both_reuse && overlap(claim, other) && fabric_.check_alive(owner)) {
      return true;
    }
  }
  return false;
}

std::optional<ServiceEntryId> ServiceTable::free_entry() {
  auto& entries = fabric_.file().services;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    const SlotLife owner{entries[i].owner.load(std::memory_order_relaxed)};
    if (owner == SlotLife{} || !fabric_.is_current(owner)) {
      return ServiceEntryId{i};
    }
  }
  return std::nullopt;
}

bool ServiceTable::find_ephemeral_port(ServiceClaim& claim) {
  constexpr std::uint32_t count = ephemeral_last - ephemeral_first + 1;
  std::uint32_t& cursor = fabric_.ephemeral_cursor_;
  if (cursor == 0) {
    cursor = static_cast<std::uint32_t>(sys::random_bits());
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    claim.port = static_cast<std::uint16_t>(ephemeral_first + ++cursor % count);
    if (!conflicts(claim, std::nullopt, false)) {
      return true;
    }
  }
  return false;
}

Result<ServiceTable::Bound, int> ServiceTable::bind(ServiceClaim claim) {
  const auto locked = lock();
  if (!locked) {
    return std::unexpected(EIO);
  }
  const auto place = free_entry();
  if (!place) {
    return std::unexpected(EADDRNOTAVAIL);
  }
  if (claim.port == 0) {
    // Nobody else gets it, whatever both say of reuse.
    ServiceClaim alone = claim;
    alone.reuse = false;
    if (!find_ephemeral_port(alone)) {
      return std::unexpected(EADDRNOTAVAIL);
    }
    claim.port = alone.port;
  } else if (conflicts(claim, std::nullopt, false)) {
    return std::unexpected(EADDRINUSE);
  }
  ServiceEntry& entry = fabric_.file().services[to_value(*place)];
  const auto words = read_struct<GidWords>(bytes_of(claim.address));
  entry.service_id.store(claim.space | claim.port, std::memory_order_relaxed);
  entry.address[0].store(words[0], std::memory_order_relaxed);
  entry.address[1].store(words[1], std::memory_order_relaxed);
  entry.flags.store(
      (claim.reuse ? ServiceEntry::reuse : 0) | (claim.v6_only ? ServiceEntry::v6_only : 0),
      std::memory_order_relaxed);
  entry.owner.store(to_value(fabric_.self()), std::memory_order_release);
  return Bound{.entry = *place, .port = claim.port};
}

int ServiceTable::listen(ServiceEntryId id) {
  const auto locked = lock();
  if (!locked) {
    return EIO;
  }
  ServiceEntry& entry = fabric_.file().services[to_value(id)];
  if (conflicts(claim_of(entry), id, true)) {
    return EADDRINUSE;
  }
  entry.flags.fetch_or(ServiceEntry::listening);
  return 0;
}

void ServiceTable::release(ServiceEntryId id) {
  ServiceEntry& entry = fabric_.file().services[to_value(id)];
  std::uint64_t own = to_value(fabric_.self());
  entry.owner.compare_exchange_strong(own, 0);
}

bool ServiceTable::has_listener(std::uint64_t service_id, const Gid& address) {
  const ServiceClaim wanted{.space = service_id & ~port_mask,
                            .port = static_cast<std::uint16_t>(service_id & port_mask),
                            .address = address};
  for (const ServiceEntry& entry : fabric_.file().services) {
    const SlotLife owner{entry.owner.load(std::memory_order_acquire)};
    if (owner != SlotLife{} && entry.service_id.load() == service_id && listens(entry) &&
        overlap(wanted, claim_of(entry)) && fabric_.check_alive(owner)) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> ServiceTable::listeners(std::uint64_t space) const {
  std::vector<std::string> found;
  for (const ServiceEntry& entry : fabric_.file().services) {
    const SlotLife owner{entry.owner.load(std::memory_order_acquire)};
    const ServiceClaim claim = claim_of(entry);
    if (listens(entry) && claim.space == space && fabric_.is_current(owner)) {
      found.push_back(describe({claim, fabric_.process_of(owner)}));
    }
  }
  return found;
}

std::string describe(const Listener& listener) {
  const ServiceClaim& claim = listener.claim;
  return fmt::format("port {} of {} (process {})", claim.port,
                     claim.is_any_address() ? "any address" : roce::to_address_text(claim.address),
                     listener.pid);
}

Result<std::vector<Listener>, std::string> list_listeners(const std::string& fabric_path) {
  const auto members = list_members(fabric_path);
  auto opened = open_fabric(fabric_path);
  if (!members || !opened) {
    return std::unexpected(members ? opened.error() : members.error());
  }
  std::vector<Listener> found;
  if (!*opened) {
    return found;
  }
  for (const ServiceEntry& entry : (*opened)->file().services) {
    const SlotLife owner{entry.owner.load(std::memory_order_acquire)};
    const auto member = std::ranges::find(*members, owner, &FabricMember::life);
    if (listens(entry) && member != members->end()) {
      found.push_back({claim_of(entry), member->pid});
    }
  }
  return found;
}

}  // namespace verbena::ports
