#include "cli/xcheck_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "cli/bounded_line.h"
#include "cli/xcheck_accepted.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int column_width = 9;

bool parse_cell(const std::string& line, MatrixCell& cell) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return false;
  }
  try {
    json.at("operation").get_to(cell.operation);
    json.at("way").get_to(cell.way);
    json.at("size").get_to(cell.bytes);
    json.at("mtu").get_to(cell.mtu_bytes);
    json.at("initiator").get_to(cell.initiator);
    json.at("result").get_to(cell.result);
    json.at("words").get_to(cell.words);
  } catch (const Json::exception&) {
    return false;
  }
  return true;
}

std::string short_word(const MatrixCell& cell) {
  if (cell.result == "differs") {
    return "DIFFERS";
  }
  return cell.result == "unsupported" ? "-" : cell.result;
}

/// XML 1.0 allows no control characters; a peer's words may have any.
std::string xml(const std::string& text) {
  constexpr char first_printable = ' ';
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        escaped += "&lt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += letter >= first_printable ? letter : '?';
    }
  }
  return escaped;
}

std::string name_of(const MatrixCell& cell) {
  // Of what has no connection: a script, what a device does by itself.
  if (cell.way.empty()) {
    return cell.operation;
  }
  return fmt::format("{} by {}, {} bytes, MTU {}, initiator {}", cell.operation, cell.way,
                     cell.bytes, cell.mtu_bytes, cell.initiator);
}

using RowName = std::tuple<std::string, std::string, std::string>;

constexpr const char* row_format = "{:20}{:12}{:10}";

}  // namespace

Result<Matrix, std::string> read_matrix(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return std::unexpected("can't read " + path);
  }
  Matrix matrix;
  bool is_whole = true;
  for (std::string line; read_line(file, line, is_whole);) {
    MatrixCell cell;
    if (!is_whole || !parse_cell(line, cell)) {
      return std::unexpected(fmt::format("{}, line {}: not what the conformance program writes",
                                         path, matrix.size() + 1));
    }
    matrix.push_back(std::move(cell));
  }
  return matrix;
}

std::size_t count(const Matrix& matrix, const std::string& result) {
  return static_cast<std::size_t>(
      std::ranges::count(matrix, result, [](const MatrixCell& cell) { return cell.result; }));
}

void explain_known(Matrix& matrix, const std::string& against, bool loses) {
  for (MatrixCell& cell : matrix) {
    if (cell.result != "differs") {
      continue;
    }
    auto rule = known_bug(cell, against);
    if (!rule && loses) {
      rule = loss_of_unreliable(cell);
    }
    if (rule) {
      cell.result = "known";
      cell.words += ": " + *rule;
    }
  }
}

void print_matrix(const Matrix& matrix, const std::string& against) {
  std::vector<std::uint32_t> sizes;
  std::vector<RowName> rows;
  std::map<std::pair<RowName, std::uint32_t>, const MatrixCell*> cells;
  for (const MatrixCell& cell : matrix) {
    const RowName row{cell.operation, cell.way, cell.initiator};
    if (std::ranges::find(rows, row) == rows.end()) {
      rows.push_back(row);
    }
    if (std::ranges::find(sizes, cell.bytes) == sizes.end()) {
      sizes.push_back(cell.bytes);
    }
    cells[{row, cell.bytes}] = &cell;
  }
  std::ranges::sort(sizes);
  fmt::print(row_format, "operation", "way", "initiator");
  for (const std::uint32_t size : sizes) {
    fmt::print("{:>{}}", size, column_width);
  }
  fmt::print("\n");
  for (const RowName& row : rows) {
    fmt::print(row_format, std::get<0>(row), std::get<1>(row), std::get<2>(row));
    for (const std::uint32_t size : sizes) {
      const auto found = cells.find({row, size});
      fmt::print("{:>{}}", found == cells.end() ? "" : short_word(*found->second), column_width);
    }
    fmt::print("\n");
  }
  for (const MatrixCell& cell : matrix) {
    if (cell.result == "differs") {
      fmt::print("{}: {}\n", name_of(cell), cell.words);
    }
  }
  std::set<std::string> told;
  for (const MatrixCell& cell : matrix) {
    const std::string line = fmt::format("{} by {}, initiator {}, tells {}", cell.operation,
                                         cell.way, cell.initiator, cell.words);
    if (cell.result == "agrees" && !cell.words.empty() && told.insert(line).second) {
      fmt::print("{}\n", line);
    }
  }
  std::set<std::string> reasons;
  for (const MatrixCell& cell : matrix) {
    if ((cell.result == "known" || cell.result == "unsupported") &&
        reasons.insert(cell.words).second) {
      fmt::print("{}, as of {} with initiator {}: {}\n", cell.result, cell.operation,
                 cell.initiator, cell.words);
    }
  }
  fmt::print("against {}: {} agree, {} differ, {} differ as is known, {} are not supported\n",
             against, count(matrix, "agrees"), count(matrix, "differs"), count(matrix, "known"),
             count(matrix, "unsupported"));
}

void print_matrix_json(const Matrix& matrix, const std::string& against) {
  auto cells = Json::array();
  for (const MatrixCell& cell : matrix) {
    cells.push_back({{"operation", cell.operation},
                     {"way", cell.way},
                     {"size", cell.bytes},
                     {"mtu", cell.mtu_bytes},
                     {"initiator", cell.initiator},
                     {"result", cell.result},
                     {"words", cell.words}});
  }
  const Json json{{"against", against}, {"cells", std::move(cells)}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Result<void, std::string> write_junit(const Matrix& matrix, const std::string& against,
                                      const std::string& path) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"verbena xcheck against {}\" "
      "tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
      xml(against), matrix.size(), count(matrix, "differs"), count(matrix, "unsupported"));
  for (const MatrixCell& cell : matrix) {
    text += fmt::format("  <testcase classname=\"xcheck.{}\" name=\"{}\"", xml(against),
                        xml(name_of(cell)));
    if (cell.result == "agrees" || cell.result == "known") {
      text += "/>\n";
    } else {
      text += fmt::format("><{} message=\"{}\"/></testcase>\n",
                          cell.result == "differs" ? "failure" : "skipped", xml(cell.words));
    }
  }
  text += "</testsuite>\n";
  std::ofstream file(path);
  file << text;
  file.flush();
  if (!file) {
    return std::unexpected("can't write to " + path);
  }
  return {};
}

}  // namespace verbena::cli
