#include "sim/scenario/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "faults/units.h"
#include "sim/scenario/expect.h"
#include "sim/scenario/stage.h"
#include "sim/scenario/story.h"

namespace verbena::sim {
namespace {

/// Lines of the trace that are shown before and behind a difference.
constexpr std::size_t context_events = 6;

ScenarioResult run(const Scenario& scenario, const RunOptions& options) {
  Stage stage(scenario, options.seed.value_or(scenario.seed));
  Simulation& simulation = stage.simulation();
  std::optional<Capture> capture;
  if (options.capture != nullptr) {
    capture.emplace(*options.capture);
    if (!simulation.set_capture(*capture, options.taps)) {
      fail(Place{}, "--tap names neither a host nor the switch of this scenario.");
    }
  }
  simulation.trace().set_recording(true);
  Story story(stage);
  story.tell();

  ScenarioResult result;
  result.mismatches = check_expectations(stage, story);
  result.seed = simulation.seed();
  result.hash = simulation.trace().hash();
  result.packets = simulation.trace().count(TraceKind::sent);
  result.events = simulation.events_done();
  result.host_count = scenario.hosts.size();
  for (const auto& station : simulation.stations()) {
    result.stations.push_back(station->name());
  }
  result.trace = simulation.trace().events();
  result.end = result.trace.empty() ? Time{} : result.trace.back().time;
  return result;
}

}  // namespace

Result<ScenarioResult, std::string> run_scenario(const Scenario& scenario,
                                                 const RunOptions& options) {
  try {
    return run(scenario, options);
  } catch (const ScenarioError& error) {
    return std::unexpected(explain(scenario.file, error));
  }
}

std::string trace_line(const ScenarioResult& result, std::size_t index) {
  const TraceEvent& event = result.trace[index];
  std::string what;
  switch (event.kind) {
    case TraceKind::sent: {
      const std::string note = describe(event.note);
      what = fmt::format("#{} {}{}{}", event.frame, describe(event.packet),
                         note.empty() ? "" : "; ", note);
      break;
    }
    case TraceKind::lost:
    case TraceKind::arrived:
      what = fmt::format("#{} {}", event.frame, event.text);
      break;
    default:
      what = event.text;
      break;
  }
  return fmt::format("{:>12} {:<10} {:<9} {}", faults::duration_text(event.time.time_since_epoch()),
                     result.stations[static_cast<std::size_t>(event.station)], name_of(event.kind),
                     what);
}

std::string explain(const Scenario& scenario, const ScenarioResult& result,
                    const Mismatch& mismatch) {
  std::string text = explain(scenario.file, {mismatch.place, mismatch.message});
  if (!mismatch.event) {
    return text;
  }
  const std::size_t at = *mismatch.event;
  const std::size_t begin = at - std::min(at, context_events);
  const std::size_t end = std::min(result.trace.size(), at + context_events + 1);
  for (std::size_t i = begin; i < end; ++i) {
    text += fmt::format("\n{} {}", i == at ? "  >" : "   ", trace_line(result, i));
  }
  return text;
}

}  // namespace verbena::sim
