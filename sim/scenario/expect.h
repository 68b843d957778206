// Compares what happened with what a scenario expects. Internal to sim/scenario/.
#pragma once

#include <vector>

#include "sim/scenario/run.h"
#include "sim/scenario/stage.h"
#include "sim/scenario/story.h"

namespace verbena::sim {

/// Expectations that aren't met, in the order of the file's keys. What is wrong with an expectation
/// itself is a ScenarioError.
[[nodiscard]] std::vector<Mismatch> check_expectations(Stage& stage, const Story& story);

}  // namespace verbena::sim
