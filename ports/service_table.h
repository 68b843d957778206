// Who listens: the ports that the processes of a fabric have bound, as a kernel keeps them for a
// real host. A port belongs to its process until it is released or the process dies.
//
// Changes are made by one process at a time, under a lock on one byte of the fabric's file, which
// the kernel releases if that process dies. Entries of a dead process count for nothing, and are
// cleared with its slot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ports/fabric.h"
#include "proto/gid.h"

namespace verbena::ports {

/// A port that a process wants, or has.
struct ServiceClaim {
  /// The upper bits of a service ID; the lower 16 bits are the port.
  std::uint64_t space = 0;
  /// 0: any that is free, from the ephemeral range.
  std::uint16_t port = 0;
  /// All zeros: any IPv6 address. IPv4 addresses are mapped, 0.0.0.0 too.
  Gid address;
  /// As SO_REUSEADDR: others may have the port too, as long as nobody listens.
  bool reuse = false;
  /// An IPv6 claim that has nothing to do with IPv4 ones.
  bool v6_only = false;

  [[nodiscard]] bool is_v4() const;
  [[nodiscard]] bool is_any_address() const;
};

/// Index in the table.
enum class ServiceEntryId : std::uint32_t {};

class ServiceTable {
 public:
  /// Both must outlive the table.
  explicit ServiceTable(Fabric& fabric) : fabric_(fabric) {}

  struct Bound {
    ServiceEntryId entry{};
    std::uint16_t port = 0;
  };
  /// The error is an errno: EADDRINUSE, EADDRNOTAVAIL if no ephemeral port or no entry is free, EIO
  /// if the fabric's file is gone.
  [[nodiscard]] Result<Bound, int> bind(ServiceClaim claim);
  /// The owner listens from now on. EADDRINUSE if others hold the port as well. 0 is success.
  [[nodiscard]] int listen(ServiceEntryId entry);
  void release(ServiceEntryId entry);

  /// Whether a living process, this one included, listens there.
  [[nodiscard]] bool has_listener(std::uint64_t service_id, const Gid& address);
  /// As describe() tells it, in the order of the table.
  [[nodiscard]] std::vector<std::string> listeners(std::uint64_t space) const;

 private:
  [[nodiscard]] std::optional<sys::Fd> lock() const;
  [[nodiscard]] bool conflicts(const ServiceClaim& claim, std::optional<ServiceEntryId> except,
                               bool to_listen);
  [[nodiscard]] std::optional<ServiceEntryId> free_entry();
  [[nodiscard]] bool find_ephemeral_port(ServiceClaim& claim);

  Fabric& fabric_;
};

/// A port that a process listens on.
struct Listener {
  ServiceClaim claim;
  std::int32_t pid = 0;
};

/// For people: "port 7174 of any address (process 12)".
[[nodiscard]] std::string describe(const Listener& listener);

/// Who listens in a fabric, without joining it. Empty if the fabric doesn't exist. The error is a
/// sentence.
[[nodiscard]] Result<std::vector<Listener>, std::string> list_listeners(
    const std::string& fabric_path);

}  // namespace verbena::ports
