// Lines of files that somebody else wrote.
#pragma once

#include <cstddef>
#include <istream>
#include <string>

namespace verbena::cli {

/// A file of one line that never ends isn't one that the conformance program wrote.
inline constexpr std::size_t line_bytes_max = std::size_t{1} << 16U;

/// Reads a line without its end, as std::getline() does, but never more than line_bytes_max: of a
/// longer one `line` is the beginning, `is_whole` false, and nothing more can be read.
inline bool read_line(std::istream& stream, std::string& line, bool& is_whole) {
  line.resize(line_bytes_max + 1);
  stream.getline(line.data(), static_cast<std::streamsize>(line.size()));
  const auto count = static_cast<std::size_t>(stream.gcount());
  is_whole = !stream.fail();
  // What was counted includes the line's end, unless the file ends without one.
  line.resize(is_whole && !stream.eof() ? count - 1 : count);
  return count > 0;
}

}  // namespace verbena::cli
