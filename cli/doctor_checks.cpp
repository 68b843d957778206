#include "cli/doctor_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

#include "cli/libraries.h"
#include "ports/diagnosis.h"
#include "ports/fabric.h"
#include "ports/failure_journal.h"
#include "ports/interfaces.h"
#include "ports/raw_socket.h"
#include "ports/service_table.h"
#include "ports/udp_socket.h"
#include "proto/ib_bth/cm/service_id.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::cli {
namespace {

using Grade = Finding::Grade;

std::string_view name_of_space(std::uint64_t space) {
  using ib::cm::PortSpace;
  constexpr std::array known = {std::pair{PortSpace::tcp, std::string_view("TCP")},
                                std::pair{PortSpace::udp, std::string_view("UDP")},
                                std::pair{PortSpace::ib, std::string_view("IB")},
                                std::pair{PortSpace::ipoib, std::string_view("IPoIB")}};
  const auto* const found = std::ranges::find_if(known, [&](const auto& pair) {
    return to_value(ib::cm::service_id_of(pair.first, 0)) == space;
  });
  return found == known.end() ? "other" : found->second;
}

/// The kernel's own RoCE device binds the port on all addresses.
bool is_rxe_loaded() {
  std::ifstream modules("/proc/modules");
  for (std::string line; std::getline(modules, line);) {
    if (line.starts_with("rdma_rxe ")) {
      return true;
    }
  }
  return false;
}

void check_members(const std::string& path, Findings& findings) {
  const auto members = ports::list_members(path);
  if (!members) {
    findings.push_back({Grade::problem, "fabric", members.error()});
    return;
  }
  std::vector<std::string> who;
  std::ranges::transform(*members, std::back_inserter(who), [](const ports::FabricMember& member) {
    return fmt::format("process {} with {}", member.pid, member.device_name);
  });
  findings.push_back({members->size() < ports::slots_max ? Grade::ok : Grade::problem, "fabric",
                      fmt::format("{}: {}", path,
                                  who.empty() ? "no program has a device open"
                                              : fmt::format("{}", fmt::join(who, ", ")))});
}

/// A process needs its bell, its counters and a ring to each of its partners there.
void check_room(const std::string& path, Findings& findings) {
  constexpr std::uint64_t wanted_mib = 64;
  std::string directory = path.substr(0, path.rfind('/'));
  struct statvfs space{};
  if (::statvfs(directory.c_str(), &space) != 0) {
    directory = directory.substr(0, directory.rfind('/') + 1);
    if (::statvfs(directory.c_str(), &space) != 0) {
      return;  // The first program makes it, or says why it can't.
    }
  }
  const std::uint64_t free_mib = std::uint64_t{space.f_bavail} * space.f_frsize >> 20;
  const bool is_enough = free_mib >= wanted_mib;
  findings.push_back(
      {is_enough ? Grade::ok : Grade::problem, "room",
       fmt::format("{} MiB free in {}{}", free_mib, directory,
                   is_enough ? ""
                             : ": programs may not find room for their rings; enlarge "
                               "it (a container: --shm-size) or set VERBENA_FABRIC "
                               "to a path elsewhere")});
}

void check_listeners(const std::string& path, Findings& findings) {
  const auto listeners = ports::list_listeners(path);
  if (!listeners) {
    return;  // The fabric's own check has told why.
  }
  for (const ports::Listener& listener : *listeners) {
    findings.push_back(
        {Grade::note, "listening",
         fmt::format("{} {}", name_of_space(listener.claim.space), ports::describe(listener))});
  }
}

void check_failures(const std::string& path, Time now, Findings& findings) {
  const auto failures = ports::read_failures(path);
  if (!failures) {
    return;
  }
  for (const ports::Failure& failure : *failures) {
    const auto age = std::chrono::duration<double>(now - failure.time);
    findings.push_back(
        {Grade::problem, "failure",
         fmt::format("{:.1f} s ago, process {}: {}", age.count(), failure.pid, failure.sentence)});
  }
}

void check_udp(const ports::DeviceConfig& device, Findings& findings) {
  const std::vector<ports::InterfaceAddress> host = ports::host_addresses();
  for (const Gid& address : device.addresses) {
    const auto place = std::ranges::find(host, address, &ports::InterfaceAddress::address);
    const auto socket = ports::UdpSocket::open(
        place != host.end() ? *place : ports::InterfaceAddress{.address = address});
    if (socket) {
      findings.push_back({Grade::ok, "network",
                          fmt::format("UDP port {} of {} can be had", roce::udp_port,
                                      roce::to_address_text(address))});
      continue;
    }
    findings.push_back({Grade::problem, "network",
                        fmt::format("{}{}", socket.error(),
                                    is_rxe_loaded() ? ". The kernel's rdma_rxe is loaded and has "
                                                      "the port: `rdma link delete`, or rmmod "
                                                      "rdma_rxe"
                                                    : "")});
  }
}

Finding check_raw_ethernet(const ports::DeviceConfig& device) {
  const auto socket = ports::RawSocket::open(device.interface, device.vlan);
  return socket ? Finding{Grade::ok, "network",
                          fmt::format("raw Ethernet of {} can be had", device.interface)}
                : Finding{Grade::problem, "network", socket.error()};
}

/// For whom a device is there.
std::string_view reach_of(const ports::DeviceConfig& device) {
  if (device.technology == nic::Technology::iwarp) {
    return device.faces_network() ? "iWARP over TCP, for this host and others"
                                  : "iWARP over TCP, for this host only";
  }
  return device.faces_network() ? "for this host and others"
                                : "for programs of this user on this host only";
}

}  // namespace

std::string_view name_of(Finding::Grade grade) {
  switch (grade) {
    case Grade::ok:
      return "ok";
    case Grade::note:
      return "note";
    case Grade::problem:
      return "problem";
  }
  return "?";
}

void check_libraries(Findings& findings) {
  const auto directory = library_directory();
  findings.push_back(
      directory ? Finding{Grade::ok, "libraries", fmt::format("{}/{}", *directory, library_name)}
                : Finding{Grade::problem, "libraries",
                          fmt::format("{} isn't where `verbena run` looks for it, ../lib/verbena "
                                      "and ../lib from this program; ./dev build makes it",
                                      library_name)});
}

void check_real_devices(const ports::RealDevices& real, Findings& findings) {
  if (!real.wanted) {
    return;
  }
  const std::vector<std::string> files = ports::real_library_candidates(real);
  const auto file = std::ranges::find_if(files, [](const std::string& candidate) {
    std::error_code failure;
    return std::filesystem::is_regular_file(candidate, failure);
  });
  if (file == files.end()) {
    findings.push_back({Grade::problem, "real",
                        fmt::format("no libibverbs.so.1 of the system: {}; install it (Debian: "
                                    "libibverbs1, ibverbs-providers) or name it with {}",
                                    fmt::join(files, ", "), ports::env::real_libibverbs)});
    return;
  }
  const std::vector<std::string> names = ports::kernel_device_names();
  findings.push_back({names.empty() ? Grade::note : Grade::ok, "real",
                      names.empty()
                          ? "this host's kernel has no RDMA devices (/sys/class/infiniband)"
                          : fmt::format("{} of the kernel, by {}", fmt::join(names, ", "), *file)});
}

void check_device(const ports::DeviceConfig& device, Findings& findings) {
  std::vector<std::string> addresses;
  std::ranges::transform(device.addresses, std::back_inserter(addresses), roce::to_address_text);
  findings.push_back(
      {Grade::ok, "device",
       fmt::format("{}: {}, {}", device.name, fmt::join(addresses, ", "), reach_of(device))});
  if (device.technology == nic::Technology::iwarp) {
    return;  // Its ports are those that programs listen on (ss -tlnp shows them).
  }
  if (!device.link.empty()) {
    findings.push_back(
        {Grade::note, "network",
         fmt::format("on the link {}, which one program at a time can have; what its "
                     "programs count of it is in `verbena counters`",
                     device.link)});
  } else if (device.raw) {
    findings.push_back(check_raw_ethernet(device));
  } else if (device.faces_network()) {
    check_udp(device, findings);
  }
}

void check_fabric(const std::string& path, Time now, Findings& findings) {
  check_members(path, findings);
  check_room(path, findings);
  check_listeners(path, findings);
  check_failures(path, now, findings);
}

void check_counters(const Observed& observed, Findings& findings) {
  for (const std::string& failure : observed.failures) {
    findings.push_back({Grade::problem, "counters", failure});
  }
  for (const ports::DeviceStatistics& device : observed.devices) {
    for (std::size_t i = 0; i < counter_count; ++i) {
      const std::string_view meaning = ports::explain(static_cast<Counter>(i));
      if (device.counters[i] != 0 && !meaning.empty()) {
        findings.push_back({Grade::problem, "counters",
                            fmt::format("process {} ({}), {} {}: {}", device.pid, device.program,
                                        counter_names[i], device.counters[i], meaning)});
      }
    }
  }
}

}  // namespace verbena::cli
