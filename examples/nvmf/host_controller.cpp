#include "examples/nvmf/host_controller.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "examples/nvmf/identify.h"
#include "examples/nvmf/page.h"

namespace nvmf {
namespace {

constexpr std::chrono::milliseconds status_interval{10};
constexpr std::size_t records_max = 3;  // that one page of the log holds behind its header
constexpr std::size_t log_record_bytes = 1024;

Command fabrics_command(FabricsType type) {
  Command command;
  command.opcode = fabrics_opcode;
  command.nsid = static_cast<std::uint32_t>(type);
  return command;
}

Command admin_command(AdminOpcode opcode) {
  Command command;
  command.opcode = static_cast<std::uint8_t>(opcode);
  return command;
}

Command identify_command(Cns which, std::uint32_t nsid) {
  Command command = admin_command(AdminOpcode::identify);
  command.nsid = nsid;
  command.cdw10 = static_cast<std::uint32_t>(which);
  return command;
}

}  // namespace

void expect_success(const std::string& what, const Completion& completion) {
  if (status_of(completion) != Status::success) {
    throw Failure(what + ": " + nvmf::describe(status_of(completion)));
  }
}

HostController::HostController(Place place, std::string subsystem_nqn, HostName host,
                               std::chrono::milliseconds timeout)
    : place_(std::move(place)),
      subsystem_nqn_(std::move(subsystem_nqn)),
      host_(std::move(host)),
      timeout_(timeout),
      queue_(place_, {.timeout = timeout}) {
  id_ = static_cast<std::uint16_t>(connect_command(queue_, controller_any).result);
  Command get = fabrics_command(FabricsType::property_get);
  get.cdw10 = 1;  // 8 bytes
  get.cdw11 = static_cast<std::uint32_t>(Property::capabilities);
  execute("Property Get of the capabilities", get);
  configure(cc_enable | cc_entry_sizes, csts_ready, csts_ready);
}

Completion HostController::execute(const char* what, const Command& command, Direction direction,
                                   std::size_t length) {
  const Completion completion = queue_.execute(command, direction, length);
  expect_success(what, completion);
  return completion;
}

Completion HostController::connect_command(HostQueue& queue, std::uint16_t controller_id) {
  Page data(queue.data(0).first(connect_data_bytes));
  data.clear();
  data.put(connect_host_id_offset, host_.id);
  data.put(connect_controller_offset, controller_id);
  data.put_text(connect_subsystem_offset, nqn_field_bytes, subsystem_nqn_, '\0');
  data.put_text(connect_host_offset, nqn_field_bytes, host_.nqn, '\0');
  Command command = fabrics_command(FabricsType::connect);
  set_connect_fields(command,
                     {.queue_id = queue.queue_id(),
                      .sq_size = static_cast<std::uint16_t>(queue.entries() - 1),
                      .keep_alive_timeout = queue.queue_id() == 0 ? host_.keep_alive_ms : 0});
  const Completion completion = queue.execute(command, Direction::from_host, connect_data_bytes);
  expect_success("Connect of queue " + std::to_string(queue.queue_id()) + " to " + subsystem_nqn_,
                 completion);
  return completion;
}

std::uint32_t HostController::get_status() {
  Command get = fabrics_command(FabricsType::property_get);
  get.cdw11 = static_cast<std::uint32_t>(Property::status);
  return static_cast<std::uint32_t>(execute("Property Get of the status", get).result);
}

void HostController::configure(std::uint32_t value, std::uint32_t mask, std::uint32_t wanted) {
  Command set = fabrics_command(FabricsType::property_set);
  set.cdw11 = static_cast<std::uint32_t>(Property::configuration);
  set.cdw12 = value;
  execute("Property Set of the configuration", set);
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while ((get_status() & mask) != wanted) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw Failure("the controller doesn't get ready, or doesn't shut down");
    }
    std::this_thread::sleep_for(status_interval);
  }
}

std::vector<DiscoveryRecord> HostController::discover() {
  constexpr std::uint32_t bytes = page_bytes;
  Command get = admin_command(AdminOpcode::get_log_page);
  get.cdw10 = static_cast<std::uint32_t>(LogPage::discovery) | (bytes / 4 - 1) << 16;
  execute("Get Log Page of the discovery log", get, Direction::to_host, bytes);
  const Page log(queue_.data(0));
  const auto count =
      std::min<std::uint64_t>(log.get<std::uint64_t>(log_record_count_offset), records_max);
  std::vector<DiscoveryRecord> records;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t record = log_header_bytes + i * log_record_bytes;
    DiscoveryRecord found{
        .is_rdma = log.get<std::uint8_t>(record + record_transport_offset) == transport_rdma,
        .is_nvm = log.get<std::uint8_t>(record + record_subtype_offset) == subtype_nvm,
        .nqn = log.get_text(record + record_nqn_offset, nqn_field_bytes),
        .place = {.address = log.get_text(record + record_address_offset, record_address_bytes)}};
    const std::string port = log.get_text(record + record_service_offset, record_service_bytes);
    found.place.port = static_cast<std::uint16_t>(std::strtoul(port.c_str(), nullptr, 10));
    records.push_back(std::move(found));
  }
  return records;
}

ControllerFacts HostController::identify() {
  execute("Identify Controller", identify_command(Cns::controller, 0), Direction::to_host,
          page_bytes);
  const Page page(queue_.data(0));
  if ((page.get<std::uint32_t>(controller_sgls_offset) & sgls_keyed) == 0) {
    throw Failure("the controller takes no keyed descriptors, so it can't be reached by RDMA");
  }
  const std::size_t capsule = std::size_t{page.get<std::uint32_t>(controller_capsule_offset)} * 16;
  const auto transfer_shift = page.get<std::uint8_t>(controller_transfer_offset);
  return {.model = page.get_text(controller_model_offset, controller_model_bytes),
          .serial = page.get_text(controller_serial_offset, controller_serial_bytes),
          .in_capsule_bytes = std::max(capsule, command_bytes) - command_bytes,
          // 0 is no limit but the descriptor's.
          .transfer_bytes_max = transfer_shift == 0 || transfer_shift > 11
                                    ? keyed_length_max
                                    : page_bytes << transfer_shift};
}

NamespaceFacts HostController::identify_namespace() {
  execute("Identify Active Namespaces", identify_command(Cns::active_namespaces, 0),
          Direction::to_host, page_bytes);
  const auto id = Page(queue_.data(0)).get<std::uint32_t>(0);
  if (id == 0) {
    throw Failure("the subsystem has no namespace");
  }
  execute("Identify Namespace Descriptors", identify_command(Cns::namespace_descriptors, id),
          Direction::to_host, page_bytes);
  execute("Identify Namespace", identify_command(Cns::one_namespace, id), Direction::to_host,
          page_bytes);
  const Page page(queue_.data(0));
  const std::size_t format = page.get<std::uint8_t>(namespace_format_offset) & 0x0f;
  const auto shift = page.get<std::uint8_t>(namespace_formats_offset + 4 * format + 2);
  if (shift < block_shift || shift > 16) {
    throw Failure("the namespace has blocks of 2^" + std::to_string(shift) + " bytes");
  }
  return {.id = id,
          .blocks = page.get<std::uint64_t>(namespace_size_offset),
          .block_bytes = std::size_t{1} << shift};
}

std::uint16_t HostController::set_number_of_queues(std::uint16_t count) {
  const std::uint32_t wanted = count - 1U;
  Command set = admin_command(AdminOpcode::set_features);
  set.cdw10 = static_cast<std::uint32_t>(Feature::number_of_queues);
  set.cdw11 = wanted | wanted << 16;
  const auto granted =
      static_cast<std::uint32_t>(execute("Set Features, number of queues", set).result);
  return static_cast<std::uint16_t>(std::min(granted & 0xffff, granted >> 16) + 1);
}

void HostController::request_event_and_keep_alive() {
  queue_.submit(queue_.entries() - 1, admin_command(AdminOpcode::async_event_request),
                Direction::none, 0);
  execute("Keep Alive", admin_command(AdminOpcode::keep_alive));
}

std::unique_ptr<HostQueue> HostController::connect_io(QueueWishes wishes) {
  wishes.controller_id = id_;
  wishes.data_bytes = std::max(wishes.data_bytes, connect_data_bytes);
  wishes.timeout = timeout_;
  auto queue = std::make_unique<HostQueue>(place_, wishes);
  connect_command(*queue, id_);
  return queue;
}

void HostController::shut_down() {
  configure(cc_enable | cc_entry_sizes | cc_shutdown_normal, csts_shutdown_mask,
            csts_shutdown_done);
}

}  // namespace nvmf
