// An initiator of NVMe over Fabrics: finds a subsystem, and checks that what it writes is what it
// reads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "examples/nvmf/exercise.h"
#include "examples/nvmf/host_controller.h"
#include "examples/nvmf/program.h"
#include "examples/nvmf/subsystem.h"

namespace nvmf {
namespace {

struct Options {
  Place place{.address = "127.0.0.1"};
  std::string nqn;
  HostName host;
  Exercise exercise{.sizes = {512, 4096, 65536}};
  std::uint16_t queues = 1;
  std::uint16_t depth = 16;
  bool uses_windows = false;
  bool only_discovers = false;
  bool is_json = false;
  unsigned timeout_s = 30;
};

struct Report {
  std::string nqn;
  ControllerFacts controller;
  NamespaceFacts space;
  std::size_t queues = 0;
  ExerciseResult result;
  HostQueue::Counts counts;
  bool has_write_zeroes = false;
};

std::chrono::milliseconds timeout_of(const Options& options) {
  return std::chrono::seconds(options.timeout_s);
}

std::vector<DiscoveryRecord> discover(const Options& options) {
  HostController controller(options.place, std::string(discovery_nqn), options.host,
                            timeout_of(options));
  (void)controller.identify();
  auto records = controller.discover();
  controller.shut_down();
  return records;
}

Report use(const Options& options, const std::string& nqn) {
  Report report{.nqn = nqn, .controller = {}, .space = {}, .result = {}, .counts = {}};
  HostController controller(options.place, nqn, options.host, timeout_of(options));
  report.controller = controller.identify();
  const std::uint32_t longest = std::ranges::max(options.exercise.sizes);
  if (longest > report.controller.transfer_bytes_max) {
    throw Failure("the controller moves " + std::to_string(report.controller.transfer_bytes_max) +
                  " bytes at once, not " + std::to_string(longest));
  }
  const std::uint16_t queues =
      std::min(options.queues, controller.set_number_of_queues(options.queues));
  controller.request_event_and_keep_alive();
  report.space = controller.identify_namespace();
  const std::size_t data_bytes =
      std::max({std::size_t{longest}, report.space.block_bytes, connect_data_bytes});
  std::vector<std::unique_ptr<HostQueue>> io;
  for (std::uint16_t id = 1; id <= queues; ++id) {
    io.push_back(controller.connect_io(
        {.queue_id = id,
         .entries = static_cast<std::uint16_t>(options.depth + 1),
         // A target may offer up to 64 GiB there.
         .in_capsule_bytes = std::min(report.controller.in_capsule_bytes, data_bytes),
         .data_bytes = data_bytes,
         .uses_windows = options.uses_windows}));
  }
  report.queues = io.size();
  report.result = exercise(io, report.space, options.exercise);
  report.has_write_zeroes = exercise_the_rest(*io.front(), report.space);
  for (const auto& queue : io) {
    report.counts.in_capsule += queue->counts().in_capsule;
    report.counts.by_key += queue->counts().by_key;
    report.counts.invalidated += queue->counts().invalidated;
  }
  io.clear();
  controller.shut_down();
  return report;
}

// Names come from the target: what isn't plain text would break the output.
std::string plain(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; }, '?');
  return text;
}

void print_records(const std::vector<DiscoveryRecord>& records, bool is_json) {
  const char* separator = "";
  std::printf("%s", is_json ? "{\"records\": [" : "");
  for (const DiscoveryRecord& record : records) {
    std::printf(
        is_json ? "%s{\"nqn\": \"%s\", \"address\": \"%s\", \"port\": %u}" : "%s%s at %s port %u\n",
        separator, plain(record.nqn).c_str(), plain(record.place.address).c_str(),
        record.place.port);
    separator = is_json ? ", " : "";
  }
  std::printf("%s", is_json ? "]}\n" : "");
}

void print_report(const Report& report, bool is_json) {
  const double seconds = std::chrono::duration<double>(report.result.time).count();
  const double rate = static_cast<double>(report.result.bytes) / 1e6 / seconds;
  const auto number = [](auto value) { return static_cast<unsigned long long>(value); };
  const char* yes = is_json ? "true" : "works";
  const char* no = is_json ? "false" : "the target hasn't got it";
  const char* format =
      is_json ? "{\"nqn\": \"%s\", \"model\": \"%s\", \"blocks\": %llu, \"block_bytes\": %llu, "
                "\"queues\": %llu, \"verified\": %llu, \"bytes\": %llu, \"seconds\": %.3f, "
                "\"megabytes_per_second\": %.1f, \"in_capsule\": %llu, \"by_key\": %llu, "
                "\"invalidated\": %llu, \"write_zeroes\": %s}\n"
              : "%s (%s): %llu blocks of %llu bytes, %llu I/O queues\n"
                "%llu writes read back and compared, %llu bytes in %.3f s, %.1f MB/s\n"
                "data in the capsule %llu times, by RDMA %llu times, keys taken away %llu times\n"
                "Write Zeroes: %s\n";
  std::printf(format, plain(report.nqn).c_str(), plain(report.controller.model).c_str(),
              number(report.space.blocks), number(report.space.block_bytes), number(report.queues),
              number(report.result.verified), number(report.result.bytes), seconds, rate,
              number(report.counts.in_capsule), number(report.counts.by_key),
              number(report.counts.invalidated), report.has_write_zeroes ? yes : no);
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--address", options.place.address, "of the target")->capture_default_str();
  app.add_option("--port", options.place.port)->capture_default_str();
  app.add_option("--nqn", options.nqn, "of the subsystem; by default the first one found there");
  app.add_option("--host-nqn", options.host.nqn, "our own name")->capture_default_str();
  app.add_option("--keep-alive", options.host.keep_alive_ms,
                 "milliseconds in which we promise a sign of life; commands are all that we give")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
  app.add_option("--count", options.exercise.count, "writes that are read back and compared")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--sizes", options.exercise.sizes, "bytes, taken in turns")
      ->delimiter(',')
      ->check(CLI::Range(512, static_cast<int>(keyed_length_max)))
      ->capture_default_str();
  app.add_option("--queues", options.queues, "I/O queues")
      ->check(CLI::Range(1, static_cast<int>(io_queues_max)))
      ->capture_default_str();
  app.add_option("--depth", options.depth, "commands under way on each queue")
      ->check(CLI::Range(1, static_cast<int>(queue_entries_max) - 1))
      ->capture_default_str();
  app.add_option("--seed", options.exercise.seed, "of the data and where they go")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_s, "seconds to wait for an answer")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_flag("--windows", options.uses_windows,
               "give data away through memory windows, and ask the target to take the keys back "
               "(SEND with Invalidate)");
  app.add_flag("--discover", options.only_discovers, "only list what is there");
  app.add_flag("--json", options.is_json);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "NVMe over Fabrics initiator over RDMA: discovers, connects, writes, reads back and "
      "compares. What was in the namespace is overwritten.");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  std::random_device random;
  std::ranges::generate(options.host.id, [&] { return static_cast<std::uint8_t>(random()); });

  std::string nqn = options.nqn;
  if (nqn.empty() || options.only_discovers) {
    const auto records = discover(options);
    if (options.only_discovers) {
      print_records(records, options.is_json);
      return 0;
    }
    const auto found = std::ranges::find_if(
        records, [](const auto& record) { return record.is_rdma && record.is_nvm; });
    if (found == records.end()) {
      throw Failure("nothing to connect to in the discovery log");
    }
    nqn = found->nqn;
  }
  print_report(use(options, nqn), options.is_json);
  return 0;
}

}  // namespace
}  // namespace nvmf

int main(int argc, char** argv) {
  return nvmf::run_program("nvmf_initiator", nvmf::run, argc, argv);
}
