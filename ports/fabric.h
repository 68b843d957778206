// The host fabric: how the processes of one user on one host share a network without a daemon.
//
// A fabric is a file in a directory that only its user can enter. Each open device of a process has
// a slot in it and blocks of QPNs; a table names the owner of each block, so the destination QPN of
// a frame names its process. Frames travel in rings (fabric_ring.h), one for each ordered pair of
// slots that have something to say to each other, each in a file of its own.
//
//   default.fabric              slots, owners of QPNs, announcements (fabric_layout.h)
//   default.fabric.3.bell       doorbell of slot 3
//   default.fabric.3.5.9.ring   ring 9 from slot 3 to slot 5, until slot 5 has mapped it
//   default.fabric.3.stats      what the device of slot 3 counts (stats_file.h)
//
// Life and death. A slot is taken by a lock on one byte of the file. The lock belongs to an open
// file description whose only reference is the memory mapping: its descriptor is closed at once and
// the mapping is not inherited by fork(). So the kernel releases the lock when the process dies, in
// whatever way, and neither a child nor a program that closes all its descriptors disturbs it. Who
// takes a slot, or meets one whose owner died, first clears what the dead one left. A slot counts
// its lives: everything that names a slot names the life as well, and a stale name is nobody's.
//
// Rings. The producer makes a ring's file, maps it and announces it to the consumer. The consumer
// maps it and removes its name: after that the memory lives exactly as long as the two mappings, so
// dead processes leave none behind. What a process sent before it died or left is still delivered.
//
// Frames without an owner. No QPN of a process is in a frame to a multicast group (QPN 0xFFFFFF) or
// to the general services interface (QPN 1). Slots list the GIDs whose frames they want, and the
// sender puts a copy into the ring of each of them.
//
// Sleep. A consumer that is about to sleep sets `asleep` and then looks at its rings once more; a
// producer publishes and then looks at `asleep`. Both put a sequentially consistent fence between
// the two steps, so at least one of them sees the other: no frame is slept over, and nobody who is
// awake costs a system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "ports/doorbell.h"
#include "ports/fabric_layout.h"
#include "ports/fabric_ring.h"
#include "ports/sys.h"
#include "proto/gid.h"

namespace verbena::ports {

/// The mapped file of a ring.
struct RingMapping {
  sys::SharedMemory memory;
  SlotLife producer{};
  SlotLife consumer{};

  [[nodiscard]] RingHeader& header() const;
  [[nodiscard]] MutableBytes data() const { return memory.bytes().subspan(ring_header_bytes); }
};

class Fabric {
 public:
  struct Options {
    /// Absolute path of the fabric file. Its directory is made if only the last part is missing.
    std::string path;
    /// For people who look at the fabric.
    std::string_view device_name;
    /// Size of the rings to other processes; see DeviceConfig.
    std::size_t ring_bytes;
    /// sys::allocate; a test puts a full file system here.
    int (*allocate)(int fd, std::uint64_t bytes) = &sys::allocate;
  };

  /// Takes a slot. The error is a sentence that says what to do.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>, std::string> join(const Options& options);
  /// Leaves: frees slot and QPNs. The last one to leave removes the fabric's file.
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  [[nodiscard]] SlotLife self() const { return self_; }
  /// As it was told to join().
  [[nodiscard]] std::string device_name() const;
  /// For people: which process, as far as its slot tells.
  [[nodiscard]] std::int32_t process_of(SlotLife life) const;

  /// Takes block_qpns QPNs for this process; nullopt if all are taken by living processes.
  [[nodiscard]] std::optional<Qpn> take_qpn_block();
  /// Who owns a QPN; SlotLife{} for nobody. The owner may have died a moment ago.
  [[nodiscard]] SlotLife owner_of(Qpn qpn) const;
  /// Whether that life has not ended by leaving, or by a death that somebody noticed.
  [[nodiscard]] bool is_current(SlotLife life) const;
  /// Asks the kernel whether the owner lives; if it died, clears what it left.
  [[nodiscard]] bool check_alive(SlotLife life);

  /// From now on this process wants frames to `gid`: a multicast group, or QPN 1 of an address of
  /// its own. At most memberships_max.
  void join_gid(const Gid& gid);
  void leave_gid(const Gid& gid);
  /// All processes that want frames to `gid`, this one included. Each may have died a moment ago.
  [[nodiscard]] std::vector<SlotLife> members_of(const Gid& gid) const;
  /// Differs from what it was before as soon as members_of() may tell something else. Cheap.
  [[nodiscard]] std::uint32_t membership_changes() const;

  /// The life in which a slot is now, or was last.
  [[nodiscard]] SlotLife life_of(std::uint32_t slot) const;

  /// Makes a ring to `consumer` and announces it. The error is -errno.
  [[nodiscard]] Result<RingMapping, int> create_ring(SlotLife consumer);
  /// Whether a ring was announced since the last take_announced_rings(). Cheap.
  [[nodiscard]] bool has_announcements() const;
  /// Maps the rings that were announced to us. One that can't be mapped, or that is not what its
  /// name says, is left out and counted in `bad`.
  [[nodiscard]] std::vector<RingMapping> take_announced_rings(std::uint64_t& bad);

  /// See "Sleep" above. set_asleep(true) contains the fence.
  void set_asleep(bool asleep);
  /// The producer's side: contains the fence, rings if the owner sleeps. True if it rang.
  bool wake(SlotLife life);
  [[nodiscard]] Doorbell& doorbell() { return doorbell_; }

  /// Written by failure_journal.h only.
  [[nodiscard]] FailureJournal& journal() { return file().failures; }

 private:
  friend class ServiceTable;

  Fabric(const Options& options, sys::SharedMemory memory, ino_t inode, std::uint32_t slot_index,
         Doorbell doorbell);

  [[nodiscard]] FabricFile& file() const;
  [[nodiscard]] Result<RingMapping, int> map_ring(std::uint32_t producer_slot,
                                                  std::uint64_t serial) const;

  std::string path_;
  std::size_t ring_bytes_;
  int (*allocate_)(int fd, std::uint64_t bytes);
  sys::SharedMemory memory_;
  ino_t inode_;
  SlotLife self_{};
  Doorbell doorbell_;
  std::uint32_t announcements_seen_ = 0;
  std::uint64_t next_serial_ = 1;
  /// Where the search for a free port begins; 0 until there was one.
  std::uint32_t ephemeral_cursor_ = 0;
};

/// One slot of a fabric that is in use, for people.
struct FabricMember {
  std::uint32_t slot = 0;
  SlotLife life{};
  std::int32_t pid = 0;
  std::string device_name;
  std::uint32_t qpn_blocks = 0;
};

/// Who is in a fabric, without joining it. Empty if the fabric doesn't exist.
[[nodiscard]] Result<std::vector<FabricMember>, std::string> list_members(const std::string& path);

/// Sends an injection to the process in a slot. The error is a sentence.
[[nodiscard]] Result<void, std::string> send_injection(const std::string& path, std::uint32_t slot,
                                                       const Injection& injection);

}  // namespace verbena::ports
