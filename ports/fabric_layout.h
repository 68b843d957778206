// The bytes of a fabric file: what all processes of one host agree on. Changing anything here, or
// the names of the files beside it, needs a new fabric_version.
//
// Every field that changes is an atomic that any process of the same user may have written wrongly:
// readers check ranges, and compare lives (SlotLife) before they act.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "ports/fabric_ring.h"

namespace verbena::ports {

inline constexpr std::uint64_t fabric_magic = 0x4352'4246'4252'4556;  // "VERBFBRC"
inline constexpr std::uint32_t fabric_version = 4;
/// Devices that processes of one host have open at the same time.
inline constexpr std::uint32_t slots_max = 256;
/// QPNs are handed to processes in blocks.
inline constexpr std::uint32_t block_qpns = 4096;
inline constexpr std::uint32_t blocks_max = (qpn_mask + 1) / block_qpns;
/// The first block has QP0 and QP1, the last one the multicast QPN: neither is given away.
inline constexpr std::uint32_t first_block = 1;
inline constexpr std::uint32_t last_block = blocks_max - 2;

/// Groups, and addresses with an open QPN 1, of one slot.
inline constexpr std::uint32_t memberships_max = 384;

/// A slot in one of its lives: the number of times it was taken, and the slot plus one.
[[nodiscard]] constexpr SlotLife make_life(std::uint32_t slot, std::uint32_t life_count) {
  return SlotLife{std::uint64_t{life_count} << 32 | (slot + 1)};
}
/// slots_max or more if `life` is nobody or nonsense.
[[nodiscard]] constexpr std::uint32_t slot_of(SlotLife life) {
  return static_cast<std::uint32_t>(to_value(life)) - 1;
}
[[nodiscard]] constexpr std::uint32_t life_count_of(SlotLife life) {
  return static_cast<std::uint32_t>(to_value(life) >> 32);
}

struct FabricHeader {
  std::uint64_t magic;
  std::uint32_t version;
  /// sizeof(FabricFile), slots_max and block_qpns of the process that made the file.
  std::uint32_t file_bytes;
  std::uint32_t slots;
  std::uint32_t qpns_per_block;
  /// Where the next search for a free block begins: blocks rotate, so that the QPNs of a dead
  /// process come back as late as possible.
  std::atomic<std::uint32_t> block_cursor;
  /// Grows with each change of anybody's memberships.
  std::atomic<std::uint32_t> membership_changes;
};

/// One open device of one process.
struct alignas(128) Slot {
  /// How often this slot was taken; the low half of nobody's life is never 0.
  std::atomic<std::uint32_t> life_count;
  std::atomic<std::uint32_t> in_use;
  /// For people: who it is.
  std::atomic<std::int32_t> pid;
  std::array<std::atomic<char>, 64> device_name;

  /// The owner sleeps, or is about to: whoever sends to it rings its doorbell.
  alignas(128) std::atomic<std::uint32_t> asleep;
  /// Grows with each ring that is announced to the owner.
  std::atomic<std::uint32_t> announcements;
};

/// What a slot wants of the frames that no QPN of its own names: those to these multicast groups,
/// and those to QPN 1 of these unicast addresses. Written by the owner alone. A reader may meet a
/// list that is just being changed: the count of changes, which is raised afterwards, makes it read
/// again.
struct Memberships {
  std::atomic<std::uint32_t> count;
  /// A GID as two words of this host.
  std::array<std::array<std::atomic<std::uint64_t>, 2>, memberships_max> gids;
};

/// Ports that the processes of a host have bound: as many as there may be identifiers of the
/// connection manager that connect or listen.
inline constexpr std::uint32_t services_max = 8192;

/// A bound port; see service_table.h.
struct ServiceEntry {
  // Bits of `flags`.
  static constexpr std::uint32_t listening = 1;
  static constexpr std::uint32_t reuse = 2;
  static constexpr std::uint32_t v6_only = 4;

  /// A SlotLife; 0 is nobody: the entry is free.
  std::atomic<std::uint64_t> owner;
  std::atomic<std::uint64_t> service_id;
  /// A GID as two words of this host.
  std::array<std::atomic<std::uint64_t>, 2> address;
  std::atomic<std::uint32_t> flags;
};

/// Failures that a fabric remembers, the latest ones.
inline constexpr std::uint32_t failures_max = 64;
/// Letters of a failure's sentence, in words of eight.
inline constexpr std::uint32_t failure_words = 40;

/// What went wrong, in words; see failure_journal.h.
struct FailureEntry {
  /// Odd while the entry is written; grows with each writing.
  std::atomic<std::uint32_t> version;
  std::atomic<std::int32_t> pid;
  /// CLOCK_MONOTONIC, nanoseconds. 0: the entry was never written.
  std::atomic<std::int64_t> time;
  /// Ends with the first zero byte, or with the array.
  std::array<std::atomic<std::uint64_t>, failure_words> text;
};

struct FailureJournal {
  /// How many were written so far: the next one goes to this number modulo failures_max.
  std::atomic<std::uint32_t> written;
  std::array<FailureEntry, failures_max> entries;
};

struct FabricFile {
  FabricHeader header;
  std::array<Slot, slots_max> slots;
  std::array<Memberships, slots_max> memberships;
  /// The SlotLife that owns each block of QPNs; 0 is nobody.
  std::array<std::atomic<std::uint64_t>, blocks_max> block_owners;
  /// announced[c][p]: serial number of the ring from slot p that slot c has yet to map; 0 is
  /// none.
  std::array<std::array<std::atomic<std::uint64_t>, slots_max>, slots_max> announced;
  /// Entries of dead owners are free. Changed under services_lock.
  std::array<ServiceEntry, services_max> services;
  /// Anybody writes here at any time.
  FailureJournal failures;
};

/// Slot s is taken by the lock on the byte slot_lock_base + s of the file, beyond its end.
inline constexpr std::int64_t slot_lock_base = std::int64_t{1} << 40;
/// Locked by one process at a time while it leaves. Without it, two that leave together would
/// each see the other still there, and neither would tidy up.
inline constexpr std::int64_t leaving_lock = slot_lock_base + slots_max;
/// Locked by one process at a time while it changes the table of services.
inline constexpr std::int64_t services_lock = leaving_lock + 1;

}  // namespace verbena::ports
