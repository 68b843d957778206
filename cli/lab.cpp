// `verbena lab`: a Linux with RDMA devices that nobody here wrote, in a virtual machine: the
// kernel's rdma_rxe (RoCE v2) and siw (iWARP).
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/file_lock.h"
#include "cli/lab_guest.h"
#include "cli/lab_places.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

/// As timeout(1) and env(1) have them, so that scripts can tell them from the command's own.
constexpr int exit_timed_out = 124;
constexpr int exit_no_guest = 125;
/// The build takes a minute or two; a mirror may be slow.
constexpr std::chrono::minutes build_limit{20};

int fail(int status, const std::string& sentence) {
  fmt::print(stderr, "verbena lab: {}\n", sentence);
  return status;
}

/// One build at a time.
Result<FileLock, std::string> lock_build(const LabPlaces& places) {
  std::error_code failure;
  fs::create_directories(places.cache, failure);
  return FileLock::take(places.lock(), FileLock::Kind::exclusive,
                        "verbena lab: somebody builds the guest already; waiting");
}

/// Nobody's guest runs from what is there.
Result<FileLock, std::string> lock_users_out(const LabPlaces& places) {
  return FileLock::take(places.users(), FileLock::Kind::exclusive,
                        "verbena lab: somebody runs the guest that is there; waiting for the end "
                        "of that");
}

int build_guest(const LabPlaces& places) {
  if (const auto missing = missing_lab_packages(); !missing.empty()) {
    return fail(exit_failed, fmt::format("packages are missing. As root:\n  apt-get install "
                                         "--no-install-recommends {}",
                                         fmt::join(missing, " ")));
  }
  const fs::path fresh = places.cache / "building";
  fs::remove_all(fresh);
  fs::create_directories(fresh);
  const ChildEnd end = run_child(
      {.words = {(places.tools / "build_guest.sh").string(), fresh.string()}, .leads_group = true},
      build_limit);
  if (end.status != 0) {
    return fail(exit_failed, fmt::format("the guest couldn't be built{}; what there is of it: {}",
                                         end.timed_out ? " in time" : "", fresh.string()));
  }
  stamp_guest(places, fresh);
  const auto unused = lock_users_out(places);
  if (!unused) {
    return fail(exit_failed, unused.error());
  }
  fs::remove_all(places.guest());
  fs::rename(fresh, places.guest());
  return exit_ok;
}

int build(const LabPlaces& places, bool again) {
  const OrderlyEnd orderly_end;
  const auto lock = lock_build(places);
  if (!lock) {
    return fail(exit_failed, lock.error());
  }
  if (again || lab_state(places) != LabState::ready) {
    if (const int status = build_guest(places); status != exit_ok) {
      return status;
    }
  }
  fmt::print(
      "The guest is ready in {}: Linux {}, {}.\n", places.guest().string(), guest_kernel(places),
      choose_accelerator(places) == "kvm" ? "by KVM" : "without KVM, about ten times slower");
  return exit_ok;
}

struct RunOptions {
  GuestPlan plan;
  std::string link;
  std::vector<std::string> forwards;
  std::string share;
  std::string accelerator;
  unsigned timeout_s = 120;
};

/// One word is a line for the shell; several are a program and its arguments.
std::string shell_line(const std::vector<std::string>& program) {
  if (program.size() == 1) {
    return program[0];
  }
  std::string line;
  for (const std::string& word : program) {
    line += '\'';
    for (const char letter : word) {
      line += letter == '\'' ? "'\\''" : std::string(1, letter);
    }
    line += "' ";
  }
  return line;
}

/// `qemu:PATH`, as `verbena run --link` has it, or just PATH.
fs::path link_path(const std::string& link) {
  constexpr std::string_view scheme = "qemu:";
  return link.empty() ? fs::path()
                      : fs::absolute(link.substr(link.starts_with(scheme) ? scheme.size() : 0));
}

/// "HERE:THERE", ports; nullopt if it is something else.
std::optional<std::pair<std::uint16_t, std::uint16_t>> ports_of(const std::string& words) {
  std::pair<std::uint16_t, std::uint16_t> ports;
  const char* end = words.data() + words.size();
  const auto here = std::from_chars(words.data(), end, ports.first);
  if (here.ec != std::errc{} || here.ptr == end || *here.ptr != ':') {
    return std::nullopt;
  }
  const auto there = std::from_chars(here.ptr + 1, end, ports.second);
  return there.ec == std::errc{} && there.ptr == end ? std::optional(ports) : std::nullopt;
}

int run(const LabPlaces& places, const RunOptions& options,
        const std::vector<std::string>& program) {
  const OrderlyEnd orderly_end;
  if (program.empty()) {
    return fail(exit_usage,
                "there is no command to run. Put it behind --: verbena lab run -- "
                "ibv_devinfo");
  }
  if (lab_state(places) == LabState::outdated) {
    fmt::print(stderr,
               "verbena lab: the guest is of another version; `verbena lab build` "
               "renews it\n");
  }
  GuestPlan plan = options.plan;
  plan.command = shell_line(program);
  plan.link = link_path(options.link);
  for (const std::string& words : options.forwards) {
    const auto ports = ports_of(words);
    if (!ports) {
      return fail(exit_usage,
                  fmt::format("--forward wants two ports, as 4000:18515, not {}", words));
    }
    plan.forwards.push_back(*ports);
  }
  plan.limit = std::chrono::seconds(options.timeout_s);
  if (!options.share.empty()) {
    plan.share = fs::absolute(options.share);
    if (!fs::is_directory(plan.share)) {
      return fail(exit_usage, plan.share.string() + " isn't a folder");
    }
  }
  plan.accelerator = options.accelerator.empty() ? choose_accelerator(places) : options.accelerator;
  const auto result = run_in_guest(places, plan);
  if (!result) {
    return fail(exit_no_guest, result.error());
  }
  if (result->end == GuestEnd::done) {
    return result->status;
  }
  fmt::print(stderr, "verbena lab: {}", in_words(*result, plan));
  return result->end == GuestEnd::timed_out ? exit_timed_out : exit_no_guest;
}

const char* name_of(LabState state) {
  switch (state) {
    case LabState::missing:
      return "missing";
    case LabState::outdated:
      return "outdated";
    case LabState::ready:
      return "ready";
  }
  return "?";
}

int show_status(const LabPlaces& places, bool is_json) {
  const LabState state = lab_state(places);
  const auto missing = missing_lab_packages();
  const std::string accelerator = remembered_accelerator(places).value_or("not tried");
  if (is_json) {
    const nlohmann::ordered_json json{{"guest", name_of(state)},
                                      {"folder", places.guest().string()},
                                      {"kernel", guest_kernel(places)},
                                      {"accelerator", accelerator},
                                      {"missing_packages", missing}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("guest        {}\nfolder       {}\nkernel       {}\naccelerator  {}\n",
               name_of(state), places.guest().string(), guest_kernel(places), accelerator);
    fmt::print("packages     {}\n",
               missing.empty() ? "all there" : fmt::format("missing: {}", fmt::join(missing, " ")));
  }
  return state == LabState::ready ? exit_ok : exit_failed;
}

int clean(const LabPlaces& places) {
  const auto lock = lock_build(places);
  if (!lock) {
    return fail(exit_failed, lock.error());
  }
  const auto unused = lock_users_out(places);
  if (!unused) {
    return fail(exit_failed, unused.error());
  }
  // Only what we put there: VERBENA_LAB may name a folder with other things in it. The locks stay:
  // who waits for one holds its file, and who came later would lock another one.
  for (const char* name : {"guest", "building", "accelerator"}) {
    fs::remove_all(places.cache / name);
  }
  return exit_ok;
}

/// Runs one of the above, unless we don't know where.
template <class Function>
auto with_places(int& status, const Function& function) {
  return [&status, function] {
    const auto places = lab_places();
    status = places ? function(*places) : fail(exit_failed, places.error());
  };
}

void add_lab_run(CLI::App& lab, int& status, const std::vector<std::string>& program) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      lab.add_subcommand("run", "Boot the guest and run a command in it: verbena lab run -- CMD");
  command
      ->add_option("--link", options->link,
                   "UNIX socket of the frames of the guest's eth0 (verbena run --link); the guest "
                   "connects if somebody listens there, else it listens")
      ->type_name("[qemu:]PATH");
  command->add_option("--share", options->share, "folder that is /share in the guest")
      ->type_name("FOLDER");
  command->add_option("--timeout", options->timeout_s, "seconds that the command may take (120)")
      ->type_name("S");
  command
      ->add_option("--nic", options->plan.more_interfaces,
                   "one more interface of the guest, in the words of QEMU's -netdev")
      ->type_name("SPEC");
  command
      ->add_option("--forward", options->forwards,
                   "TCP port of 127.0.0.1 that leads to a port of the guest's last interface")
      ->type_name("PORT:PORT");
  command->add_option("--accel", options->accelerator, "kvm or tcg, instead of what a trial found")
      ->check(CLI::IsMember({"kvm", "tcg"}));
  command->footer(
      "A command of one word is a line for the guest's shell. Its output and its exit status are\n"
      "ours; 124: it took too long, 125: the guest didn't come up, though it was tried twice.\n"
      "The guest's last interface leads to this host by QEMU's own network: 10.0.2.2 is the host.\n"
      "/tools/guest is in its PATH:\n"
      "  verbena lab run -- 'rdma_device rxe && ibv_devinfo'\n"
      "  verbena lab run -- 'rdma_device siw && ibv_devinfo'");
  command->callback(with_places(status, [options, &program](const LabPlaces& places) {
    return run(places, *options, program);
  }));
}

}  // namespace

void add_lab(CLI::App& app, int& status, const std::vector<std::string>& program) {
  CLI::App* lab =
      app.add_subcommand("lab", "A Linux with the kernel's own RDMA devices, in a virtual machine");
  lab->require_subcommand(1);

  auto again = std::make_shared<bool>(false);
  CLI::App* command = lab->add_subcommand(
      "build", "Make the guest: a minute or two, once; 700 MB in the user's cache");
  command->add_flag("--again", *again, "even if it is there");
  command->callback(
      with_places(status, [again](const LabPlaces& places) { return build(places, *again); }));

  add_lab_run(*lab, status, program);

  auto is_json = std::make_shared<bool>(false);
  command = lab->add_subcommand("status", "Is the guest there, and how is it run?");
  command->add_flag("--json", *is_json, "As JSON");
  command->callback(with_places(
      status, [is_json](const LabPlaces& places) { return show_status(places, *is_json); }));

  command = lab->add_subcommand("clean", "Remove the guest");
  command->callback(with_places(status, clean));
  lab->footer("The guest is kept in the user's cache; VERBENA_LAB names another folder.");
}

}  // namespace verbena::cli
