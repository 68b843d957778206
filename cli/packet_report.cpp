// What `verbena xcheck --packets` prints and writes.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/exit_status.h"
#include "cli/xcheck_matrix.h"
#include "cli/xcheck_packets.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::ordered_json;

std::size_t count(const std::vector<PacketCheck>& checks, std::string_view result) {
  return static_cast<std::size_t>(std::ranges::count(
      checks, result, [](const PacketCheck& check) -> std::string_view { return check.result; }));
}

std::string in_words(const AnswerDifference& difference) {
  return fmt::format("{}: ours {}, theirs {}", difference.what, difference.ours, difference.theirs);
}

/// All that is to be said of a scenario, in one line.
std::string words_of(const PacketCheck& check) {
  std::string text = check.words;
  for (const auto& [difference, rule] : check.differences) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", in_words(difference),
                        rule.empty() ? "" : ": ", rule);
  }
  return text;
}

void print_text(const std::vector<PacketCheck>& checks, const PacketPlan& plan) {
  for (const PacketCheck& check : checks) {
    if (check.result == "unsuited") {
      continue;
    }
    const std::string result = check.result == "agrees" || check.result == "known" ? check.result
                               : check.result == "differs"                         ? "DIFFERS"
                                                                                   : "FAILED";
    fmt::print("{:8}{:56}  {}\n", result, check.name, check.title);
    for (const auto& [difference, rule] : check.differences) {
      fmt::print("          {}\n", in_words(difference));
      if (!rule.empty()) {
        fmt::print("            {}\n", rule);
      }
    }
    if (!check.words.empty()) {
      fmt::print("          {}\n", check.words);
    }
  }
  fmt::print(
      "against {}: {} agree, {} differ, {} differ as is known, {} failed; {} are no scripts "
      "for another device\n",
      plan.against, count(checks, "agrees"), count(checks, "differs"), count(checks, "known"),
      count(checks, "failed"), count(checks, "unsuited"));
}

Json to_json(const AnswerWords& words) {
  return {{"packets", words.packets},
          {"completions", words.completions},
          {"events", words.events},
          {"state", words.state},
          {"memory", words.memory}};
}

void print_json(const std::vector<PacketCheck>& checks, const PacketPlan& plan) {
  auto rows = Json::array();
  for (const PacketCheck& check : checks) {
    auto found = Json::array();
    for (const auto& [difference, rule] : check.differences) {
      found.push_back({{"what", difference.what},
                       {"ours", difference.ours},
                       {"theirs", difference.theirs},
                       {"rule", rule}});
    }
    rows.push_back({{"scenario", check.name},
                    {"title", check.title},
                    {"result", check.result},
                    {"differences", std::move(found)},
                    {"ours", to_json(check.ours)},
                    {"theirs", to_json(check.theirs)},
                    {"words", check.words}});
  }
  const Json json{{"against", plan.against}, {"scenarios", std::move(rows)}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

/// As the matrix has it, so that both are written by the same code: the scenario is the operation.
Matrix as_matrix(const std::vector<PacketCheck>& checks) {
  Matrix matrix;
  for (const PacketCheck& check : checks) {
    MatrixCell cell;
    cell.operation = check.name;
    cell.initiator = "the script";
    cell.result = check.result == "failed"     ? "differs"
                  : check.result == "unsuited" ? "unsupported"
                                               : check.result;
    cell.words = words_of(check);
    matrix.push_back(std::move(cell));
  }
  return matrix;
}

}  // namespace

int report_packets(const std::vector<PacketCheck>& checks, const PacketPlan& plan, bool is_json,
                   const std::string& junit) {
  is_json ? print_json(checks, plan) : print_text(checks, plan);
  if (!junit.empty()) {
    if (const auto written = write_junit(as_matrix(checks), plan.against, junit); !written) {
      fmt::print(stderr, "verbena xcheck: {}\n", written.error());
      return exit_failed;
    }
  }
  return count(checks, "differs") + count(checks, "failed") == 0 ? exit_ok : exit_failed;
}

}  // namespace verbena::cli
