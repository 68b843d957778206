// `verbena top`: who moves how much, live.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/observed.h"
#include "cli/screen.h"
#include "cli/top_table.h"

namespace verbena::cli {
namespace {

constexpr double delay_seconds_min = 0.1;
constexpr double delay_seconds_max = 3600;

struct Wishes {
  DeviceOptions fabrics;
  double delay_seconds = 1;
  bool once = false;
};

int show_top(const Wishes& wishes) {
  const std::chrono::duration<double> delay(wishes.delay_seconds);
  auto before = observe(wishes.fabrics);
  if (!before) {
    fmt::print(stderr, "verbena: {}\n", before.error());
    return exit_usage;
  }
  const Screen screen(!wishes.once);
  if (!wishes.once) {
    // Something to look at, before there are rates.
    screen.draw(top_table(*before, *before, screen.rows()));
  }
  while (screen.wait(delay)) {
    auto now = observe(wishes.fabrics);
    if (!now) {
      return exit_failed;
    }
    const bool is_seen = screen.draw(top_table(*before, *now, screen.rows()));
    if (wishes.once || !is_seen) {
      break;
    }
    before = std::move(now);
  }
  return exit_ok;
}

}  // namespace

void add_top(CLI::App& app, int& status) {
  auto wishes = std::make_shared<Wishes>();
  CLI::App* command =
      app.add_subcommand("top", "Watch what the devices that programs have open do; q quits");
  command->add_flag("--once", wishes->once, "One table, of one delay, and end");
  command->add_option("-d,--delay", wishes->delay_seconds, "Seconds between tables (1)")
      ->type_name("SECONDS")
      ->check(CLI::Range(delay_seconds_min, delay_seconds_max));
  add_fabric_options(*command, wishes->fabrics);
  command->footer(
      "All numbers are per second: bytes of frames, retransmissions (retx), NAKs and RNR NAKs, "
      "ACK\n"
      "timeouts (tmo), duplicate requests (dup), frames dropped in silence. The busiest come "
      "first.\n"
      "Without a terminal the tables follow each other as plain text.");
  command->callback([wishes, &status] { status = show_top(*wishes); });
}

}  // namespace verbena::cli
