#include "cli/xcheck_packets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/child.h"
#include "cli/free_port.h"
#include "cli/lab_guest.h"
#include "cli/lab_places.h"
#include "cli/packet_rules.h"
#include "cli/packet_wire.h"
#include "cli/scenario_files.h"
#include "cli/script_agent.h"
#include "cli/script_run.h"
#include "proto/roce/gid.h"
#include "sim/scenario/packet_script.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using Error = std::unexpected<std::string>;

/// Where the role `scripted` listens in the guest.
constexpr std::uint16_t agent_port = 18600;
/// Of the wire. The kernel's device takes its own from lab/guest/rdma_device.
constexpr const char* script_address = "10.7.0.1/24";
constexpr const char* device_subnet = "10.7.0.2/24";
constexpr const char* device_address = "10.7.0.2";
/// Of the guest's interface: frames with 4096 bytes of payload and all headers fit.
constexpr unsigned wire_mtu = 4500;
/// For all scenarios; those that there are take a minute against an emulated guest.
constexpr seconds whole_limit{600};
/// Until the role `scripted` listens, from when the guest has come up.
constexpr seconds agent_limit{120};
constexpr seconds neighbour_limit{60};
/// How many guests may be needed because packets bring them down.
constexpr unsigned boots_max = 4;

/// What takes long is told before it begins.
void tell(std::string_view step) { fmt::print(stderr, "verbena xcheck: {}\n", step); }

struct Job {
  PacketCheck check;
  std::optional<sim::PacketScript> script;
};

std::string name_of(const sim::Scenario& scenario) {
  const std::string stem = fs::path(scenario.file).stem().string();
  return scenario.variant.empty() ? stem : fmt::format("{} [{}]", stem, scenario.variant);
}

Result<std::vector<Job>, std::string> read_jobs(const PacketPlan& plan) {
  const auto files = scenario_files(plan.files);
  if (!files) {
    return Error(files.error());
  }
  std::vector<Job> jobs;
  bool has_script = false;
  for (const std::string& file : *files) {
    const auto scenarios = read_scenarios(file);
    if (!scenarios) {
      return Error(scenarios.error());
    }
    for (const sim::Scenario& scenario : *scenarios) {
      Job job;
      job.check.name = name_of(scenario);
      job.check.title = scenario.title;
      if (job.check.name.find(plan.only) == std::string::npos) {
        continue;
      }
      auto script = sim::read_script(scenario);
      if (script) {
        job.script = std::move(*script);
        has_script = true;
      } else {
        job.check.result = "unsuited";
        job.check.words = script.error();
      }
      jobs.push_back(std::move(job));
    }
  }
  if (!has_script) {
    return Error(jobs.empty() ? fmt::format("no scenario has \"{}\" in its name", plan.only)
                              : fmt::format("no scenario is for another device; {}: {}",
                                            jobs.front().check.name, jobs.front().check.words));
  }
  return jobs;
}

void judge(const PacketPlan& plan, std::vector<AnswerDifference> found, PacketCheck& check) {
  check.result = "agrees";
  for (AnswerDifference& difference : found) {
    auto rule = rule_for(plan.against, check.name, difference);
    check.result = rule && check.result != "differs" ? "known" : "differs";
    check.differences.push_back({std::move(difference), rule.value_or("")});
  }
}

void judge(const PacketPlan& plan, const sim::PacketScript& script, const ScriptOutcome& outcome,
           PacketCheck& check) {
  const AnswerWords ours = in_words(script, script.answers, script.device_qpn);
  const AnswerWords theirs = in_words(script, outcome.answers, outcome.device_qpn);
  judge(plan, differences(ours, theirs), check);
  check.ours = ours;
  check.theirs = theirs;
}

/// Why no more scripts can be run.
struct Trouble {
  std::string words;
  /// During which script the device went; nullptr if it was never there.
  Job* during = nullptr;
};

bool is_pending(const Job& job) { return job.script && job.check.result.empty(); }

/// Brings all scripts that haven't run to whoever is at the other end of the wire and at that port.
Result<void, Trouble> run_jobs(const PacketPlan& plan, const fs::path& wire_path,
                               std::uint16_t port, std::vector<Job>& jobs) {
  const auto own = inet::LinkAddress::from_text(script_address);
  const auto device = inet::LinkAddress::from_text(device_address);
  const Gid own_gid = roce::gid_from_ipv6(own->address);
  auto wire = PacketWire::open({.link = "qemu:" + wire_path.string(),
                                .own = *own,
                                .device = roce::gid_from_ipv6(device->address)});
  if (!wire) {
    return std::unexpected(Trouble{wire.error()});
  }
  auto agent = ScriptAgent::connect(port, agent_limit);
  if (!agent) {
    return std::unexpected(Trouble{agent.error()});
  }
  ScriptRun run(*wire, *agent, own_gid);
  if (!run.wait_for_device(neighbour_limit)) {
    return std::unexpected(
        Trouble{fmt::format("nobody on the wire has the address {}", device_address)});
  }
  for (Job& job : jobs) {
    if (!is_pending(job)) {
      continue;
    }
    const auto outcome = run.run(*job.script);
    if (outcome) {
      judge(plan, *job.script, *outcome, job.check);
    } else if (outcome.error().is_final) {
      return std::unexpected(
          Trouble{fmt::format("{}: {}", job.check.name, outcome.error().words), &job});
    } else {
      job.check.result = "failed";
      job.check.words = outcome.error().words;
    }
  }
  return {};
}

std::string guest_command() {
  return fmt::format(
      "export MTU={}\nrdma_device rxe eth0 {} || exit\n"
      // The second interface leads to the host.
      "ip address add 10.0.2.15/24 dev eth1; ip link set eth1 up\n"
      "timeout {} /tools/conformance scripted --once --device rxe0 --listen 0.0.0.0:{}\n",
      wire_mtu, device_subnet, whole_limit.count(), agent_port);
}

/// Runs what hasn't run in a guest of its own. A script during which the guest dies has a result,
/// too; the others then need another guest. One that merely says nothing any more has stalled.
Result<void, std::string> run_in_one_guest(const PacketPlan& plan, const LabPlaces& places,
                                           std::vector<Job>& jobs) {
  const ScratchDirectory scratch("verbena-xcheck");
  const std::uint16_t port = free_port();
  GuestPlan guest_plan;
  guest_plan.command = guest_command();
  guest_plan.link = scratch.path() / "wire";
  guest_plan.share = scratch.path();
  guest_plan.output = scratch.path() / "guest";
  guest_plan.limit = whole_limit + agent_limit;
  guest_plan.accelerator = choose_accelerator(places);
  guest_plan.forwards = {{port, agent_port}};
  tell("booting the guest");
  auto guest = Guest::boot(places, guest_plan);
  if (!guest) {
    return Error(guest.error());
  }
  if (!guest->wait_until_up()) {
    return Error("the guest doesn't come up; " + in_words(guest->wait(), guest_plan));
  }
  tell("the guest is up; sending the scenarios' packets, a second for each or less");
  auto done = run_jobs(plan, guest_plan.link, port, jobs);
  if (!done && done.error().during == nullptr) {
    return Error(fmt::format("{}\nwhat the guest said: {}", done.error().words,
                             read_file(guest_plan.output).value_or("nothing")));
  }
  const GuestResult result = guest->wait();
  if (!done && result.end != GuestEnd::died) {
    return Error(done.error().words + "; " + in_words(result, guest_plan));
  }
  if (!done) {
    PacketCheck& check = done.error().during->check;
    judge(plan, {{.what = "device", .ours = "goes on", .theirs = "is gone"}}, check);
    tell(done.error().words + "; " + in_words(result, guest_plan));
    return {};
  }
  if (result.end != GuestEnd::done || result.status != 0) {
    return Error("the guest's side failed: " + in_words(result, guest_plan));
  }
  return {};
}

/// A guest without KVM may stall for no reason of ours, so it gets a second chance, and that is
/// told; and one that a packet brought down is followed by another one.
Result<void, std::string> against_guest(const PacketPlan& plan, const LabPlaces& places,
                                        std::vector<Job>& jobs) {
  if (lab_state(places) != LabState::ready) {
    return Error(
        "there is no guest of this version; `verbena lab build` makes it in a minute or two");
  }
  // What is known to bring a guest down comes last.
  std::ranges::stable_partition(
      jobs, [&](const Job& job) { return !is_known_to_end(plan.against, job.check.name); });
  bool has_stalled = false;
  for (unsigned boots = 0; std::ranges::any_of(jobs, is_pending); ++boots) {
    if (boots == boots_max) {
      return Error(fmt::format("after {} guests there are still scenarios left", boots));
    }
    const auto done = run_in_one_guest(plan, places, jobs);
    if (!done && std::exchange(has_stalled, true)) {
      return done;
    }
    if (!done) {
      fmt::print(stderr, "verbena xcheck: {}\nverbena xcheck: trying once more\n", done.error());
    }
  }
  return {};
}

/// Our own device in another process, in real time: what must agree always, and needs no guest.
Result<void, std::string> against_self(const PacketPlan& plan, const LabPlaces& places,
                                       std::vector<Job>& jobs) {
  const ScratchDirectory scratch("verbena-xcheck");
  const std::uint16_t port = free_port();
  const fs::path wire = scratch.path() / "wire";
  ChildPlan child;
  child.words = {fs::read_symlink("/proc/self/exe").string(),
                 "run",
                 "--link",
                 "qemu:" + wire.string(),
                 "--address",
                 device_subnet,
                 "--",
                 (places.tools / "conformance").string(),
                 "scripted",
                 "--once",
                 "--listen",
                 fmt::format("127.0.0.1:{}", port)};
  child.variables = plan.variables;
  child.variables.emplace_back("VERBENA_FABRIC", scratch.path() / "xcheck.fabric");
  child.output = scratch.path() / "output";
  child.errors = scratch.path() / "errors";
  const auto device = Child::start(child);
  if (!device) {
    return Error(device.error());
  }
  auto done = run_jobs(plan, wire, port, jobs);
  if (!done) {
    return Error(fmt::format("{}\nwhat the device's process said: {}", done.error().words,
                             read_file(child.errors).value_or("nothing")));
  }
  return {};
}

}  // namespace

Result<std::vector<PacketCheck>, std::string> check_packets(const PacketPlan& plan) {
  const auto places = lab_places();
  if (!places) {
    return Error(places.error());
  }
  auto jobs = read_jobs(plan);
  if (!jobs) {
    return Error(jobs.error());
  }
  const auto done = plan.against == "self" ? against_self(plan, *places, *jobs)
                                           : against_guest(plan, *places, *jobs);
  if (!done) {
    return Error(done.error());
  }
  std::vector<PacketCheck> checks;
  for (Job& job : *jobs) {
    checks.push_back(std::move(job.check));
  }
  return checks;
}

}  // namespace verbena::cli
