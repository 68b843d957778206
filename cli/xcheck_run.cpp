#include "cli/xcheck_run.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/child.h"
#include "cli/free_port.h"
#include "cli/lab_guest.h"
#include "cli/lab_places.h"
#include "ports/device_config.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

/// Where agents listen unless told otherwise (lab/conformance/wire.c).
constexpr std::uint16_t agent_port = 18600;
/// Both of the guest's wire. The kernel's device takes its own from lab/guest/rdma_device.
constexpr const char* our_addresses = "10.7.0.1/24,fd00::1/64";
constexpr const char* their_addresses = "10.7.0.2/24 fd00::2/64";
/// A frame of 4096 bytes of payload and all headers fits.
constexpr unsigned wire_mtu_long = 4500;
constexpr unsigned wire_mtu_short = 1500;
/// What fits the frames of most networks.
constexpr unsigned path_mtu_default = 1024;
/// The whole matrix takes about a minute against an emulated guest.
constexpr seconds matrix_limit{300};
constexpr seconds alone_limit{120};

using Error = std::unexpected<std::string>;

std::string contents(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// One run of the conformance program on a device of ours, under `verbena run`.
class OurSide {
 public:
  OurSide(const LabPlaces& places, const ScratchDirectory& scratch, const XcheckPlan& plan)
      : places_(places), scratch_(scratch), plan_(plan) {}

  /// Options of `verbena run` that come first.
  void set_device(std::vector<std::string> options) { options_ = std::move(options); }

  [[nodiscard]] ChildPlan child(std::vector<std::string> arguments,
                                const std::string& output) const {
    std::vector<std::string> words{fs::read_symlink("/proc/self/exe").string(), "run"};
    words.insert(words.end(), options_.begin(), options_.end());
    words.insert(words.end(), {"--", (places_.tools / "conformance").string()});
    words.insert(words.end(), arguments.begin(), arguments.end());
    ChildPlan child{.words = std::move(words)};
    for (const auto& [variable, value] : plan_.device.values()) {
      child.variables.emplace_back(variable, value);
    }
    // A fabric of its own, unless somebody wants one: nobody else's programs are in the way.
    if (plan_.device.value_of("VERBENA_FABRIC").empty()) {
      child.variables.emplace_back("VERBENA_FABRIC", fabric_.path() / "xcheck.fabric");
    }
    child.output = scratch_.path() / output;
    child.errors = scratch_.path() / (output + ".errors");
    return child;
  }

  /// The error is what the program said.
  [[nodiscard]] Result<void, std::string> run(std::vector<std::string> arguments,
                                              const std::string& output, seconds limit) const {
    const std::string role = arguments[0];
    const ChildEnd end = run_child(child(std::move(arguments), output), limit);
    if (end.timed_out) {
      return Error(fmt::format("our side ({}) was still running after {} s", role, limit.count()));
    }
    if (end.status != 0) {
      return Error(fmt::format("our side ({}) ended with {}: {}", role, end.status,
                               contents(scratch_.path() / (output + ".errors"))));
    }
    return {};
  }

  [[nodiscard]] Result<void, std::string> run_master(const std::string& agent) const {
    std::vector<std::string> words{"master", "--agent", agent};
    if (plan_.mtu_bytes != 0) {
      words.insert(words.end(), {"--mtu", fmt::format("{}", plan_.mtu_bytes)});
    }
    if (!plan_.only.empty()) {
      words.insert(words.end(), {"--only", plan_.only});
    }
    if (plan_.uses_ipv6) {
      words.emplace_back("--ipv6");
    }
    return run(std::move(words), "matrix", matrix_limit);
  }

 private:
  const LabPlaces& places_;
  const ScratchDirectory& scratch_;
  const XcheckPlan& plan_;
  std::vector<std::string> options_;
  // Not in the other scratch directory, which the guest may write to.
  ScratchDirectory fabric_{"verbena-xcheck"};
};

/// What takes long is told before it begins.
void tell(std::string_view step) { fmt::print(stderr, "verbena xcheck: {}\n", step); }

unsigned path_mtu(const XcheckPlan& plan) {
  return plan.mtu_bytes != 0 ? plan.mtu_bytes : path_mtu_default;
}

/// Of the guest's interface, which sets the limit of its device.
unsigned wire_mtu(const XcheckPlan& plan) {
  return path_mtu(plan) > path_mtu_default ? wire_mtu_long : wire_mtu_short;
}

/// What the guest is to do: observe, then obey.
std::string guest_command(const XcheckPlan& plan) {
  std::string command = fmt::format("export MTU={}\nrdma_device {} eth0 {} || exit\n",
                                    wire_mtu(plan), plan.against, their_addresses);
  if (plan.compares_api) {
    command += fmt::format(
        "timeout 100 /tools/conformance alone --device {}0 >/share/theirs || exit\n", plan.against);
  }
  if (plan.runs_matrix) {
    // The second interface leads to the host.
    command += "ip address add 10.0.2.15/24 dev eth1; ip link set eth1 up\n";
    command += fmt::format(
        "timeout 280 /tools/conformance agent --once --device {}0 --listen 0.0.0.0:{} {}\n",
        plan.against, agent_port, plan.uses_ipv6 ? "--ipv6" : "");
  }
  return command;
}

Result<void, std::string> check_guest(const LabPlaces& places) {
  if (lab_state(places) == LabState::ready) {
    return {};
  }
  return Error(
      "there is no guest of this version; `verbena lab build` makes it in a minute or two");
}

Result<void, std::string> against_guest(const XcheckPlan& plan, const LabPlaces& places,
                                        const ScratchDirectory& scratch) {
  const std::uint16_t port = free_port();
  const fs::path wire = scratch.path() / "wire";
  std::error_code ignored;
  fs::remove(wire, ignored);
  GuestPlan guest_plan;
  guest_plan.command = guest_command(plan);
  guest_plan.link = wire;
  guest_plan.share = scratch.path();
  guest_plan.output = scratch.path() / "guest";
  guest_plan.limit = matrix_limit + alone_limit;
  guest_plan.accelerator = choose_accelerator(places);
  guest_plan.forwards = {{port, agent_port}};
  tell("booting the guest");
  auto guest = Guest::boot(places, guest_plan);
  if (!guest) {
    return Error(guest.error());
  }
  OurSide ours(places, scratch, plan);
  Result<void, std::string> done;
  if (plan.compares_api) {
    tell("observing both devices, about a minute");
    done = ours.run({"alone"}, "ours", alone_limit);
  }
  if (done && plan.runs_matrix) {
    if (!guest->wait_until_up()) {
      return Error("the guest doesn't come up; " + in_words(guest->wait(), guest_plan));
    }
    tell("the guest is up; running the operations, half a minute or more");
    ours.set_device({"--link", "qemu:" + wire.string(), "--address", our_addresses, "--mtu",
                     fmt::format("{}", path_mtu(plan))});
    done = ours.run_master(fmt::format("127.0.0.1:{}", port));
  }
  if (!done) {
    return Error(
        fmt::format("{}\nwhat the guest said: {}", done.error(), contents(guest_plan.output)));
  }
  const GuestResult result = guest->wait();
  if (result.end != GuestEnd::done || result.status != 0) {
    return Error(fmt::format("the guest's side failed: {}{}", in_words(result, guest_plan),
                             contents(guest_plan.output)));
  }
  return {};
}

/// A guest without KVM may stall for no reason of ours, so it gets a second chance, and that is
/// told. What differs is a result, not an error, and has none.
Result<void, std::string> against_guest_twice(const XcheckPlan& plan, const LabPlaces& places,
                                              const ScratchDirectory& scratch) {
  if (auto ready = check_guest(places); !ready) {
    return ready;
  }
  auto done = against_guest(plan, places, scratch);
  if (!done) {
    fmt::print(stderr, "verbena xcheck: {}\nverbena xcheck: trying once more\n", done.error());
    done = against_guest(plan, places, scratch);
  }
  return done;
}

/// Another one of ours: what must agree always, and needs no guest.
Result<void, std::string> against_self(const XcheckPlan& plan, const LabPlaces& places,
                                       const ScratchDirectory& scratch) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  const OurSide ours(places, scratch, plan);
  std::vector<std::string> words{"agent", "--once", "--listen", address};
  if (plan.uses_ipv6) {
    words.emplace_back("--ipv6");
  }
  auto agent = Child::start(ours.child(std::move(words), "agent"));
  if (!agent) {
    return Error(agent.error());
  }
  return ours.run_master(address);
}

Result<void, std::string> against_agent(const XcheckPlan& plan, const LabPlaces& places,
                                        const ScratchDirectory& scratch) {
  const bool has_port = plan.against.find(':') != std::string::npos;
  return OurSide(places, scratch, plan)
      .run_master(has_port ? plan.against : fmt::format("{}:{}", plan.against, agent_port));
}

}  // namespace

Result<XcheckResult, std::string> run_xcheck(const XcheckPlan& plan) {
  const auto places = lab_places();
  if (!places) {
    return Error(places.error());
  }
  const ScratchDirectory scratch("verbena-xcheck");
  const bool is_guest = plan.against == "rxe" || plan.against == "siw";
  const auto done = is_guest                 ? against_guest_twice(plan, *places, scratch)
                    : plan.against == "self" ? against_self(plan, *places, scratch)
                                             : against_agent(plan, *places, scratch);
  if (!done) {
    return Error(done.error());
  }
  XcheckResult result;
  if (plan.runs_matrix) {
    auto matrix = read_matrix(scratch.path() / "matrix");
    if (!matrix) {
      return Error(matrix.error());
    }
    if (matrix->empty()) {
      return Error(fmt::format("no operation has \"{}\" in its name", plan.only));
    }
    result.matrix = std::move(*matrix);
    explain_known(result.matrix, plan.against);
  }
  if (plan.compares_api) {
    const auto ours = read_observations(scratch.path() / "ours");
    const auto theirs = read_observations(scratch.path() / "theirs");
    if (!ours || !theirs) {
      return Error(ours ? theirs.error() : ours.error());
    }
    result.comparison = compare(*ours, *theirs);
  }
  return result;
}

}  // namespace verbena::cli
