// The frames of a classic pcap file in tests/data/captures: little-endian, Ethernet, whole frames.
// No more than those files need; it knows nothing of pcap/, whose reader is tested elsewhere.
#pragma once

#include <boost/endian/conversion.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/unit/project_file.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {

inline std::vector<Bytes> read_capture(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ByteView bytes = std::as_bytes(std::span(text));
  const auto u32 = [bytes](std::size_t offset) {
    return boost::endian::little_to_native(read_struct<std::uint32_t>(bytes.subspan(offset)));
  };
  constexpr std::size_t file_header_bytes = 24;
  constexpr std::size_t record_header_bytes = 16;
  REQUIRE(u32(0) == 0xA1B2'C3D4);
  REQUIRE(u32(20) == 1);  // Ethernet.
  std::vector<Bytes> frames;
  for (std::size_t at = file_header_bytes; at < bytes.size();) {
    const std::size_t captured_bytes = u32(at + 8);
    REQUIRE(captured_bytes == u32(at + 12));
    const ByteView frame = bytes.subspan(at + record_header_bytes, captured_bytes);
    frames.emplace_back(frame.begin(), frame.end());
    at += record_header_bytes + captured_bytes;
  }
  return frames;
}

/// All captures, by name, so that failures are told in the same order everywhere.
inline std::vector<std::filesystem::path> capture_paths() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::project_file("tests/data/captures"))) {
    if (entry.path().extension() == ".pcap") {
      paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace verbena::test
