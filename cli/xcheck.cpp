// `verbena xcheck`: our device against one that nobody here wrote.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/xcheck_compare.h"
#include "cli/xcheck_matrix.h"
#include "cli/xcheck_packets.h"
#include "cli/xcheck_run.h"

namespace verbena::cli {
namespace {

struct XcheckOptions {
  XcheckPlan plan;
  std::vector<std::string> files;
  /// Scenarios whose packets are sent; if there are none, the matrix.
  std::vector<std::string> scenarios;
  std::string junit;
  std::string through;
  std::string tcp;
  bool is_json = false;
  bool shows_all = false;
  bool api_only = false;
};

int fail(int status, const std::string& sentence) {
  fmt::print(stderr, "verbena xcheck: {}\n", sentence);
  return status;
}

bool writes_junit(const Matrix& matrix, const XcheckOptions& options) {
  const std::string& against = options.plan.against;
  if (options.junit.empty()) {
    return true;
  }
  const auto written =
      write_junit(matrix, against.empty() ? "a recording" : against, options.junit);
  if (!written) {
    fail(exit_failed, written.error());
  }
  return written.has_value();
}

int show(const Comparison& comparison, const XcheckOptions& options) {
  options.is_json ? print_comparison_json(comparison)
                  : print_comparison(comparison, options.shows_all);
  const bool is_told = writes_junit(as_matrix(comparison), options);
  return is_told && comparison.unexplained.empty() ? exit_ok : exit_failed;
}

int show(const Matrix& matrix, const XcheckOptions& options) {
  const std::string& against = options.plan.against;
  options.is_json ? print_matrix_json(matrix, against) : print_matrix(matrix, against);
  const bool is_told = writes_junit(matrix, options);
  return is_told && count(matrix, "differs") == 0 && count(matrix, "agrees") > 0 ? exit_ok
                                                                                 : exit_failed;
}

int compare_files(const XcheckOptions& options) {
  const auto ours = read_observations(options.files[0]);
  const auto theirs = read_observations(options.files[1]);
  if (!ours || !theirs) {
    return fail(exit_usage, ours ? theirs.error() : ours.error());
  }
  return show(compare(*ours, *theirs), options);
}

int send_packets(const XcheckOptions& options) {
  const std::string& against = options.plan.against;
  if (against != "rxe" && against != "self") {
    return fail(exit_usage, "--packets is for rxe and self: a script needs the device's wire");
  }
  const auto& settings = options.plan.device.values();
  if (against == "rxe" && !settings.empty()) {
    return fail(exit_usage,
                "with --packets no device of ours is on rxe's wire: leave out options that are "
                "about devices");
  }
  const PacketPlan plan{.against = against,
                        .files = options.scenarios,
                        .only = options.plan.only,
                        .variables = {settings.begin(), settings.end()}};
  const auto checks = check_packets(plan);
  return checks ? report_packets(*checks, plan, options.is_json, options.junit)
                : fail(exit_failed, checks.error());
}

int run(XcheckOptions& options) {
  if (!options.files.empty()) {
    return compare_files(options);
  }
  const OrderlyEnd orderly_end;
  if (!options.scenarios.empty()) {
    return send_packets(options);
  }
  XcheckPlan& plan = options.plan;
  if (options.api_only && plan.against != "rxe" && plan.against != "siw") {
    return fail(exit_usage,
                "--api is for rxe and siw; for another device, run the conformance program there "
                "and give its output to --compare");
  }
  plan.uses_own_tcp = options.tcp == "own";
  if (!options.tcp.empty() && plan.against != "siw") {
    return fail(exit_usage, "--tcp is for what goes to siw");
  }
  if (plan.against == "siw" && plan.uses_ipv6 && !plan.uses_own_tcp) {
    return fail(exit_usage,
                "siw is reached through QEMU's own network, which is IPv4's, unless --tcp own says "
                "otherwise");
  }
  plan.compares_api = options.api_only;
  plan.goes_through_cm = options.through == "cm";
  const auto result = run_xcheck(plan);
  if (!result) {
    return fail(exit_failed, result.error());
  }
  return options.api_only ? show(result->comparison, options) : show(result->matrix, options);
}

constexpr const char* footer =
    "Each operation is done by the conformance program, once with ours as initiator and once with\n"
    "theirs, in sizes around the borders of packets; data, completions and memory are checked.\n"
    "Rows that begin with CM are about rdma_cm's connections; their sizes are of private data.\n"
    "--against is\n"
    "  rxe       the kernel's RoCE v2 device in the guest of `verbena lab`, over an emulated wire\n"
    "  siw       the kernel's iWARP device there, over TCP; with CRCs and without, unless "
    "--mpa-crc\n"
    "            says which\n"
    "  self      another one of ours\n"
    "  HOST      an agent: on that host, `conformance agent --device D --listen ADDRESS:18600`; "
    "our\n"
    "            device must reach it, so give the options of `verbena run`\n"
    "With --api rxe or siw and ours are observed, each by itself: what calls return, completions,\n"
    "events, states. Differences that are known are told with the rule that makes ours right.\n"
    "--compare does so with two files that `conformance alone` wrote, ours first. The program is "
    "in\n"
    "share/verbena/lab beside bin/.\n"
    "With --packets rxe, or ours in another process (self), is alone with a script: the packets "
    "that\n"
    "scenarios of `verbena sim` with a scripted peer send. What it answers is compared with what "
    "ours\n"
    "answers in virtual time.\n"
    "Ends with 1 if something differs for no reason that is known.";

}  // namespace

void add_xcheck(CLI::App& app, int& status) {
  auto options = std::make_shared<XcheckOptions>();
  CLI::App* command =
      app.add_subcommand("xcheck", "Check our device against one that nobody here wrote");
  auto* against = command->add_option("--against", options->plan.against, "whom to check against")
                      ->type_name("rxe|siw|self|HOST[:PORT]");
  auto* files = command->add_option("--compare", options->files, "compare two recordings")
                    ->expected(2)
                    ->type_name("OURS THEIRS");
  against->excludes(files);
  auto* api =
      command->add_flag("--api", options->api_only, "what the devices' API does, each by itself");
  auto* packets =
      command
          ->add_option("--packets", options->scenarios,
                       "send the packets of these scenarios (files, or folders of them)")
          ->type_name("SCENARIO...")
          ->excludes(api)
          ->excludes(files);
  command->add_flag("--all", options->shows_all, "each difference that is accepted, not each rule");
  command
      ->add_option("--only", options->plan.only,
                   "operations or scenarios whose names have this in them")
      ->type_name("TEXT")
      ->excludes(api)
      ->excludes(files);
  command->add_option("--path-mtu", options->plan.mtu_bytes, "bytes (what both ports have)")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
      ->excludes(packets);
  command->add_flag("--ipv6", options->plan.uses_ipv6, "IPv6 instead of IPv4")
      ->excludes(packets)
      ->excludes(api);
  command
      ->add_option("--through", options->through,
                   "how reliable connections are made: verbs (each end changes its queue pair's "
                   "states), or cm (rdma_cm; iWARP has no other way)")
      ->check(CLI::IsMember({"verbs", "cm"}))
      ->excludes(packets)
      ->excludes(api);
  command
      ->add_option(
          "--tcp", options->tcp,
          "whose TCP carries iWARP to siw: system (through QEMU's own network), or own (on "
          "an emulated wire, where --loss, --ipv6 and their like are possible)")
      ->check(CLI::IsMember({"system", "own"}))
      ->excludes(packets)
      ->excludes(api);
  command->add_flag("--json", options->is_json, "As JSON");
  command->add_option("--junit", options->junit, "also write what came of it as JUnit's XML")
      ->type_name("FILE");
  options->plan.device.add_to(*command);
  command->footer(footer);
  command->callback([=, &status] {
    status = options->plan.against.empty() && options->files.empty()
                 ? fail(exit_usage, "give --against or --compare; --help says more")
                 : run(*options);
  });
}

}  // namespace verbena::cli
