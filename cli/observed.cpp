#include "cli/observed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "ports/device_config.h"
#include "ports/engine.h"
#include "proto/roce/gid.h"

namespace verbena::cli {

void add_fabric_options(CLI::App& command, DeviceOptions& options) {
  options.add_only(command, std::array{ports::env::fabric, ports::env::config});
}

Result<Observed, std::string> observe(const DeviceOptions& options) {
  const auto devices = options.load_devices();
  if (!devices) {
    return std::unexpected(devices.error());
  }
  return observe(fabrics_of(*devices));
}

Observed observe(const std::set<std::string>& fabrics) {
  Observed observed{.time = ports::Engine::now(), .devices = {}, .failures = {}};
  for (const std::string& fabric : fabrics) {
    auto statistics = ports::read_statistics(fabric);
    if (!statistics) {
      observed.failures.push_back(std::move(statistics.error()));
      continue;
    }
    std::ranges::move(statistics->devices, std::back_inserter(observed.devices));
    std::ranges::move(statistics->failures, std::back_inserter(observed.failures));
  }
  return observed;
}

std::string peer_text(const ports::QpStatistics& qp) {
  if (qp.peer == Gid{}) {
    return "-";
  }
  return fmt::format("{} QP 0x{:06x}", roce::to_address_text(qp.peer), to_value(qp.peer_qpn));
}

bool counts_drops(Counter counter) {
  return counter == Counter::rx_icrc_encapsulated ||
         counter_names[static_cast<std::size_t>(counter)].starts_with("rx_drop_");
}

}  // namespace verbena::cli
