// `verbena run`: starts a program with our libibverbs in front of the system's. Everything that can
// be wrong with the options is told before the program starts.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/exit_status.h"
#include "cli/libraries.h"
#include "cli/path_view.h"
#include "cli/run_capture.h"
#include "ports/device_config.h"
#include "ports/real_devices.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* library_path_variable = "LD_LIBRARY_PATH";

int complain(int status, const std::string& text) {
  fmt::print(stderr, "verbena: {}\n", text);
  return status;
}

/// The file that execvp() would run; nullopt if there is none.
std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string file = (directory.empty() ? "." : directory) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) {
      return file;
    }
  }
  return std::nullopt;
}

/// The dynamic linker ignores LD_LIBRARY_PATH where it would lift privileges (ld.so(8)): the
/// program would silently run without us.
void warn_if_privileged(const std::string& program) {
  struct stat status{};
  if (::stat(program.c_str(), &status) != 0) {
    return;
  }
  const bool changes_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
  const bool changes_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != ::getgid();
  const bool has_capabilities =
      ::getxattr(program.c_str(), "security.capability", nullptr, 0) > 0 && ::getuid() != 0;
  if (changes_user || changes_group || has_capabilities) {
    fmt::print(stderr,
               "verbena: warning: {} gains privileges when it starts, so the system ignores {} and "
               "it won't see our devices. Run a copy of it without them.\n",
               program, library_path_variable);
  }
}

void set_environment(const DeviceOptions& options, const std::string& libraries) {
  for (const auto& [variable, value] : options.values()) {
    ::setenv(variable.c_str(), value.c_str(), 1);
  }
  const char* before = std::getenv(library_path_variable);
  const std::string path =
      before == nullptr || *before == '\0' ? libraries : libraries + ":" + before;
  ::setenv(library_path_variable, path.c_str(), 1);
}

/// Returns only if the program can't be started.
int execute(const std::vector<std::string>& program) {
  std::vector<std::string> words = program;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error_number = errno;
  if (error_number == ENOENT) {
    return complain(exit_not_found, program[0] + ": command not found");
  }
  return complain(exit_cannot_execute, fmt::format("{}: can't be executed: {}", program[0],
                                                   std::strerror(error_number)));
}

/// Lets the program find our devices in the file system, as far as it is to. Nothing is to be run
/// if that was asked for and can't be; by default it is a service that most programs don't need.
bool prepare_paths(const std::string& name, const std::vector<ports::DeviceConfig>& devices,
                   const std::string& libraries) {
  const auto view = path_view_of(name);
  if (!view) {
    complain(exit_usage, "--view is auto, userns, preload or none, not \"" + name + "\"");
    return false;
  }
  const auto shown = show_paths(*view, devices, libraries);
  if (shown) {
    return true;
  }
  const bool may_do_without = *view == PathView::automatic;
  fmt::print(stderr, "verbena: {}--view {}: {}{}\n", may_do_without ? "warning: " : "", name,
             shown.error(),
             may_do_without ? "; programs that look into /sys/class/infiniband won't find our "
                              "devices there"
                            : "");
  return may_do_without;
}

int run(DeviceOptions& options, const std::string& view, const std::vector<std::string>& program) {
  if (program.empty()) {
    return complain(exit_usage,
                    "there is no command to run. Put it behind --: verbena run -- ib_write_bw");
  }
  const auto libraries = library_directory();
  if (!libraries) {
    return complain(exit_failed, fmt::format("{} is neither in ../lib/verbena nor in ../lib of "
                                             "this executable; build or install it first",
                                             library_name));
  }
  // A relative name means this directory, whatever the program makes its own.
  for (const char* file : {ports::env::config, ports::env::faults, ports::env::real_libibverbs}) {
    if (const std::string name = options.value_of(file); !name.empty()) {
      options.set(file, fs::absolute(name).string());
    }
  }
  const auto devices = options.load_devices();
  if (!devices) {
    return complain(exit_usage, devices.error());
  }
  const std::optional<std::string> file = find_program(program[0]);
  if (!file) {
    return complain(exit_not_found, program[0] + ": command not found");
  }
  if (const std::string wanted = options.value_of(ports::env::capture); !wanted.empty()) {
    const auto capture = prepare_capture(wanted);
    if (!capture) {
      return complain(exit_usage, capture.error());
    }
    options.set(ports::env::capture, *capture);
  }
  warn_if_privileged(*file);
  // The files of real devices are where they are; a view of ours would hide them.
  const auto real = ports::load_real_devices(options.environment());
  const bool has_real = real && real->wanted;
  if (has_real && view != "auto" && view != "none") {
    return complain(exit_usage,
                    fmt::format("--view {} would hide the files of real devices; beside "
                                "those, --view is none",
                                view));
  }
  if (!prepare_paths(has_real ? "none" : view, *devices, *libraries)) {
    return exit_usage;
  }
  set_environment(options, *libraries);
  return execute(program);
}

std::string footer() {
  std::string text =
      "Everything behind -- is the command and its arguments. It runs as it would without us, but "
      "that\nit finds our devices. Its exit status is ours; 127 is: command not found, 126: not "
      "executable,\n2: an option makes no sense and nothing was run.\n\n"
      "--capture writes pcapng, which Wireshark and `verbena dump` read. FILE may be a FIFO, or -: "
      "then\nthe capture is standard output, and what the command prints goes to standard error:\n"
      "  verbena run --capture - -- ib_send_bw 127.0.0.1 | verbena dump -\n"
      "If the command is several processes, each has a capture of its own: the first one takes "
      "FILE,\nthe others put their process ID before its extension. A pipe takes one at a time.\n\n"
      "--view is for programs that look for devices in the file system before they ask libibverbs, "
      "such as\nUCX's. preload puts a library in front of the C library's file functions, and is "
      "what "
      "auto does.\nuserns runs the command in a user and mount namespace of its own, where the "
      "files "
      "are in place also\nfor programs that make system calls by themselves; but nobody is there "
      "but "
      "you, and a privilege\nthat you have ends there. Beside real devices (--real-devices), "
      "whose files\nthey would hide, auto is none.\n\n"
      "Each option but --view has a variable that does the same without `verbena run`:\n";
  for (const ports::EnvironmentVariable& variable : ports::environment_variables()) {
    text += fmt::format("  {:28}{}\n", variable.name,
                        variable.option != nullptr ? variable.option : variable.help);
  }
  return text;
}

}  // namespace

void add_run(CLI::App& app, int& status, const std::vector<std::string>& program) {
  auto options = std::make_shared<DeviceOptions>();
  auto view = std::make_shared<std::string>("auto");
  CLI::App* command = app.add_subcommand(
      "run", "Run a command with our devices: verbena run [OPTIONS] -- COMMAND [ARGUMENTS]");
  options->add_to(*command);
  command
      ->add_option("--view", *view,
                   "how programs find the devices in /sys/class/infiniband and /dev/infiniband: "
                   "auto, userns, preload or none (auto)")
      ->type_name("HOW");
  command->footer(footer());
  command->callback([options, view, &status, &program] { status = run(*options, *view, program); });
}

}  // namespace verbena::cli
