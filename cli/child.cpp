#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "cli/exit_status.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds look_interval{20};
/// What a program gets to clean up between being asked to end and being made to.
constexpr milliseconds grace{3000};
constexpr int signal_status_base = 128;

/// The signal that OrderlyEnd has caught; 0 for none.
volatile std::sig_atomic_t caught_signal = 0;

extern "C" void note_signal(int number) { caught_signal = number; }

bool redirect(const fs::path& file, int descriptor) {
  if (file.empty()) {
    return true;
  }
  constexpr mode_t mode = 0644;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  return fd >= 0 && ::dup2(fd, descriptor) >= 0;
}

/// As a shell tells it.
int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                : signal_status_base + WTERMSIG(wait_status);
}

extern "C" void end_group(int /*number*/) { ::kill(0, SIGKILL); }

/// Makes this process the leader of a group and returns in another one, which becomes the program;
/// its parent is returned. The leader waits for the program and ends as it does. When `parent` is
/// gone, by whatever signal, the leader ends the group: the program's end alone would leave what
/// the program has started.
pid_t lead_group(pid_t parent) {
  constexpr int parent_is_gone = SIGUSR1;
  ::setpgid(0, 0);
  struct sigaction action{};
  action.sa_handler = end_group;
  ::sigaction(parent_is_gone, &action, nullptr);
  // The group is asked to end by this one, and the leader is of the group.
  action.sa_handler = note_signal;
  ::sigaction(SIGTERM, &action, nullptr);
  ::prctl(PR_SET_PDEATHSIG, parent_is_gone);
  const pid_t leader = ::getpid();
  const pid_t program = ::fork();
  if (program == 0) {
    return leader;
  }
  if (::getppid() != parent) {
    end_group(parent_is_gone);
  }
  int status = 0;
  while (::waitpid(program, &status, 0) != program) {
    if (errno != EINTR) {
      ::_exit(exit_not_found);
    }
  }
  ::_exit(status_of(status));
}

/// In the child, between fork() and exec().
[[noreturn]] void become(const ChildPlan& plan, std::vector<char*>& arguments, pid_t parent) {
  if (plan.leads_group) {
    parent = lead_group(parent);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::getppid() == parent && null >= 0 && ::dup2(null, STDIN_FILENO) >= 0 &&
      redirect(plan.output, STDOUT_FILENO) && redirect(plan.errors, STDERR_FILENO)) {
    for (const auto& [name, value] : plan.variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    ::execvp(arguments[0], arguments.data());
  }
  ::_exit(exit_not_found);
}

}  // namespace

OrderlyEnd::OrderlyEnd() {
  struct sigaction action{};
  action.sa_handler = note_signal;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &before_[i]);
    // What is ignored stays ignored (nohup(1)).
    if (before_[i].sa_handler != SIG_IGN) {
      ::sigaction(signals[i], &action, nullptr);
    }
  }
}

OrderlyEnd::~OrderlyEnd() {
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], &before_[i], nullptr);
  }
  if (caught_signal != 0) {
    ::raise(caught_signal);
  }
}

void pause_between_looks() {
  if (caught_signal != 0) {
    throw Interrupted();
  }
  std::this_thread::sleep_for(look_interval);
}

Result<Child, std::string> Child::start(const ChildPlan& plan) {
  std::vector<std::string> words = plan.words;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return std::unexpected(
        fmt::format("can't start {}: {}", plan.words[0], std::generic_category().message(errno)));
  }
  if (pid == 0) {
    become(plan, arguments, parent);
  }
  if (plan.leads_group) {
    // By both, so that it is done whoever comes first.
    ::setpgid(pid, pid);
  }
  return {Child(pid, plan.leads_group)};
}

Child::~Child() {
  if (pid_ > 0) {
    end();
  }
}

std::optional<int> Child::poll() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) {
    return std::nullopt;
  }
  pid_ = -1;
  return status_of(status);
}

int Child::end() {
  // A group is there until the last of it is gone, whatever became of its leader.
  const pid_t target = leads_group_ ? -pid_ : pid_;
  std::optional<int> status;
  for (const int number : {SIGTERM, SIGKILL}) {
    ::kill(target, number);
    const auto deadline = steady_clock::now() + grace;
    while (steady_clock::now() < deadline) {
      if (!status) {
        status = poll();
      }
      if (status && (!leads_group_ || ::kill(target, 0) != 0)) {
        return *status;
      }
      std::this_thread::sleep_for(look_interval);
    }
  }
  return status.value_or(signal_status_base + SIGKILL);
}

ChildEnd Child::wait(milliseconds limit, const std::function<bool()>& give_up) {
  const auto deadline = steady_clock::now() + limit;
  while (true) {
    if (const auto status = poll()) {
      // A terminal's Ctrl-C goes to the child, too: its end is none that means something.
      if (caught_signal != 0) {
        throw Interrupted();
      }
      return {.status = *status};
    }
    if (steady_clock::now() >= deadline || (give_up && give_up())) {
      return {.status = end(), .timed_out = true};
    }
    pause_between_looks();
  }
}

ChildEnd run_child(const ChildPlan& plan, milliseconds limit) {
  auto child = Child::start(plan);
  return child ? child->wait(limit) : ChildEnd{.status = exit_not_found};
}

ScratchDirectory::ScratchDirectory(const std::string& name) {
  std::string pattern = (fs::temp_directory_path() / (name + ".XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw fs::filesystem_error("can't make a directory", pattern,
                               std::error_code(errno, std::generic_category()));
  }
  path_ = pattern;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace verbena::cli
