// A screen that is drawn again and again, where standard output is a terminal; elsewhere the same
// lines one after the other, without escape codes.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace verbena::cli {

class Screen {
 public:
  /// `is_live`, on a terminal, takes it over: the alternate screen, keys without echo. Signals that
  /// would end us end wait() instead, so that the terminal is given back. Else lines just follow
  /// each other.
  explicit Screen(bool is_live);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// How many lines draw() shows; without a terminal there is no end.
  [[nodiscard]] std::size_t rows() const;
  /// False if nobody reads it any more.
  bool draw(const std::vector<std::string>& lines) const;
  /// Waits for so long, or until the size changes. False: the user wants to leave.
  [[nodiscard]] bool wait(std::chrono::duration<double> time) const;

 private:
  [[nodiscard]] bool key_says_quit() const;

  bool has_terminal_;
  std::optional<termios> terminal_before_;
  sigset_t signals_before_{};
};

}  // namespace verbena::cli
