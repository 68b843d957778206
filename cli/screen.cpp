#include "cli/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string_view>

namespace verbena::cli {
namespace {

// Control sequences of ECMA-48 and xterm.
constexpr std::string_view enter = "\033[?1049h\033[?25l";
constexpr std::string_view leave = "\033[?25h\033[?1049l";
constexpr std::string_view home = "\033[H";
constexpr std::string_view clear_to_end_of_line = "\033[K";
constexpr std::string_view clear_to_end_of_screen = "\033[J";

constexpr std::array ending_signals = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t end_wanted = 0;

void want_end(int /*number*/) { end_wanted = 1; }
void only_interrupt(int /*number*/) {}

void handle(int number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigaction(number, &action, nullptr);
}

struct Size {
  std::size_t rows = 24;
  std::size_t columns = 80;
};

Size size_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {};
  }
  return {.rows = size.ws_row, .columns = size.ws_col};
}

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Screen::Screen(bool is_live) : has_terminal_(is_live && ::isatty(STDOUT_FILENO) == 1) {
  if (!has_terminal_) {
    return;
  }
  // They come only while wait() sleeps: none is lost between a look at end_wanted and the sleep.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGWINCH);
  handle(SIGWINCH, &only_interrupt);
  for (const int number : ending_signals) {
    sigaddset(&blocked, number);
    handle(number, &want_end);
  }
  ::sigprocmask(SIG_BLOCK, &blocked, &signals_before_);
  termios terminal{};
  if (::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &terminal) == 0) {
    terminal_before_ = terminal;
    terminal.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
  }
  write_all(enter);
}

Screen::~Screen() {
  if (!has_terminal_) {
    return;
  }
  write_all(leave);
  if (terminal_before_) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &*terminal_before_);
  }
  ::sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
}

std::size_t Screen::rows() const {
  return has_terminal_ ? size_of_terminal().rows : std::numeric_limits<std::size_t>::max();
}

bool Screen::draw(const std::vector<std::string>& lines) const {
  if (!has_terminal_) {
    std::string text;
    for (const std::string& line : lines) {
      text += line + "\n";
    }
    return write_all(text + "\n");
  }
  const Size size = size_of_terminal();
  std::string text(home);
  for (std::size_t row = 0; row < std::min(lines.size(), size.rows); ++row) {
    // No line feed behind the last row: the screen would scroll.
    text += row == 0 ? "" : "\n";
    text += lines[row].substr(0, size.columns);
    text += clear_to_end_of_line;
  }
  text += clear_to_end_of_screen;
  return write_all(text);
}

bool Screen::key_says_quit() const {
  char key = 0;
  const auto bytes = ::read(STDIN_FILENO, &key, 1);
  return bytes == 0 || (bytes == 1 && (key == 'q' || key == 'Q'));
}

bool Screen::wait(std::chrono::duration<double> time) const {
  double seconds = 0;
  const double fraction = std::modf(std::max(time.count(), 0.0), &seconds);
  const timespec limit{.tv_sec = static_cast<time_t>(seconds),
                       .tv_nsec = static_cast<long>(fraction * 1e9)};
  pollfd keys{.fd = terminal_before_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  const int ready = ::ppoll(&keys, 1, &limit, has_terminal_ ? &signals_before_ : nullptr);
  return end_wanted == 0 && !(ready > 0 && key_says_quit());
}

}  // namespace verbena::cli
