// Parts of reading a scenario file that have files of their own. Internal to sim/scenario/. What is
// wrong is a ScenarioError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/toml.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/table.h"

namespace verbena::sim {

/// Keeps a hostile file from asking for the machine: work requests of a queue.
inline constexpr std::uint32_t queue_wr_max = 1U << 14;

/// What memory permits its peers, and they each other, unless the file says otherwise.
inline constexpr Access peer_access =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

/// The connections of a file, or the one that is there without any. Hosts and shared queues have
/// been read.
void read_connections(Table& root, Scenario& scenario);

/// One row of a sweep: names and the values they stand for.
using SweepRow = std::vector<std::pair<std::string, std::string>>;

/// Every combination of the values that [sweep] lists; one empty row without it.
[[nodiscard]] std::vector<SweepRow> sweep_rows(const toml::table& parsed);

/// Puts the row's values where their names stand behind a $.
[[nodiscard]] std::string substitute(std::string_view text, const SweepRow& row);

}  // namespace verbena::sim
