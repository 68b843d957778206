// The files of a fabric: making, checking, naming, cleaning them. See fabric.h for the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "ports/fabric_layout.h"
#include "ports/sys.h"

namespace verbena::ports {

[[nodiscard]] std::string bell_path(const std::string& fabric_path, std::uint32_t slot);
[[nodiscard]] std::string ring_path(const std::string& fabric_path, std::uint32_t producer,
                                    std::uint32_t consumer, std::uint64_t serial);

/// A fabric's file, open and mapped through one open file description.
struct OpenFabric {
  sys::Fd fd;
  sys::SharedMemory memory;
  ino_t inode = 0;

  [[nodiscard]] FabricFile& file() const;
};

using AllocateFunction = int (*)(int fd, std::uint64_t bytes);

/// Opens the fabric, or makes it. Refuses one of another user, mode or version. The error is a
/// sentence.
[[nodiscard]] Result<OpenFabric, std::string> open_or_create_fabric(const std::string& path,
                                                                    AllocateFunction allocate);
/// Opens a fabric that exists; nullopt if there is none.
[[nodiscard]] Result<std::optional<OpenFabric>, std::string> open_fabric(const std::string& path);

/// A descriptor of its own for the file at `path`, if that is still the one with `inode`.
[[nodiscard]] std::optional<sys::Fd> reopen_fabric(const std::string& path, ino_t inode);

/// Locks a free slot through fabric.fd and clears it, and clears slots of dead processes on the
/// way. nullopt if every slot is locked.
[[nodiscard]] std::optional<std::uint32_t> lock_free_slot(OpenFabric& fabric,
                                                          const std::string& path);

/// Removes what the last owner of a slot left: its QPNs, doorbell and rings, but not rings that a
/// living process has yet to map. The caller holds the slot's lock.
void clear_slot(FabricFile& file, const std::string& path, std::uint32_t slot);

/// Clears `own_slot`, whose lock `memory` holds, for good, and unmaps. If no other slot is locked,
/// clears those of the dead as well and removes the fabric's file.
void leave_fabric(sys::SharedMemory memory, const std::string& path, ino_t inode,
                  std::uint32_t own_slot);

}  // namespace verbena::ports
