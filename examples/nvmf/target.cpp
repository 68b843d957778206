// A target of NVMe over Fabrics with one namespace in memory, over RDMA.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/nvmf/program.h"
#include "examples/nvmf/rdma.h"
#include "examples/nvmf/subsystem.h"
#include "examples/nvmf/target_queue.h"

namespace nvmf {
namespace {

constexpr int backlog = 128;
// Of all hosts together.
constexpr std::size_t queues_max = 256;
constexpr timespec look_interval{.tv_sec = 1, .tv_nsec = 0};

volatile sig_atomic_t is_over = 0;

void on_signal(int) { is_over = 1; }

void set_nonblocking(int descriptor) {
  expect_zero(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK), "fcntl");
}

// The queue that a host wants, or why it can't have it.
CmStatus check(const CmRequest& request, const Settings& settings) {
  if (request.record_format != 0) {
    return CmStatus::invalid_record_format;
  }
  if (request.queue_id > settings.io_queues) {
    return CmStatus::invalid_queue_id;
  }
  if (request.host_send_size == 0 || request.host_send_size >= queue_entries_max) {
    return CmStatus::invalid_host_send_size;
  }
  if (request.host_receive_size == 0) {
    return CmStatus::invalid_host_receive_size;
  }
  return CmStatus{0};
}

class Target {
 public:
  Target(Settings settings, std::chrono::seconds grace, bool is_quiet)
      : subsystem_(std::move(settings)), grace_(grace), is_quiet_(is_quiet) {}

  void listen(const std::string& address, std::uint16_t port);
  // Until a signal ends it.
  void serve(const sigset_t& signals_while_waiting);
  void print_totals();

 private:
  template <typename... Words>
  void say(const char* format, Words... words) const;
  void on_cm_events();
  void on_cm_event(rdma_cm_id* id, rdma_cm_event_type type, const rdma_conn_param& offered,
                   const std::vector<std::uint8_t>& data);
  void on_request(rdma_cm_id* id, const rdma_conn_param& offered,
                  const std::vector<std::uint8_t>& data);
  static void reject(rdma_cm_id* id, CmStatus status);
  void on_completion_events(TargetDevice& device);
  void end_queue(rdma_cm_id* id, const char* why);
  void end_lost_queues();
  TargetDevice& device_of(ibv_context* context);

  Subsystem subsystem_;
  // How much longer than its time a host that keeps alive may be silent.
  std::chrono::seconds grace_;
  bool is_quiet_;
  OwnedEventChannel channel_;
  OwnedId listener_;
  std::map<ibv_context*, std::unique_ptr<TargetDevice>> devices_;
  std::map<rdma_cm_id*, std::unique_ptr<TargetQueue>> queues_;
};

template <typename... Words>
void Target::say(const char* format, Words... words) const {
  if (!is_quiet_) {
    std::printf(format, words...);
    std::fflush(stdout);
  }
}

void Target::listen(const std::string& address, std::uint16_t port) {
  sockaddr_storage where = parse_address(address, port);
  channel_.reset(expect_some(rdma_create_event_channel(), "opening rdma_cm"));
  rdma_cm_id* id = nullptr;
  expect_zero(rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
  listener_.reset(id);
  const std::string what = "listening on " + address + " port " + std::to_string(port);
  expect_zero(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&where)), what.c_str());
  expect_zero(rdma_listen(id, backlog), what.c_str());
  set_nonblocking(channel_->fd);
  std::printf("%s: %s, %llu blocks of %u bytes\n", what.c_str(), subsystem_.settings().nqn.c_str(),
              static_cast<unsigned long long>(subsystem_.storage().blocks()), block_bytes);
  std::fflush(stdout);
}

void Target::serve(const sigset_t& signals_while_waiting) {
  while (is_over == 0) {
    std::vector<pollfd> sources{{.fd = channel_->fd, .events = POLLIN, .revents = 0}};
    std::vector<TargetDevice*> devices;
    for (const auto& [context, device] : devices_) {
      sources.push_back({.fd = device->channel()->fd, .events = POLLIN, .revents = 0});
      devices.push_back(device.get());
    }
    if (ppoll(sources.data(), sources.size(), &look_interval, &signals_while_waiting) < 0 &&
        errno != EINTR) {
      fail("ppoll", errno);
    }
    for (TargetDevice* device : devices) {
      on_completion_events(*device);
    }
    on_cm_events();
    end_lost_queues();
  }
}

void Target::on_cm_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) == 0) {
    rdma_cm_id* id = event->id;
    const rdma_cm_event_type type = event->event;
    const rdma_conn_param offered = event->param.conn;
    const auto* data = static_cast<const std::uint8_t*>(offered.private_data);
    const std::vector<std::uint8_t> copy(data,
                                         data + (data == nullptr ? 0 : offered.private_data_len));
    // Before the identifier may be destroyed.
    rdma_ack_cm_event(event);
    on_cm_event(id, type, offered, copy);
  }
  if (errno != EAGAIN) {
    fail("rdma_get_cm_event", errno);
  }
}

void Target::on_cm_event(rdma_cm_id* id, rdma_cm_event_type type, const rdma_conn_param& offered,
                         const std::vector<std::uint8_t>& data) {
  switch (type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      on_request(id, offered, data);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      break;
    default:
      end_queue(id, rdma_event_str(type));
  }
}

void Target::on_request(rdma_cm_id* id, const rdma_conn_param& offered,
                        const std::vector<std::uint8_t>& data) {
  // InfiniBand fills private data up with zeros, iWARP doesn't.
  CmRequest request;
  if (data.size() < sizeof request) {
    reject(id, CmStatus::invalid_length);
    return;
  }
  std::memcpy(&request, data.data(), sizeof request);
  CmStatus status = check(request, subsystem_.settings());
  if (queues_.size() >= queues_max) {
    status = CmStatus::no_resources;
  }
  if (status != CmStatus{0}) {
    say("refused a queue %u: %s\n", request.queue_id, std::string(describe(status)).c_str());
    reject(id, status);
    return;
  }
  const sockaddr* local = rdma_get_local_addr(id);
  const Portal portal{.is_ipv6 = local->sa_family == AF_INET6,
                      .address = address_text(local),
                      .service = std::to_string(port_of(local)),
                      .provider_type = static_cast<std::uint8_t>(is_iwarp(id->verbs) ? 5 : 4)};
  std::unique_ptr<TargetQueue> queue;
  try {
    queue = std::make_unique<TargetQueue>(device_of(id->verbs), id, request, subsystem_, portal);
  } catch (const Failure& failure) {
    say("refused a queue %u: %s\n", request.queue_id, failure.what());
    reject(id, CmStatus::no_resources);
    return;
  }
  try {
    queue->accept(offered);
  } catch (const Failure& failure) {
    say("a queue %u failed: %s\n", request.queue_id, failure.what());
    return;  // The identifier ends with the queue.
  }
  say("queue %u, %u entries, from %s\n", request.queue_id, request.host_send_size + 1U,
      address_text(rdma_get_peer_addr(id)).c_str());
  queues_.emplace(id, std::move(queue));
}

void Target::reject(rdma_cm_id* id, CmStatus status) {
  const CmReject why{.status = static_cast<std::uint16_t>(status)};
  (void)rdma_reject(id, &why, sizeof why);
  rdma_destroy_id(id);
}

void Target::on_completion_events(TargetDevice& device) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(device.channel(), &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    auto* queue = static_cast<TargetQueue*>(context);
    try {
      queue->on_completions();
    } catch (const Failure& failure) {
      const auto found = std::ranges::find_if(
          queues_, [queue](const auto& entry) { return entry.second.get() == queue; });
      if (found != queues_.end()) {
        end_queue(found->first, failure.what());
      }
    }
  }
}

void Target::end_queue(rdma_cm_id* id, const char* why) {
  const auto found = queues_.find(id);
  if (found != queues_.end()) {
    say("queue %u ended: %s\n", found->second->session().queue_id(), why);
    queues_.erase(found);
  }
}

void Target::end_lost_queues() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::pair<rdma_cm_id*, const char*>> lost;
  for (const auto& [id, queue] : queues_) {
    if (const char* why = queue->session().why_lost(now, grace_)) {
      lost.emplace_back(id, why);
    }
  }
  for (const auto& [id, why] : lost) {
    end_queue(id, why);
  }
}

TargetDevice& Target::device_of(ibv_context* context) {
  auto found = devices_.find(context);
  if (found == devices_.end()) {
    auto device = std::make_unique<TargetDevice>(context, subsystem_.storage());
    set_nonblocking(device->channel()->fd);
    found = devices_.emplace(context, std::move(device)).first;
  }
  return *found->second;
}

void Target::print_totals() {
  const Totals& totals = subsystem_.totals();
  say("%llu reads of %llu bytes, %llu writes of %llu bytes\n",
      static_cast<unsigned long long>(totals.read_commands),
      static_cast<unsigned long long>(totals.read_bytes),
      static_cast<unsigned long long>(totals.write_commands),
      static_cast<unsigned long long>(totals.written_bytes));
}

// SIGINT and SIGTERM come only while the target waits. Returns what is blocked then.
sigset_t take_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigset_t both;
  sigset_t before;
  sigemptyset(&both);
  for (const int number : {SIGINT, SIGTERM}) {
    sigaddset(&both, number);
    sigaction(number, &action, nullptr);
  }
  sigprocmask(SIG_BLOCK, &both, &before);
  return before;
}

int run(int argc, char** argv) {
  Settings settings;
  std::string address = "127.0.0.1";
  std::uint16_t port = nvme_port;
  std::uint64_t mebibytes = settings.storage_bytes >> 20;
  // Some hosts are emulated, and stand still for seconds where the machine is busy.
  unsigned grace_s = 30;
  bool is_quiet = false;
  CLI::App app(
      "NVMe over Fabrics target over RDMA: one namespace in memory, empty at the start. "
      "Ends with Ctrl-C.");
  app.add_option("--address", address, "where to listen; 0.0.0.0 and :: are all addresses")
      ->capture_default_str();
  app.add_option("--port", port, "TCP port of rdma_cm")->capture_default_str();
  app.add_option("--size", mebibytes, "of the namespace, MiB")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--nqn", settings.nqn, "name of the subsystem")
      ->check([](const std::string& nqn) {
        return nqn.size() <= nqn_bytes_max ? "" : "a name has 223 bytes at most";
      })
      ->capture_default_str();
  app.add_option("--io-queues", settings.io_queues, "that each host may have")
      ->check(CLI::Range(1, static_cast<int>(io_queues_max)))
      ->capture_default_str();
  app.add_option("--in-capsule", settings.in_capsule_bytes,
                 "bytes of data that may come with a command, rounded down to 16s")
      ->check(CLI::Range(0, 16384))
      ->capture_default_str();
  app.add_option("--grace", grace_s,
                 "seconds that a host may be silent beyond the time in which it promised to keep "
                 "alive; then it is disconnected")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  app.add_flag("--quiet", is_quiet, "don't tell of queues that come and go");
  CLI11_PARSE(app, argc, argv);
  settings.storage_bytes = mebibytes << 20;
  settings.in_capsule_bytes = settings.in_capsule_bytes / 16 * 16;

  const sigset_t while_waiting = take_signals();
  Target target(settings, std::chrono::seconds(grace_s), is_quiet);
  target.listen(address, port);
  target.serve(while_waiting);
  target.print_totals();
  return 0;
}

}  // namespace
}  // namespace nvmf

int main(int argc, char** argv) { return nvmf::run_program("nvmf_target", nvmf::run, argc, argv); }
