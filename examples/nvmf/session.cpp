#include "examples/nvmf/session.h"

#include <algorithm>
#include <utility>

namespace nvmf {
namespace {

Plan only(Status status) { return {.outcome = {.status = status}}; }

Plan to_host(std::span<std::uint8_t> memory) {
  return {.data = Plan::Data::to_host, .memory = memory};
}

bool is_connect(const Command& command) {
  return command.opcode == fabrics_opcode &&
         static_cast<FabricsType>(command.nsid) == FabricsType::connect;
}

// Says which field Connect found wrong: its offset, in the command or in the data.
Outcome wrong_parameter(std::size_t offset, bool is_in_data) {
  return {.status = Status::connect_invalid_parameters,
          .result = offset | (is_in_data ? 1U << 16 : 0)};
}

// From the connection of RDMA to Connect; hosts send it at once. Ours to choose.
constexpr std::chrono::seconds connect_limit{30};

constexpr std::size_t queue_id_in_command = 42;
constexpr std::size_t sq_size_in_command = 44;

}  // namespace

Session::Session(Subsystem& subsystem, std::uint16_t queue_id, std::uint16_t entries, Portal portal)
    : subsystem_(subsystem), queue_id_(queue_id), entries_(entries), portal_(std::move(portal)) {}

Session::~Session() {
  if (controller_ == nullptr) {
    return;
  }
  if (queue_id_ == 0) {
    subsystem_.remove_controller(controller_->id);
  } else {
    controller_->connected.reset(queue_id_);
  }
}

Plan Session::begin(const Command& command, std::span<std::uint8_t> page) {
  std::ranges::fill(page, std::uint8_t{0});
  if (command.flags != flags_sgl) {
    return only(Status::invalid_field);
  }
  if (controller_ == nullptr) {
    // Nothing goes before Connect.
    return is_connect(command) ? begin_fabrics(command, page)
                               : only(Status::command_sequence_error);
  }
  controller_->heard = std::chrono::steady_clock::now();
  if (command.opcode == fabrics_opcode) {
    return begin_fabrics(command, page);
  }
  if (!controller_->is_enabled()) {
    return only(Status::command_sequence_error);
  }
  return queue_id_ == 0 ? begin_admin(command, page) : begin_io(command);
}

Outcome Session::finish(const Command& command, std::span<std::uint8_t> data) {
  if (is_connect(command)) {
    return connect(command, Page(data));
  }
  return {};  // Write: the data are where they belong.
}

Completion Session::complete(const Command& command, const Outcome& outcome) {
  if (sq_size_ != 0) {
    sq_head_ = sq_head_ == sq_size_ ? std::uint16_t{0} : static_cast<std::uint16_t>(sq_head_ + 1);
  }
  return {.result = outcome.result,
          .sq_head = has_flow_control_ ? sq_head_ : std::uint16_t{0xffff},
          .command_id = command.command_id,
          .status = status_field(outcome.status)};
}

const char* Session::why_lost(std::chrono::steady_clock::time_point now,
                              std::chrono::seconds grace) const {
  if (controller_ == nullptr) {
    return now - begin_ > connect_limit + grace ? "no Connect came" : nullptr;
  }
  if (!is_alive()) {
    return "its admin queue is gone";
  }
  const std::chrono::milliseconds promised(controller_->keep_alive_ms);
  const bool is_late = promised.count() != 0 && now - controller_->heard > promised + grace;
  return is_late ? "the host didn't keep it alive" : nullptr;
}

// --- Fabrics commands

Plan Session::begin_fabrics(const Command& command, std::span<std::uint8_t> page) {
  switch (static_cast<FabricsType>(command.nsid)) {
    case FabricsType::connect:
      if (controller_ != nullptr) {
        return only(Status::command_sequence_error);
      }
      return {.data = Plan::Data::from_host, .memory = page.first(connect_data_bytes)};
    case FabricsType::property_get:
      return {.outcome = queue_id_ == 0 ? get_property(command)
                                        : Outcome{.status = Status::invalid_field}};
    case FabricsType::property_set:
      return {.outcome = queue_id_ == 0 ? set_property(command)
                                        : Outcome{.status = Status::invalid_field}};
  }
  return only(Status::invalid_opcode);
}

Outcome Session::get_property(const Command& command) {
  const bool is_8_bytes = (command.cdw10 & 1) != 0;
  // Queues are contiguous; ready within 15 times 500 ms; the NVM command set.
  constexpr std::uint64_t capabilities =
      (queue_entries_max - 1) | (1U << 16) | (15U << 24) | (1ULL << 37);
  switch (static_cast<Property>(command.cdw11)) {
    case Property::capabilities:
      return is_8_bytes ? Outcome{.result = capabilities}
                        : Outcome{.status = Status::invalid_field};
    case Property::version:
      return {.result = version_1_3};
    case Property::configuration:
      return {.result = controller_->configuration};
    case Property::status:
      return {.result = controller_->status};
  }
  return {.status = Status::invalid_field};
}

Outcome Session::set_property(const Command& command) {
  const bool is_8_bytes = (command.cdw10 & 1) != 0;
  if (is_8_bytes || static_cast<Property>(command.cdw11) != Property::configuration) {
    return {.status = Status::invalid_field};
  }
  controller_->set_configuration(command.cdw12);
  return {};
}

Outcome Session::connect(const Command& command, const Page& data) {
  if (controller_ != nullptr) {
    // Another Connect came while the data of this one were fetched.
    return {.status = Status::command_sequence_error};
  }
  const ConnectFields fields = connect_fields(command);
  if (fields.record_format != 0) {
    return {.status = Status::connect_incompatible_format};
  }
  if (fields.queue_id != queue_id_) {
    return wrong_parameter(queue_id_in_command, false);
  }
  if (fields.sq_size == 0 || fields.sq_size >= entries_) {
    return wrong_parameter(sq_size_in_command, false);
  }
  const Outcome outcome = queue_id_ == 0 ? connect_admin(fields, data) : connect_io(fields, data);
  if (outcome.status == Status::success) {
    sq_size_ = fields.sq_size;
    has_flow_control_ = !fields.flow_control_disabled;
    controller_->heard = std::chrono::steady_clock::now();
  }
  return outcome;
}

Outcome Session::connect_admin(const ConnectFields& fields, const Page& data) {
  if (data.get<std::uint16_t>(connect_controller_offset) != controller_any) {
    return wrong_parameter(connect_controller_offset, true);
  }
  const std::string wanted = data.get_text(connect_subsystem_offset, nqn_field_bytes);
  const bool is_discovery = wanted == discovery_nqn;
  if (!is_discovery && wanted != subsystem_.settings().nqn) {
    return wrong_parameter(connect_subsystem_offset, true);
  }
  const std::string host = data.get_text(connect_host_offset, nqn_field_bytes);
  if (host.empty() || host.size() > nqn_bytes_max) {
    return wrong_parameter(connect_host_offset, true);
  }
  controller_ = subsystem_.create_controller(is_discovery, host);
  if (controller_ == nullptr) {
    return {.status = Status::connect_controller_busy};
  }
  controller_->keep_alive_ms = fields.keep_alive_timeout;
  return {.result = controller_->id};
}

Outcome Session::connect_io(const ConnectFields& fields, const Page& data) {
  auto controller = subsystem_.find_controller(data.get<std::uint16_t>(connect_controller_offset));
  if (controller == nullptr || controller->is_discovery) {
    return wrong_parameter(connect_controller_offset, true);
  }
  if (data.get_text(connect_subsystem_offset, nqn_field_bytes) != controller->subsystem_nqn) {
    return wrong_parameter(connect_subsystem_offset, true);
  }
  if (data.get_text(connect_host_offset, nqn_field_bytes) != controller->host_nqn) {
    return wrong_parameter(connect_host_offset, true);
  }
  if (!controller->is_enabled()) {
    return {.status = Status::command_sequence_error};
  }
  if (fields.queue_id > controller->io_queues) {
    return wrong_parameter(queue_id_in_command, false);
  }
  if (controller->connected.test(fields.queue_id)) {
    return {.status = Status::connect_controller_busy};
  }
  controller->connected.set(fields.queue_id);
  controller_ = std::move(controller);
  return {.result = controller_->id};
}

// --- Admin commands

Plan Session::begin_admin(const Command& command, std::span<std::uint8_t> page) {
  const auto opcode = static_cast<AdminOpcode>(command.opcode);
  switch (opcode) {
    case AdminOpcode::identify:
      return identify(command, page);
    case AdminOpcode::get_log_page:
      return get_log_page(command, page);
    case AdminOpcode::set_features:
      return {.outcome = set_features(command)};
    case AdminOpcode::get_features:
      return {.outcome = get_features(command)};
    case AdminOpcode::async_event_request:
      return hold_event(command);
    case AdminOpcode::keep_alive:
      return controller_->keep_alive_ms == 0 ? only(Status::keep_alive_timeout_invalid) : Plan{};
    case AdminOpcode::abort:
      // Commands are over before an abort could reach them: 1 is "not aborted".
      return {.outcome = {.result = 1}};
  }
  return only(Status::invalid_opcode);
}

Plan Session::identify(const Command& command, std::span<std::uint8_t> page) {
  const auto which = static_cast<Cns>(command.cdw10 & 0xff);
  const auto command_set = command.cdw11 >> 24;
  if (which == Cns::controller) {
    put_controller(Page(page), *controller_, subsystem_.settings());
    return to_host(page);
  }
  if (controller_->is_discovery) {
    return only(Status::invalid_field);
  }
  const bool is_ours = command.nsid == the_namespace;
  switch (which) {
    case Cns::one_namespace:
      if (!is_ours) {
        return only(Status::invalid_namespace);
      }
      put_namespace(Page(page), subsystem_.storage());
      return to_host(page);
    case Cns::active_namespaces:
      put_active_namespaces(Page(page), command.nsid);
      return to_host(page);
    case Cns::namespace_descriptors:
      if (!is_ours) {
        return only(Status::invalid_namespace);
      }
      put_namespace_descriptors(Page(page), subsystem_.settings());
      return to_host(page);
    case Cns::command_set_controller:
      // No limit but MDTS: all zero.
      return command_set == 0 ? to_host(page) : only(Status::invalid_field);
    case Cns::controller:
      break;
  }
  return only(Status::invalid_field);
}

Plan Session::get_log_page(const Command& command, std::span<std::uint8_t> page) {
  const auto which = static_cast<LogPage>(command.cdw10 & 0xff);
  const std::uint64_t dwords = ((command.cdw11 & 0xffffULL) << 16 | command.cdw10 >> 16) + 1;
  const std::uint64_t offset = std::uint64_t{command.cdw13} << 32 | command.cdw12;
  const bool is_known =
      controller_->is_discovery ? which == LogPage::discovery : which == LogPage::smart;
  if (!is_known) {
    return only(Status::invalid_log_page);
  }
  if (dwords > page.size() / 4 || offset % 4 != 0 || offset > page.size()) {
    return only(Status::invalid_field);
  }
  if (which == LogPage::discovery) {
    put_discovery_log(Page(page), subsystem_.settings(), portal_);
  } else {
    put_health(Page(page), subsystem_.totals());
  }
  // Behind the log, zeros.
  std::shift_left(page.begin(), page.end(), static_cast<std::ptrdiff_t>(offset));
  std::ranges::fill(page.last(offset), std::uint8_t{0});
  return to_host(page.first(dwords * 4));
}

Outcome Session::set_features(const Command& command) {
  switch (static_cast<Feature>(command.cdw10 & 0xff)) {
    case Feature::number_of_queues: {
      const std::uint32_t wanted = std::min(command.cdw11 & 0xffff, command.cdw11 >> 16) + 1;
      if (controller_->is_discovery || wanted > 0xffff) {
        break;
      }
      const auto granted = std::min<std::uint32_t>(wanted, subsystem_.settings().io_queues);
      controller_->io_queues = static_cast<std::uint16_t>(granted);
      return {.result = (granted - 1) | (granted - 1) << 16};
    }
    case Feature::async_event_configuration:
      controller_->async_events = command.cdw11;
      return {};
    case Feature::keep_alive_timer:
      controller_->keep_alive_ms = command.cdw11;
      return {};
  }
  return {.status = Status::invalid_field};
}

Outcome Session::get_features(const Command& command) {
  const std::uint32_t queues = controller_->io_queues - 1U;
  switch (static_cast<Feature>(command.cdw10 & 0xff)) {
    case Feature::number_of_queues:
      if (controller_->is_discovery) {
        break;
      }
      return {.result = queues | queues << 16};
    case Feature::async_event_configuration:
      return {.result = controller_->async_events};
    case Feature::keep_alive_timer:
      return {.result = controller_->keep_alive_ms};
  }
  return {.status = Status::invalid_field};
}

Plan Session::hold_event(const Command& command) {
  if (controller_->held_events.size() >= held_events_max) {
    return only(Status::async_event_limit_exceeded);
  }
  controller_->held_events.push_back(command.command_id);
  return {.is_held = true};
}

// --- I/O commands

Plan Session::begin_io(const Command& command) {
  const auto opcode = static_cast<Opcode>(command.opcode);
  if (opcode != Opcode::flush && opcode != Opcode::write && opcode != Opcode::read &&
      opcode != Opcode::write_zeroes) {
    return only(Status::invalid_opcode);
  }
  if (command.nsid != the_namespace) {
    return only(Status::invalid_namespace);
  }
  if (opcode == Opcode::flush) {
    return {};  // Memory is all there is.
  }
  const std::uint64_t first = std::uint64_t{command.cdw11} << 32 | command.cdw10;
  const std::uint64_t count = (command.cdw12 & 0xffff) + 1;
  const auto range = subsystem_.storage().range(first, count);
  if (!range) {
    return only(Status::lba_out_of_range);
  }
  if (opcode == Opcode::write_zeroes) {
    std::ranges::fill(*range, std::uint8_t{0});
    return {};
  }
  if (range->size() > transfer_bytes_max) {
    return only(Status::invalid_field);
  }
  Totals& totals = subsystem_.totals();
  if (opcode == Opcode::read) {
    ++totals.read_commands;
    totals.read_bytes += range->size();
    return to_host(*range);
  }
  ++totals.write_commands;
  totals.written_bytes += range->size();
  return {.data = Plan::Data::from_host, .memory = *range};
}

}  // namespace nvmf
