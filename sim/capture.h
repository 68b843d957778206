// Captures of a simulated world: one pcapng interface per host, and the same time zero in every
// run, so that equal runs give equal files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "pcap/pcapng_writer.h"
#include "sim/frame.h"

namespace verbena::sim {

class Capture {
 public:
  /// `writer` must outlive the capture; its owner closes it.
  explicit Capture(pcap::PcapngWriter& writer) : writer_(writer) {}

  void add_station(StationId station, std::string_view name, std::string_view address);
  /// A frame at a station that was added, with a comment or none.
  void write(Time now, StationId station, ByteView frame, pcap::Direction direction,
             std::string_view comment);
  /// The first failure to write; nothing more is written after it.
  [[nodiscard]] const std::optional<pcap::FileError>& error() const { return error_; }

 private:
  pcap::PcapngWriter& writer_;
  std::vector<std::optional<pcap::InterfaceId>> interfaces_;
  std::optional<pcap::FileError> error_;
};

/// Time zero of simulated captures: 2000-01-01 00:00 UTC.
inline constexpr pcap::UnixTime capture_epoch{std::chrono::seconds(946'684'800)};

}  // namespace verbena::sim
