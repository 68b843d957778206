#include "examples/nvmf/identify.h"

#include <functional>

namespace nvmf {
namespace {

constexpr std::uint32_t sgls_supported = 1U << 0;
constexpr std::uint32_t sgls_offset = 1U << 20;  // data behind the command
constexpr std::uint8_t log_with_offset = 1U << 2;
constexpr std::uint16_t can_write_zeroes = 1U << 3;
constexpr std::uint8_t descriptor_nguid = 2;
constexpr std::uint8_t nguid_bytes = 16;
constexpr std::size_t record_bytes = 1024;

// Fixed for a name, so that a host finds the same namespace again.
void put_nguid(Page& page, std::size_t offset, const Settings& settings) {
  page.put(offset, std::uint64_t{std::hash<std::string>{}(settings.nqn)});
  page.put(offset + 8, std::uint64_t{the_namespace});
}

}  // namespace

// Base, Identify Controller data structure.
void put_controller(Page page, const Controller& controller, const Settings& settings) {
  page.put_text(controller_serial_offset, controller_serial_bytes, "1", ' ');
  page.put_text(controller_model_offset, controller_model_bytes, "Verbena NVMe-oF example", ' ');
  page.put_text(64, 8, "1", ' ');  // firmware
  page.put(controller_transfer_offset, transfer_pages_shift);
  page.put(78, controller.id);
  page.put(80, version_1_3);
  page.put(258, std::uint8_t{3});                                 // ACL, less one
  page.put(259, static_cast<std::uint8_t>(held_events_max - 1));  // AERL
  page.put(261, log_with_offset);                                 // LPA
  page.put(320, std::uint16_t{10});                               // KAS: in 100 ms
  page.put(512, std::uint8_t{0x66});                              // commands: 2^6 bytes
  page.put(513, std::uint8_t{0x44});                              // completions: 2^4
  page.put(514, queue_entries_max);                               // MAXCMD
  page.put(controller_sgls_offset, sgls_supported | sgls_keyed | sgls_offset);
  page.put_text(768, nqn_field_bytes, controller.subsystem_nqn, '\0');
  page.put(1796, std::uint32_t{completion_bytes / 16});  // IORCSZ
  page.put(1803, std::uint8_t{1});                       // MSDBD: descriptors in a command
  if (controller.is_discovery) {
    page.put(controller_capsule_offset, std::uint32_t{command_bytes / 16});
    return;
  }
  page.put(516, std::uint32_t{1});  // namespaces
  page.put(520, can_write_zeroes);  // ONCS
  page.put(controller_capsule_offset,
           static_cast<std::uint32_t>((command_bytes + settings.in_capsule_bytes) / 16));
}

void put_namespace(Page page, Storage& storage) {
  page.put(namespace_size_offset, storage.blocks());
  page.put(8, storage.blocks());   // capacity
  page.put(16, storage.blocks());  // in use
  page.put(namespace_formats_offset + 2, std::uint8_t{block_shift});
}

void put_active_namespaces(Page page, std::uint32_t above) {
  if (above < the_namespace) {
    page.put(0, the_namespace);
  }
}

void put_namespace_descriptors(Page page, const Settings& settings) {
  page.put(0, descriptor_nguid);
  page.put(1, nguid_bytes);
  put_nguid(page, 4, settings);
}

void put_health(Page page, const Totals& totals) {
  // Data units are thousands of blocks of 512 bytes, rounded up.
  constexpr std::uint64_t unit = 512'000;
  page.put(3, std::uint8_t{100});  // spare blocks, per cent
  page.put(4, std::uint8_t{10});   // of which too few are left below
  page.put(32, (totals.read_bytes + unit - 1) / unit);
  page.put(48, (totals.written_bytes + unit - 1) / unit);
  page.put(64, totals.read_commands);
  page.put(80, totals.write_commands);
}

void put_discovery_log(Page page, const Settings& settings, const Portal& portal) {
  page.put(0, std::uint64_t{1});  // generation: this log never changes
  page.put(log_record_count_offset, std::uint64_t{1});
  const auto field = [](std::size_t offset) { return log_header_bytes + offset; };
  page.put(field(record_transport_offset), transport_rdma);
  page.put(field(record_family_offset), static_cast<std::uint8_t>(portal.is_ipv6 ? 2 : 1));
  page.put(field(record_subtype_offset), subtype_nvm);
  page.put(field(4), std::uint16_t{1});  // port
  page.put(field(6), controller_any);
  page.put(field(8), admin_entries_min);
  page.put_text(field(record_service_offset), record_service_bytes, portal.service, '\0');
  page.put_text(field(record_nqn_offset), nqn_field_bytes, settings.nqn, '\0');
  page.put_text(field(record_address_offset), record_address_bytes, portal.address, '\0');
  page.put(field(768), std::uint8_t{1});  // RC
  page.put(field(769), portal.provider_type);
  page.put(field(770), std::uint8_t{1});  // by rdma_cm
  static_assert(log_header_bytes + record_bytes == discovery_log_bytes);
}

}  // namespace nvmf
