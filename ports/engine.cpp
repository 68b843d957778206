#include "ports/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <ctime>
#include <vector>

#include "base/prng.h"
#include "ports/capture_port.h"
#include "ports/engine_loop.h"
#include "ports/fabric_port.h"
#include "ports/fault_port.h"
#include "ports/host_port.h"
#include "ports/icrc_port.h"
#include "ports/interfaces.h"
#include "ports/kernel_socket.h"
#include "ports/link_port.h"
#include "ports/log.h"
#include "ports/log_port.h"
#include "ports/own_tcp_port.h"
#include "ports/packet_sizes.h"
#include "ports/raw_port.h"
#include "ports/sys.h"
#include "ports/tcp_port.h"
#include "ports/udp_port.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

struct Engine::Impl {
  EngineLoop loop;
};

namespace {

/// The addresses that other hosts can reach, and where this host has them.
std::vector<InterfaceAddress> outside_of(const DeviceConfig& config,
                                         std::span<const InterfaceAddress> host) {
  std::vector<InterfaceAddress> outside;
  for (const Gid& address : config.addresses) {
    const auto place = std::ranges::find_if(host, [&](const InterfaceAddress& item) {
      return item.address == address &&
             (config.interface.empty() || item.interface == config.interface);
    });
    if (!roce::is_loopback(address)) {
      // One that has gone meanwhile is refused in words when it is opened.
      outside.push_back(place != host.end() ? *place : InterfaceAddress{.address = address});
    }
  }
  return outside;
}

Result<std::unique_ptr<NetworkPort>, std::string> open_network(
    const DeviceConfig& config, std::span<const InterfaceAddress> host) {
  if (!config.link.empty()) {
    return LinkPort::open({.device = config.name,
                           .link = config.link,
                           .mac = config.mac,
                           .addresses = config.link_addresses,
                           .takes_tcp = config.technology == nic::Technology::iwarp});
  }
  const std::vector<InterfaceAddress> outside = outside_of(config, host);
  if (!config.raw) {
    return UdpPort::open(outside);
  }
  return RawPort::open({.device = config.name,
                        .interface = config.interface,
                        .interface_index = outside.front().interface_index,
                        .mac = config.mac,
                        .vlan = config.vlan});
}

/// The ways of a device: the fabric, and the network if it faces one.
Result<std::unique_ptr<Port>, std::string> open_ways(const DeviceConfig& config,
                                                     std::unique_ptr<Fabric> fabric) {
  auto local = std::make_unique<FabricPort>(std::move(fabric));
  if (!config.faces_network()) {
    return local;
  }
  // On a link the addresses of this host are as far away as any other.
  auto host = config.link.empty() ? host_addresses() : std::vector<InterfaceAddress>{};
  auto network = open_network(config, host);
  if (!network) {
    return std::unexpected(fmt::format("can't open {}: {}", config.name, network.error()));
  }
  // The device may have an address that the kernel has not.
  for (const nic::GidEntry& row : nic_config(config).gids) {
    host.push_back({.interface = config.interface, .address = row.gid});
  }
  auto port = HostPort::open(config.name, std::move(local), std::move(*network), host);
  if (!port) {
    return std::unexpected(fmt::format("can't open {}: {}", config.name, port.error()));
  }
  return std::move(*port);
}

/// Each process draws for itself. With one stream for all, a sender and a receiver that see the
/// same frames would decide alike, and a bit that both change would be right again.
std::uint64_t fault_seed_of(const DeviceConfig& config, SlotLife place) {
  const auto address = ByteView(bytes_of(config.addresses.front())).last(sizeof(std::uint32_t));
  const std::uint64_t who =
      std::uint64_t{read_struct<boost::endian::big_uint32_buf_t>(address).value()} << 32 |
      slot_of(place);
  return Prng(config.fault_seed).next() ^ Prng(who).next();
}

/// With what stands in front of the ways: capture, log, and in front of them faults.
Result<std::unique_ptr<Port>, std::string> decorate(const DeviceConfig& config, SlotLife place,
                                                    std::unique_ptr<Port> port) {
  if (!config.capture.empty()) {
    auto file = CaptureFile::open(config.capture);
    if (!file) {
      return std::unexpected(std::move(file.error()));
    }
    const std::string description = fmt::format("{} of process {}", config.name, sys::process_id());
    port =
        std::make_unique<CapturePort>(std::move(port), std::move(*file), config.name, description);
  }
  if (logs(LogLevel::debug)) {
    port = std::make_unique<LogPort>(std::move(port), config.name);
  }
  if (!config.faults.empty()) {
    port = std::make_unique<FaultPort>(std::move(port), config.faults, fault_seed_of(config, place),
                                       Engine::now());
  }
  if (config.icrc_sent != IcrcSent::good || config.icrc_check != IcrcCheck::on) {
    port = std::make_unique<IcrcPort>(std::move(port), config.icrc_sent, config.icrc_check);
  }
  return port;
}

/// The longest IP packet of a link: that of Ethernet, or as long as it has to be for packets of
/// RoCE with the device's MTU.
std::uint16_t packet_bytes_max(const DeviceConfig& config) {
  return static_cast<std::uint16_t>(
      std::max(ethernet_mtu_bytes,
               nic::mtu_bytes(config.mtu) + packet_overhead_bytes(inet::ipv6_header_bytes)));
}

/// The port of an iWARP device on a link, with a TCP of its own: its segments are frames, with all
/// that stands in front of those of other devices.
Result<std::unique_ptr<TcpPort>, std::string> open_own_tcp(const DeviceConfig& config,
                                                           std::unique_ptr<Fabric> fabric) {
  const SlotLife place = fabric->self();
  auto port = open_ways(config, std::move(fabric));
  if (port) {
    port = decorate(config, place, std::move(*port));
  }
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  auto tcp = std::make_shared<OwnTcp>(inet::TcpStack::Settings{
      .addresses = config.link_addresses, .packet_bytes_max = packet_bytes_max(config)});
  auto frames = std::make_unique<OwnTcpPort>(std::move(*port), tcp);
  return TcpPort::open(std::move(frames), std::move(tcp), nullptr);
}

/// The port of an iWARP device. Nothing stands in front of it that knows frames only.
Result<std::unique_ptr<TcpPort>, std::string> open_streams(const DeviceConfig& config,
                                                           std::unique_ptr<Fabric> fabric) {
  std::shared_ptr<StreamRecorder> recorder;
  if (!config.capture.empty()) {
    auto file = CaptureFile::open(config.capture);
    if (!file) {
      return std::unexpected(std::move(file.error()));
    }
    recorder = std::make_shared<StreamRecorder>(
        std::move(*file), config.name,
        fmt::format("{} of process {}; the kernel's TCP carries it, so segments and their headers "
                    "are made up around the real bytes",
                    config.name, sys::process_id()));
  }
  return TcpPort::open(std::make_unique<FabricPort>(std::move(fabric)),
                       std::make_shared<KernelTcp>(), std::move(recorder));
}

struct OpenedPort {
  std::unique_ptr<Port> port;
  TcpPort* streams = nullptr;
};

Result<OpenedPort, std::string> open_port(const DeviceConfig& config,
                                          std::unique_ptr<Fabric> fabric) {
  OpenedPort opened;
  if (config.technology == nic::Technology::iwarp) {
    auto port = config.link.empty() ? open_streams(config, std::move(fabric))
                                    : open_own_tcp(config, std::move(fabric));
    if (!port) {
      return std::unexpected(std::move(port.error()));
    }
    opened.streams = port->get();
    opened.port = std::move(*port);
    return opened;
  }
  const SlotLife place = fabric->self();
  auto port = open_ways(config, std::move(fabric));
  if (port) {
    port = decorate(config, place, std::move(*port));
  }
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  opened.port = std::move(*port);
  return opened;
}

}  // namespace

Result<std::unique_ptr<Engine>, std::string> Engine::open(const DeviceConfig& config,
                                                          EngineListener& listener) {
  auto fabric = Fabric::join(
      {.path = config.fabric_path, .device_name = config.name, .ring_bytes = config.ring_bytes});
  if (!fabric) {
    return std::unexpected(std::move(fabric.error()));
  }
  Fabric& joined = **fabric;
  auto opened = open_port(config, std::move(*fabric));
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  auto impl = std::unique_ptr<Impl>(new Impl{
      .loop = EngineLoop(config, listener, std::move(opened->port), opened->streams, joined)});
  if (auto started = impl->loop.start(); !started) {
    return std::unexpected(fmt::format("can't start the background thread of {}: {}", config.name,
                                       sys::error_text(started.error())));
  }
  for (const std::string& note : config.notes) {
    log(LogLevel::warn, config.name, std::nullopt, note);
  }
  log(LogLevel::info, config.name, std::nullopt,
      fmt::format("opened, in the fabric {}", config.fabric_path));
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  if (is_dead()) {
    // The thread and the shared memory belong to the parent: there is nothing to end here, and
    // nothing that may be touched.
    static_cast<void>(impl_.release());
  }
}

Result<nic::Qp*, nic::NicError> Engine::create_qp(nic::Pd& pd, const nic::QpInitAttr& attr) {
  return with_nic([&](nic::Nic& nic, Time) -> Result<nic::Qp*, nic::NicError> {
    for (;;) {
      auto created = nic.create_qp(pd, attr);
      if (created || created.error() != nic::NicError::qpns_exhausted) {
        return created;
      }
      if (!impl_->loop.add_qpn_block()) {
        return std::unexpected(nic::NicError::limit_reached);
      }
    }
  });
}

Result<void, nic::NicError> Engine::destroy_qp(nic::Qp& qp) {
  return with_nic([&](nic::Nic& nic, Time) {
    TcpPort* const port = streams();
    // The number may be given again, and the peer must not meet whoever gets it.
    if (port != nullptr) {
      port->forget(qp);
    }
    return nic.destroy_qp(qp);
  });
}

TcpPort* Engine::streams() { return impl_->loop.streams(); }

bool Engine::try_progress() { return impl_->loop.try_progress(); }

PortStatistics Engine::port_statistics() {
  return with_nic([&](nic::Nic&, Time) { return impl_->loop.port().statistics(); });
}

const nic::Nic& Engine::peek() const { return impl_->loop.nic(); }

nic::Nic& Engine::nic() { return impl_->loop.nic(); }

Time Engine::now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Time(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

bool Engine::is_dead() const { return impl_->loop.is_dead(); }

void Engine::lock() { impl_->loop.lock().lock(); }

void Engine::unlock() { impl_->loop.lock().unlock(); }

void Engine::settle_locked() { impl_->loop.settle(); }

void Engine::finish_command(Time /*now*/) { impl_->loop.run_effects(); }

void Engine::finish_post_send(Time now) { impl_->loop.after_post_send(now); }

void Engine::finish_post_recv(Time /*now*/) { impl_->loop.after_post_recv(); }

Fabric* Engine::fabric() { return impl_->loop.fabric(); }

}  // namespace verbena::ports
