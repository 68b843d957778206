// A program that this command starts and waits for, for a limited time.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
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
  /// What it starts is ended with it, or with this process. A terminal's Ctrl-C then comes to this
  /// process only.
  bool leads_group = false;
};

/// How it ended: with an exit status as a shell tells it (128 + n for signal n), or by us.
struct ChildEnd {
  int status = 0;
  bool timed_out = false;
};

/// What waits throws this when somebody wants this process to end.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// While it lives, what a terminal or a user sends to end a program ends waits instead, so that
/// children are ended and scratch directories removed on the way out. The signal ends the process
/// when this object goes: make it before all those, and no second one.
class OrderlyEnd {
 public:
  OrderlyEnd();
  OrderlyEnd(const OrderlyEnd&) = delete;
  OrderlyEnd& operator=(const OrderlyEnd&) = delete;
  ~OrderlyEnd();

  static constexpr std::array signals{SIGHUP, SIGINT, SIGTERM};

 private:
  std::array<struct sigaction, signals.size()> before_{};
};

/// Sleeps until it is time to look again at what is waited for. Throws Interrupted.
void pause_between_looks();

/// A running child. It ends when this process does, and when this object does.
class Child {
 public:
  /// The error is a sentence. A program that can't be executed ends with 127.
  [[nodiscard]] static Result<Child, std::string> start(const ChildPlan& plan);

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), leads_group_(other.leads_group_) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  /// Waits until it ends, `give_up` says so or `limit` is over; in the latter two cases it is asked
  /// to end, and a few seconds later made to. Throws Interrupted.
  [[nodiscard]] ChildEnd wait(std::chrono::milliseconds limit,
                              const std::function<bool()>& give_up = {});

 private:
  Child(pid_t pid, bool leads_group) : pid_(pid), leads_group_(leads_group) {}

  [[nodiscard]] std::optional<int> poll();
  int end();

  pid_t pid_;
  bool leads_group_;
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
