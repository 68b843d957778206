// `verbena dump`: shows a capture, one packet after the other.
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/dissect_iwarp.h"
#include "cli/dump_format.h"
#include "cli/exit_status.h"
#include "pcap/reader.h"

namespace verbena::cli {
namespace {

struct DumpOptions {
  std::string file;
  bool is_verbose = false;
  bool is_json = false;
  std::uint64_t packets_max = std::numeric_limits<std::uint64_t>::max();
};

/// Whether packets may still be arriving, so that each must be shown at once.
bool is_live(const std::string& file) {
  struct stat status{};
  const int failed = file == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(file.c_str(), &status);
  return failed == 0 && !S_ISREG(status.st_mode);
}

std::string format(const DumpOptions& options, const DumpedPacket& dumped) {
  if (options.is_json) {
    return format_json(dumped);
  }
  return options.is_verbose ? format_details(dumped) : format_line(dumped);
}

int complain(const std::string& text) {
  // What came before is shown first, also when both go to the same terminal or file.
  std::fflush(stdout);
  fmt::print(stderr, "verbena: {}\n", text);
  return exit_failed;
}

int dump(const DumpOptions& options) {
  const std::string name = options.file == "-" ? "standard input" : options.file;
  auto reader = pcap::Reader::open(options.file);
  if (!reader) {
    return complain(name + ": " + reader.error().text);
  }
  const bool flush_each = is_live(options.file);
  IwarpDissector iwarp;
  std::optional<pcap::UnixTime> start;
  for (std::uint64_t number = 1; number <= options.packets_max; ++number) {
    const auto packet = reader->next();
    if (!packet) {
      return complain(name + ": " + packet.error().text);
    }
    if (!*packet) {
      break;
    }
    std::optional<std::chrono::nanoseconds> relative_time;
    if ((*packet)->time) {
      start = start.value_or(*(*packet)->time);
      relative_time = *(*packet)->time - *start;
    }
    Dissection dissection = dissect((*packet)->frame);
    iwarp.add((*packet)->frame, dissection);
    const std::string text = format(options, {.number = number,
                                              .relative_time = relative_time,
                                              .packet = **packet,
                                              .dissection = dissection});
    std::fwrite(text.data(), 1, text.size(), stdout);
    if ((flush_each && std::fflush(stdout) != 0) || std::ferror(stdout) != 0) {
      break;
    }
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return complain(std::string("standard output: ") + std::strerror(errno));
  }
  return exit_ok;
}

}  // namespace

void add_dump(CLI::App& app, int& status) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command =
      app.add_subcommand("dump", "Show the packets of a capture (pcap or pcapng), one line each");
  command->add_option("FILE", options->file, "The capture; - is standard input, live as it comes")
      ->required();
  command->add_flag("-v,--verbose", options->is_verbose,
                    "Every field of every layer, with its offset in the frame");
  command->add_flag("--json", options->is_json,
                    "One JSON object per packet and line, with all fields");
  command->add_option("-n,--count", options->packets_max, "Stop after so many packets")
      ->type_name("COUNT");
  command->footer(
      "Columns: number; seconds since the first packet; in or out, seen from the NIC that "
      "captured;\n"
      "source > destination; destination QP; PSN; what the packet is, what it asks or answers;\n"
      "whether its ICRC is good; comments of the capture behind #.\n"
      "The exit status is 1 if the capture is cut short or broken; what came before is shown.");
  command->callback([options, &status] { status = dump(*options); });
}

}  // namespace verbena::cli
