// The data structures in which a controller tells of itself: Identify and log pages.
#pragma once

#include <cstdint>
#include <string>

#include "examples/nvmf/page.h"
#include "examples/nvmf/subsystem.h"

namespace nvmf {

// Where a host reached the target: goes into the discovery log, so that it is found there again.
struct Portal {
  bool is_ipv6 = false;
  std::string address;
  std::string service;
  // RDMA_PRTYPE: 1 doesn't say, 4 RoCE v2, 5 iWARP.
  std::uint8_t provider_type = 1;
};

// Each fills a page that is all zero.

void put_controller(Page page, const Controller& controller, const Settings& settings);
void put_namespace(Page page, Storage& storage);
void put_active_namespaces(Page page, std::uint32_t above);
void put_namespace_descriptors(Page page, const Settings& settings);
void put_health(Page page, const Totals& totals);

// Header and one record, of the subsystem that isn't for discovery.
constexpr std::size_t discovery_log_bytes = 2048;
void put_discovery_log(Page page, const Settings& settings, const Portal& portal);

// Of a record of the discovery log, which the initiator reads, too.
constexpr std::size_t log_header_bytes = 1024;
constexpr std::size_t log_record_count_offset = 8;
constexpr std::size_t record_transport_offset = 0;
constexpr std::size_t record_family_offset = 1;
constexpr std::size_t record_subtype_offset = 2;
constexpr std::size_t record_service_offset = 32;
constexpr std::size_t record_service_bytes = 32;
constexpr std::size_t record_nqn_offset = 256;
constexpr std::size_t record_address_offset = 512;
constexpr std::size_t record_address_bytes = 256;
constexpr std::uint8_t transport_rdma = 1;
constexpr std::uint8_t subtype_nvm = 2;

// Of Identify's data, which the initiator reads, too.
constexpr std::size_t controller_serial_offset = 4;
constexpr std::size_t controller_serial_bytes = 20;
constexpr std::size_t controller_model_offset = 24;
constexpr std::size_t controller_model_bytes = 40;
constexpr std::size_t controller_transfer_offset = 77;  // MDTS
constexpr std::size_t controller_sgls_offset = 536;
constexpr std::size_t controller_capsule_offset = 1792;  // IOCCSZ, in units of 16 bytes
constexpr std::size_t namespace_size_offset = 0;
constexpr std::size_t namespace_format_offset = 26;  // FLBAS
constexpr std::size_t namespace_formats_offset = 128;
constexpr std::uint32_t sgls_keyed = 1U << 2;

}  // namespace nvmf
