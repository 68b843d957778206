#include "sim/capture.h"

#include "base/check.h"

namespace verbena::sim {

void Capture::add_station(StationId station, std::string_view name, std::string_view address) {
  const auto index = static_cast<std::size_t>(station);
  interfaces_.resize(std::max(interfaces_.size(), index + 1));
  interfaces_[index] = writer_.add_interface({.name = name, .description = address});
}

void Capture::write(Time now, StationId station, ByteView frame, pcap::Direction direction,
                    std::string_view comment) {
  const auto index = static_cast<std::size_t>(station);
  if (error_ || index >= interfaces_.size() || !interfaces_[index]) {
    return;
  }
  const std::span<const std::string_view> comments(&comment, comment.empty() ? 0 : 1);
  const auto written = writer_.write({.interface = *interfaces_[index],
                                      .time = capture_epoch + now.time_since_epoch(),
                                      .frame = frame,
                                      .direction = direction,
                                      .comments = comments});
  if (!written) {
    error_ = written.error();
  }
}

}  // namespace verbena::sim
