// The comparison of what happened with what a scenario expects: one method for each key of
// [expect]. Internal to sim/scenario/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/verdict.h"
#include "sim/scenario/run.h"
#include "sim/scenario/stage.h"
#include "sim/scenario/story.h"

namespace verbena::sim {

class Checker {
 public:
  Checker(Stage& stage, const Story& story) : stage_(stage), story_(story) {}

  /// What isn't met, in the order of the keys below.
  [[nodiscard]] std::vector<Mismatch> check();

 private:
  /// Without an event, the end of the trace is shown.
  void mismatch(Place place, std::string message, std::optional<std::size_t> event = std::nullopt) {
    if (!event && !trace().empty()) {
      event = trace().size() - 1;
    }
    mismatches_.push_back({place, std::move(message), event});
  }
  /// The last event of a kind at a host.
  [[nodiscard]] std::optional<std::size_t> last_event(TraceKind kind, std::size_t host) {
    for (std::size_t i = trace().size(); i > 0; --i) {
      // Hosts are the first stations.
      if (trace()[i - 1].kind == kind && trace()[i - 1].station == StationId(host)) {
        return i - 1;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] const std::string& host_name(std::size_t host) {
    return stage_.hosts()[host].spec->name;
  }

  void check_packets(const Expectations::Lines& lines);
  void note_fates();
  std::optional<std::string> compare_packet(Line line, const TraceEvent& event);
  std::optional<std::string> compare_transport(Line& line, const TraceEvent& event);
  std::optional<std::string> compare_segment(Line& line, const TraceEvent& event);
  std::optional<std::string> compare_verdict(Line& line, const TraceEvent& event, Psn first);
  void check_completions(const Expectations::Lines& lines);
  std::optional<std::string> compare_completion(Line& line, const Completion& completion);
  void check_states(const Expectations::Lines& lines);
  void check_path_state(const Word& expected, std::size_t host, const nic::Qp& qp);
  void check_events(const Expectations::Lines& lines);
  void check_connections(const Expectations::Lines& lines);
  void check_counters(const Expectations::Lines& lines);
  void check_memory(const Expectations::Lines& lines);
  void check_objects(const Expectations::Lines& lines);
  void check_end(const std::optional<Line>& line);

  [[nodiscard]] const std::vector<TraceEvent>& trace() {
    return stage_.simulation().trace().events();
  }

  Stage& stage_;
  const Story& story_;
  std::vector<Mismatch> mismatches_;
  /// By frame: those that were lost, and what the receiver made of the others when they first came.
  std::set<std::uint64_t> lost_;
  std::map<std::uint64_t, RxVerdict> verdicts_;
};

/// Names are told in lower case.
[[nodiscard]] std::string lower(std::string text);

}  // namespace verbena::sim
