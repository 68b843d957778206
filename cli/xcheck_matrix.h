// The matrix of `verbena xcheck`: what came of each operation between our device and another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::cli {

struct MatrixCell {
  std::string operation;
  /// How the ends were connected: "verbs" (each changed its queue pair's states), "cm" (rdma_cm),
  /// and what was set besides ("cm, CRC on").
  std::string way;
  /// Of the message; of private data where the operation is about the connection.
  std::uint32_t bytes = 0;
  std::uint32_t mtu_bytes = 0;
  /// "ours" or "theirs".
  std::string initiator;
  /// "agrees", "differs", "known" (a difference that is theirs, with a rule) or "unsupported".
  std::string result;
  /// The first difference, if it isn't "agrees".
  std::string words;
};

using Matrix = std::vector<MatrixCell>;

/// Of a file of JSON lines, as the conformance program's role `master` writes them. The error is a
/// sentence.
[[nodiscard]] Result<Matrix, std::string> read_matrix(const std::string& path);

/// Turns "differs" into "known", and adds the rule, where it is a known bug of whom we are against,
/// or if `loses` (frames are lost on purpose), what an unreliable service may do.
void explain_known(Matrix& matrix, const std::string& against, bool loses);

/// How many cells have this result.
[[nodiscard]] std::size_t count(const Matrix& matrix, const std::string& result);

/// Rows of operations, ways and initiators, columns of sizes; then the differences in words.
void print_matrix(const Matrix& matrix, const std::string& against);
void print_matrix_json(const Matrix& matrix, const std::string& against);

/// As test suites have them, for CI. The error is a sentence.
[[nodiscard]] Result<void, std::string> write_junit(const Matrix& matrix,
                                                    const std::string& against,
                                                    const std::string& path);

}  // namespace verbena::cli
