#include "cli/xcheck_compare.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/bounded_line.h"
#include "cli/xcheck_accepted.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::string> text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? std::optional(found->get<std::string>())
                                                   : std::nullopt;
}

bool add(Observations& all, const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return false;
  }
  const auto test_case = text_of(json, "case");
  const auto step = text_of(json, "step");
  const auto field = text_of(json, "field");
  const auto value = text_of(json, "value");
  if (!test_case || !step || !field || !value) {
    return false;
  }
  ObservationName name{*test_case, *step, *field};
  if (all.values.emplace(name, *value).second) {
    all.order.push_back(std::move(name));
  }
  return true;
}

Json to_json(const std::vector<Difference>& differences) {
  auto list = Json::array();
  for (const Difference& difference : differences) {
    list.push_back({{"case", difference.name.test_case},
                    {"step", difference.name.step},
                    {"field", difference.name.field},
                    {"ours", difference.ours},
                    {"theirs", difference.theirs},
                    {"rule", difference.rule}});
  }
  return list;
}

std::string shown(const std::string& value) { return value.empty() ? "(not observed)" : value; }

std::string in_words(const Difference& difference) {
  return fmt::format("{}, {}: ours {}, theirs {}", difference.name.step, difference.name.field,
                     shown(difference.ours), shown(difference.theirs));
}

void print_difference(const Difference& difference) {
  fmt::print("  {}: {}\n", difference.name.test_case, in_words(difference));
}

MatrixCell* cell_of(Matrix& matrix, const Difference& difference) {
  for (MatrixCell& cell : matrix) {
    if (cell.operation == difference.name.test_case) {
      return &cell;
    }
  }
  return nullptr;
}

}  // namespace

Result<Observations, std::string> read_observations(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return std::unexpected("can't read " + path);
  }
  Observations all;
  std::size_t number = 0;
  bool is_whole = true;
  for (std::string line; read_line(file, line, is_whole);) {
    ++number;
    if (!is_whole || !add(all, line)) {
      return std::unexpected(
          fmt::format("{}, line {}: not what the conformance program writes", path, number));
    }
  }
  if (all.order.empty()) {
    return std::unexpected(path + " is empty");
  }
  return all;
}

Comparison compare(const Observations& ours, const Observations& theirs) {
  Comparison comparison;
  // lab/conformance/main.c
  const auto transport = ours.values.find({"device", "open", "transport"});
  const bool is_iwarp = transport != ours.values.end() && transport->second == "iWARP";
  std::set<std::string> cases;
  const auto look_at = [&](const ObservationName& name) {
    if (cases.insert(name.test_case).second) {
      comparison.test_cases.push_back(name.test_case);
    }
    const auto our = ours.values.find(name);
    const auto their = theirs.values.find(name);
    Difference difference{name, our == ours.values.end() ? "" : our->second,
                          their == theirs.values.end() ? "" : their->second, ""};
    if (difference.ours == difference.theirs) {
      ++comparison.same;
    } else if (const auto rule = rule_for(difference, is_iwarp)) {
      difference.rule = *rule;
      comparison.accepted.push_back(std::move(difference));
    } else {
      comparison.unexplained.push_back(std::move(difference));
    }
  };
  for (const ObservationName& name : ours.order) {
    look_at(name);
  }
  for (const ObservationName& name : theirs.order) {
    if (!ours.values.contains(name)) {
      look_at(name);
    }
  }
  return comparison;
}

void print_comparison(const Comparison& comparison, bool all) {
  // The rules in the order in which they are met, and where they hold.
  std::vector<std::string> rules;
  std::map<std::string, std::vector<const Difference*>> by_rule;
  for (const Difference& difference : comparison.accepted) {
    auto& list = by_rule[difference.rule];
    if (list.empty()) {
      rules.push_back(difference.rule);
    }
    list.push_back(&difference);
  }
  for (const std::string& rule : rules) {
    const auto& list = by_rule[rule];
    fmt::print("{} time{}: {}\n", list.size(), list.size() == 1 ? "" : "s", rule);
    for (std::size_t i = 0; i < (all ? list.size() : 1); ++i) {
      print_difference(*list[i]);
    }
  }
  if (!comparison.unexplained.empty()) {
    fmt::print("differs, and nobody said why:\n");
  }
  for (const Difference& difference : comparison.unexplained) {
    print_difference(difference);
  }
  fmt::print("{} observations are the same, {} differ as they should, {} differ\n", comparison.same,
             comparison.accepted.size(), comparison.unexplained.size());
}

void print_comparison_json(const Comparison& comparison) {
  const Json json{{"same", comparison.same},
                  {"accepted", to_json(comparison.accepted)},
                  {"unexplained", to_json(comparison.unexplained)}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Matrix as_matrix(const Comparison& comparison) {
  Matrix matrix;
  for (const std::string& test_case : comparison.test_cases) {
    MatrixCell cell;
    cell.operation = test_case;
    cell.result = "agrees";
    matrix.push_back(std::move(cell));
  }
  const auto mark = [&matrix](const Difference& difference, const char* result) {
    MatrixCell* cell = cell_of(matrix, difference);
    if (cell != nullptr && cell->result == "agrees") {
      cell->result = result;
      cell->words = in_words(difference);
    }
  };
  for (const Difference& difference : comparison.unexplained) {
    mark(difference, "differs");
  }
  for (const Difference& difference : comparison.accepted) {
    mark(difference, "known");
  }
  return matrix;
}

}  // namespace verbena::cli
