// Shared by the tests of ports/: a private directory, frames with a pattern, waiting with a limit.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"

namespace verbena::ports::test {

/// A directory with mode 0700 that is removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/verbena-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] std::string path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  std::string path_;
};

/// Bytes that depend on a number, so that a frame tells which one it is and whether it is whole.
inline void fill_pattern(MutableBytes bytes, std::uint64_t number) {
  Prng prng(number);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(prng.next());
  }
}

inline bool has_pattern(ByteView bytes, std::uint64_t number) {
  std::vector<std::byte> wanted(bytes.size());
  fill_pattern(wanted, number);
  return std::equal(bytes.begin(), bytes.end(), wanted.begin());
}

/// Calls `done` until it is true, for at most a generous time: on a busy machine two processes that
/// take turns get a few turns a second.
template <class Done>
[[nodiscard]] bool eventually(Done done) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(100);
  while (!done()) {
    if (Clock::now() > end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

}  // namespace verbena::ports::test
