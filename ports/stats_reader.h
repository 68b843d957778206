// What the open devices of a fabric tell of themselves (stats_file.h), read without joining it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "ports/fabric_ring.h"
#include "ports/port.h"
#include "proto/counters.h"
#include "proto/gid.h"

namespace verbena::ports {

struct QpStatistics {
  Qpn qpn{};
  nic::QpType type{};
  nic::QpState state{};
  /// 0 and zeros without a peer.
  Qpn peer_qpn{};
  Gid peer;
  Counters::Values counters{};
};

/// One open device of a process that lives.
struct DeviceStatistics {
  SlotLife life{};
  std::int32_t pid = 0;
  std::string program;
  std::string device;
  /// When it published this, CLOCK_MONOTONIC. One that does nothing publishes nothing.
  Time published{};
  nic::Nic::ObjectCounts objects;
  Counters::Values counters{};
  PortStatistics::Values ways{};
  /// At most listed_qps_max, by number.
  std::vector<QpStatistics> qps;
};

struct FabricStatistics {
  /// In the order of their slots.
  std::vector<DeviceStatistics> devices;
  /// A sentence for each living process that can't be understood.
  std::vector<std::string> failures;
};

/// Empty if the fabric doesn't exist. A device that hasn't told anything yet, because it is just
/// being opened, is left out. The error is a sentence.
[[nodiscard]] Result<FabricStatistics, std::string> read_statistics(const std::string& fabric_path);

}  // namespace verbena::ports
