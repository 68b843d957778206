// The bytes of a statistics file: what an open device tells of itself to whoever wants to look
// (`verbena counters`, `verbena top`). One for each slot of a fabric, beside the fabric's file:
//
//   default.fabric.3.stats      header │ snapshot 0 │ snapshot 1
//
// The engine is the only writer and never waits for a reader. It writes the snapshot that isn't
// current, and then makes it current by counting up `published`; so a process that is stopped or
// killed while it writes leaves the other snapshot whole. Readers change nothing.
//
// Every byte is hostile to its reader: any process of the same user may have written it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "ports/fabric_ring.h"
#include "ports/port.h"
#include "proto/counters.h"
#include "proto/gid.h"

namespace verbena::ports {

inline constexpr std::uint64_t stats_magic = 0x5354'4154'5342'4556;  // "VEBSTATS"
inline constexpr std::uint32_t stats_version = 2;
/// Queue pairs that a snapshot lists; of more only the number is known. It bounds the file (1 MiB)
/// and the time that a snapshot takes.
inline constexpr std::uint32_t listed_qps_max = 1024;
/// What a file has room for at first.
inline constexpr std::uint32_t listed_qps_min = 16;
/// How often a device that does something publishes, at most.
inline constexpr Duration publishing_interval = std::chrono::milliseconds(100);
inline constexpr std::size_t stats_name_bytes = 64;

/// FNV-1a over the names of all that is counted: programs of different builds that share a fabric
/// may count different things in the same places.
[[nodiscard]] constexpr std::uint32_t hash_of_counter_names() {
  constexpr std::uint32_t offset_basis = 2166136261;
  constexpr std::uint32_t prime = 16777619;
  std::uint32_t hash = offset_basis;
  const auto add = [&](std::string_view name) {
    for (const char character : name) {
      hash = (hash ^ static_cast<unsigned char>(character)) * prime;
    }
    hash *= prime;
  };
  for (const std::string_view name : counter_names) {
    add(name);
  }
  for (const std::string_view name : port_statistic_names) {
    add(name);
  }
  return hash;
}

struct StatsHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t names_hash;
  /// The life of the slot whose device this is.
  SlotLife life;
  /// Queue pairs for which each snapshot has room.
  std::uint32_t listed_qps;
  std::uint32_t reserved;
  /// With zeros behind them.
  std::array<char, stats_name_bytes> program;
  std::array<char, stats_name_bytes> device;

  /// Snapshots so far, at least one; the current one is snapshot `published % 2`.
  std::atomic<std::uint64_t> published;
};

/// A snapshot: this, and then as many QpRecords as the file has room for.
struct SnapshotHead {
  /// CLOCK_MONOTONIC, in nanoseconds.
  std::int64_t time;
  std::uint32_t pds;
  std::uint32_t mrs;
  std::uint32_t cqs;
  std::uint32_t qps;
  /// Records that are valid.
  std::uint32_t qps_listed;
  std::uint32_t reserved;
  Counters::Values counters;
  PortStatistics::Values ways;
};

struct QpRecord {
  Qpn qpn;
  /// 0 and zeros before the queue pair has a peer.
  Qpn peer_qpn;
  Gid peer;
  /// nic::QpType and nic::QpState.
  std::uint8_t type;
  std::uint8_t state;
  std::array<std::uint8_t, 6> reserved;
  Counters::Values counters;
};

[[nodiscard]] constexpr std::size_t snapshot_bytes(std::uint32_t listed_qps) {
  return sizeof(SnapshotHead) + listed_qps * sizeof(QpRecord);
}
[[nodiscard]] constexpr std::size_t snapshot_offset(std::uint32_t listed_qps,
                                                    std::uint64_t published) {
  return sizeof(StatsHeader) + published % 2 * snapshot_bytes(listed_qps);
}
[[nodiscard]] constexpr std::size_t stats_file_bytes(std::uint32_t listed_qps) {
  return snapshot_offset(listed_qps, 1) + snapshot_bytes(listed_qps);
}

[[nodiscard]] std::string stats_path(const std::string& fabric_path, std::uint32_t slot);

}  // namespace verbena::ports
