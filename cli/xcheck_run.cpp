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
/// The first of both versions' without its prefix, and the guest's: an iWARP device is told which.
constexpr const char* our_address[] = {"10.7.0.1", "fd00::1"};
constexpr const char* their_address[] = {"10.7.0.2", "fd00::2"};
constexpr const char* their_addresses = "10.7.0.2/24 fd00::2/64";
/// What QEMU's network expects the guest to have.
constexpr const char* guest_address = "10.0.2.15";
/// A frame of 4096 bytes of payload and all headers fits.
constexpr unsigned wire_mtu_long = 4500;
constexpr unsigned wire_mtu_short = 1500;
/// What fits the frames of most networks.
constexpr unsigned path_mtu_default = 1024;
/// The whole matrix takes about a minute against an emulated guest, and several times as long where
/// the machine is busy: only what hangs takes so long. The guest's side ends a bit earlier, and
/// says so.
constexpr seconds matrix_limit{600};
constexpr seconds alone_limit{300};
constexpr seconds guest_ends_earlier{20};

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

  /// What comes of it is in `output`.
  [[nodiscard]] Result<void, std::string> run_master(const std::string& agent,
                                                     const std::string& output) const {
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
    if (plan_.goes_through_cm) {
      words.emplace_back("--through-cm");
    }
    if (plan_.uses_own_tcp) {
      words.insert(words.end(), {"--address", our_address[plan_.uses_ipv6 ? 1 : 0]});
    }
    return run(std::move(words), output, matrix_limit);
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

/// What a run of the matrix has written, and what was set for it besides what the cells tell.
struct Recording {
  fs::path file;
  std::string setting;
};

/// The error is sentences.
using Recordings = Result<std::vector<Recording>, std::string>;

/// A run of the matrix against siw: what is set on our device, as options of `verbena run`.
struct IwarpRun {
  const char* setting;
  std::vector<std::string> options;
};

/// siw computes CRCs for who asks for them, so ours decides, unless the user does.
std::vector<IwarpRun> iwarp_runs(const XcheckPlan& plan) {
  if (!plan.device.value_of(ports::env::mpa_crc).empty()) {
    return {{"", {}}};
  }
  return {{", CRC off", {"--mpa-crc", "off"}}, {", CRC on", {"--mpa-crc", "on"}}};
}

/// The wire is the first interface there, and the second one leads to the host.
std::string devices_on_wire(const XcheckPlan& plan) {
  return fmt::format(
      "export MTU={}\n"
      "rdma_device {} eth0 {} || exit\n"
      "ip address add {}/24 dev eth1; ip link set eth1 up\n",
      wire_mtu(plan), plan.against, their_addresses, guest_address);
}

/// By the system's TCP iWARP needs no wire of its own: what it is asked for comes by QEMU's
/// network, and so do connections, to a port that has the same number there and here.
std::string guest_command_iwarp(const XcheckPlan& plan, std::uint16_t cm_port) {
  std::string command = plan.uses_own_tcp ? devices_on_wire(plan)
                                          : fmt::format("rdma_device {} eth0 {}/24 || exit\n",
                                                        plan.against, guest_address);
  const std::string way = plan.uses_own_tcp
                              ? fmt::format("--address {}", their_address[plan.uses_ipv6 ? 1 : 0])
                              : fmt::format("--cm-port {}", cm_port);
  for (std::size_t i = 0; i < iwarp_runs(plan).size(); ++i) {
    command += fmt::format(
        "timeout {} /tools/conformance agent --once --device {}0 --listen 0.0.0.0:{} {} || exit\n",
        (matrix_limit - guest_ends_earlier).count(), plan.against, agent_port, way);
  }
  return command;
}

std::string guest_command(const XcheckPlan& plan) {
  return devices_on_wire(plan) +
         fmt::format(
             "timeout {} /tools/conformance agent --once --device {}0 --listen 0.0.0.0:{} {}\n",
             (matrix_limit - guest_ends_earlier).count(), plan.against, agent_port,
             plan.uses_ipv6 ? "--ipv6" : "");
}

/// The device by itself, on whichever interface is the first. iWARP connects to its own address.
std::string guest_command_alone(const XcheckPlan& plan) {
  return fmt::format(
      "export MTU={}\n"
      "rdma_device {} eth0 {}/24 || exit\n"
      "timeout {} /tools/conformance alone --device {}0 --address {} >/share/theirs\n",
      wire_mtu(plan), plan.against, guest_address, (alone_limit - guest_ends_earlier).count(),
      plan.against, guest_address);
}

Result<void, std::string> check_guest(const LabPlaces& places) {
  if (lab_state(places) == LabState::ready) {
    return {};
  }
  return Error(
      "there is no guest of this version; `verbena lab build` makes it in a minute or two");
}

/// What both kinds of guests have in common.
GuestPlan guest_plan_of(const LabPlaces& places, const ScratchDirectory& scratch) {
  GuestPlan plan;
  plan.share = scratch.path();
  plan.output = scratch.path() / "guest";
  plan.accelerator = choose_accelerator(places);
  return plan;
}

/// The guest's side of what is done: how it ended, with what it said.
Result<void, std::string> end_guest(Guest& guest, const GuestPlan& plan,
                                    const Result<void, std::string>& done) {
  if (!done) {
    return Error(fmt::format("{}\nwhat the guest said: {}", done.error(), contents(plan.output)));
  }
  const GuestResult result = guest.wait();
  if (result.end != GuestEnd::done || result.status != 0) {
    return Error(fmt::format("the guest's side failed: {}{}", in_words(result, plan),
                             contents(plan.output)));
  }
  return {};
}

Result<void, std::string> wait_for_guest(Guest& guest, const GuestPlan& plan) {
  if (!guest.wait_until_up()) {
    return Error("the guest doesn't come up; " + in_words(guest.wait(), plan));
  }
  tell("the guest is up; running the operations, half a minute or more");
  return {};
}

/// A wire that QEMU makes when the guest boots.
fs::path fresh_wire(const ScratchDirectory& scratch) {
  fs::path wire = scratch.path() / "wire";
  std::error_code ignored;
  fs::remove(wire, ignored);
  return wire;
}

/// On the wire, as options of `verbena run`.
std::vector<std::string> wire_options(const XcheckPlan& plan, const fs::path& wire) {
  return {"--link", "qemu:" + wire.string(),          "--address", our_addresses,
          "--mtu",  fmt::format("{}", path_mtu(plan))};
}

Recordings against_siw(const XcheckPlan& plan, const LabPlaces& places,
                       const ScratchDirectory& scratch) {
  const std::uint16_t port = free_port();
  const std::uint16_t cm_port = free_port();
  const fs::path wire = fresh_wire(scratch);
  const std::vector<IwarpRun> runs = iwarp_runs(plan);
  GuestPlan guest_plan = guest_plan_of(places, scratch);
  guest_plan.command = guest_command_iwarp(plan, cm_port);
  guest_plan.limit = matrix_limit * runs.size();
  guest_plan.forwards = {{port, agent_port}};
  if (plan.uses_own_tcp) {
    guest_plan.link = wire;
  } else {
    guest_plan.forwards.emplace_back(cm_port, cm_port);
  }
  tell("booting the guest");
  auto guest = Guest::boot(places, guest_plan);
  if (!guest) {
    return Error(guest.error());
  }
  std::vector<Recording> recordings;
  auto done = wait_for_guest(*guest, guest_plan);
  OurSide ours(places, scratch, plan);
  for (const IwarpRun& run : runs) {
    const std::string output = fmt::format("matrix{}", recordings.size());
    // siw goes on only after a zero-length message if peers agree on one, and that comes too early
    // for it (docs/cross-validation.md).
    std::vector<std::string> options{"--transport", "iwarp", "--mpa-peer-to-peer", "off"};
    options.insert(options.end(), run.options.begin(), run.options.end());
    if (plan.uses_own_tcp) {
      const auto way = wire_options(plan, wire);
      options.insert(options.end(), way.begin(), way.end());
    }
    ours.set_device(std::move(options));
    if (done) {
      done = ours.run_master(fmt::format("127.0.0.1:{}", port), output);
    }
    recordings.push_back({scratch.path() / output, run.setting});
  }
  done = end_guest(*guest, guest_plan, done);
  return done ? Recordings(std::move(recordings)) : Error(done.error());
}

/// Neither device has a peer: what they observed is in `ours` and `theirs`, and nothing else is
/// recorded.
Recordings observe_both(const XcheckPlan& plan, const LabPlaces& places,
                        const ScratchDirectory& scratch) {
  GuestPlan guest_plan = guest_plan_of(places, scratch);
  guest_plan.command = guest_command_alone(plan);
  guest_plan.limit = matrix_limit;
  tell("booting the guest, then observing both devices; about a minute");
  auto guest = Guest::boot(places, guest_plan);
  if (!guest) {
    return Error(guest.error());
  }
  OurSide ours(places, scratch, plan);
  if (plan.against == "siw") {
    ours.set_device({"--transport", "iwarp"});
  }
  const auto done = end_guest(*guest, guest_plan, ours.run({"alone"}, "ours", alone_limit));
  return done ? Recordings() : Error(done.error());
}

const fs::path sys_devices = "/sys/class/infiniband";

/// "4: RNIC" (enum ibv_node_type).
bool is_rnic(const std::string& device) {
  return contents(sys_devices / device / "node_type").starts_with('4');
}

/// By the libibverbs of whoever runs this, so that no variable of ours may be set for it.
Recordings observe_device(const XcheckPlan& plan, const LabPlaces& places,
                          const ScratchDirectory& scratch) {
  OurSide ours(places, scratch, plan);
  ChildPlan theirs{
      .words = {(places.tools / "conformance").string(), "alone", "--device", plan.against},
      .output = scratch.path() / "theirs",
      .errors = scratch.path() / "theirs.errors"};
  if (is_rnic(plan.against)) {
    ours.set_device({"--transport", "iwarp"});
  }
  if (!plan.device_address.empty()) {
    theirs.words.insert(theirs.words.end(), {"--address", plan.device_address});
  }
  tell(fmt::format("observing ours and {}, about a minute", plan.against));
  if (auto done = ours.run({"alone"}, "ours", alone_limit); !done) {
    return Error(done.error());
  }
  const ChildEnd end = run_child(theirs, alone_limit);
  if (end.status != 0) {
    return Error(fmt::format("observing {} ended with {}: {}", plan.against, end.status,
                             contents(theirs.errors)));
  }
  return Recordings();
}

Recordings against_rxe(const XcheckPlan& plan, const LabPlaces& places,
                       const ScratchDirectory& scratch) {
  const std::uint16_t port = free_port();
  const fs::path wire = fresh_wire(scratch);
  GuestPlan guest_plan = guest_plan_of(places, scratch);
  guest_plan.command = guest_command(plan);
  guest_plan.link = wire;
  guest_plan.limit = matrix_limit;
  guest_plan.forwards = {{port, agent_port}};
  tell("booting the guest");
  auto guest = Guest::boot(places, guest_plan);
  if (!guest) {
    return Error(guest.error());
  }
  OurSide ours(places, scratch, plan);
  ours.set_device(wire_options(plan, wire));
  auto done = wait_for_guest(*guest, guest_plan);
  if (done) {
    done = ours.run_master(fmt::format("127.0.0.1:{}", port), "matrix");
  }
  done = end_guest(*guest, guest_plan, done);
  return done ? Recordings({Recording{scratch.path() / "matrix", ""}}) : Error(done.error());
}

/// A guest without KVM may stall for no reason of ours, so it gets a second chance, and that is
/// told. What differs is a result, not an error, and has none.
Recordings against_guest_twice(const XcheckPlan& plan, const LabPlaces& places,
                               const ScratchDirectory& scratch) {
  if (auto ready = check_guest(places); !ready) {
    return Error(ready.error());
  }
  const auto& against = plan.compares_api       ? observe_both
                        : plan.against == "siw" ? against_siw
                                                : against_rxe;
  auto done = against(plan, places, scratch);
  if (!done) {
    fmt::print(stderr, "verbena xcheck: {}\nverbena xcheck: trying once more\n", done.error());
    done = against(plan, places, scratch);
  }
  return done;
}

/// The rest needs no guest.
Recordings run_master_once(const OurSide& ours, const ScratchDirectory& scratch,
                           const std::string& agent) {
  tell(fmt::format("running the operations with the agent at {}, half a minute or more", agent));
  const auto done = ours.run_master(agent, "matrix");
  return done ? Recordings({Recording{scratch.path() / "matrix", ""}}) : Error(done.error());
}

/// Another one of ours: what must agree always.
Recordings against_self(const XcheckPlan& plan, const LabPlaces& places,
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
  return run_master_once(ours, scratch, address);
}

Recordings against_agent(const XcheckPlan& plan, const LabPlaces& places,
                         const ScratchDirectory& scratch) {
  const bool has_port = plan.against.find(':') != std::string::npos;
  return run_master_once(OurSide(places, scratch, plan), scratch,
                         has_port ? plan.against : fmt::format("{}:{}", plan.against, agent_port));
}

/// All that was recorded, one behind the other.
Result<Matrix, std::string> matrix_of(const std::vector<Recording>& recordings) {
  Matrix all;
  for (const Recording& recording : recordings) {
    auto matrix = read_matrix(recording.file);
    if (!matrix) {
      return Error(matrix.error());
    }
    for (MatrixCell& cell : *matrix) {
      cell.way += recording.setting;
      all.push_back(std::move(cell));
    }
  }
  return all;
}

}  // namespace

bool is_device_of_host(const std::string& name) {
  std::error_code ignored;
  return !name.empty() && name.find('/') == std::string::npos && name[0] != '.' &&
         fs::exists(sys_devices / name, ignored);
}

Result<XcheckResult, std::string> run_xcheck(const XcheckPlan& plan) {
  const auto places = lab_places();
  if (!places) {
    return Error(places.error());
  }
  const ScratchDirectory scratch("verbena-xcheck");
  const bool is_guest = plan.against == "rxe" || plan.against == "siw";
  const auto done = is_guest                 ? against_guest_twice(plan, *places, scratch)
                    : plan.compares_api      ? observe_device(plan, *places, scratch)
                    : plan.against == "self" ? against_self(plan, *places, scratch)
                                             : against_agent(plan, *places, scratch);
  if (!done) {
    return Error(done.error());
  }
  XcheckResult result;
  if (!plan.compares_api) {
    auto matrix = matrix_of(*done);
    if (!matrix) {
      return Error(matrix.error());
    }
    if (matrix->empty()) {
      return Error(fmt::format("no operation has \"{}\" in its name", plan.only));
    }
    result.matrix = std::move(*matrix);
    explain_known(result.matrix, plan.against, !plan.device.value_of(ports::env::loss).empty());
  } else {
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
