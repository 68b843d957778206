// A program that this command starts and waits for, for a limited time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace verbena::cli {

/// What to start, and with what.
struct ChildPlan {
  /// The program, searched in PATH, and its arguments.
  std::vector<std::string> words;
  /// Variables besides ours.
  std::vector<std::pair<std::string, std::string>> variables = {};
  /// Where its standard output goes; ours if empty.
  std::filesystem::path output = {};
  /// Where its standard error goes; ours if empty.
  std::filesystem::path errors = {};
};

/// How it ended: with an exit status as a shell tells it (128 + n for signal n), or by us.
struct ChildEnd {
  int status = 0;
  bool timed_out = false;
};

/// A running child. It ends when this process does, and when this object does.
class Child {
 public:
  /// The error is a sentence. A program that can't be executed ends with 127.
  [[nodiscard]] static Result<Child, std::string> start(const ChildPlan& plan);

  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  /// Waits until it ends, `give_up` says so or `limit` is over; in the latter two cases it is asked
  /// to end, and a few seconds later made to.
  [[nodiscard]] ChildEnd wait(std::chrono::milliseconds limit,
                              const std::function<bool()>& give_up = {});

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  [[nodiscard]] std::optional<int> poll();
  int end();

  pid_t pid_;
};

/// Starts and waits. One that can't be started has the status 127.
[[nodiscard]] ChildEnd run_child(const ChildPlan& plan, std::chrono::milliseconds limit);

/// A directory that is removed with all that is in it.
class ScratchDirectory {
 public:
  /// Below TMPDIR or /tmp. Throws std::filesystem::filesystem_error if none can be made.
  explicit ScratchDirectory(const std::string& name);
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace verbena::cli
