// A connection of the initiator: commands out, completions in, memory that the target reads and
// writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/nvmf/nvme.h"
#include "examples/nvmf/rdma.h"

namespace nvmf {

struct Place {
  std::string address;
  std::uint16_t port = nvme_port;
};

struct QueueWishes {
  std::uint16_t queue_id = 0;
  // Commands that may be under way.
  std::uint16_t entries = admin_entries_min;
  std::uint16_t controller_id = 0;
  // Data that may come behind a command, and data of a command at all.
  std::size_t in_capsule_bytes = 0;
  std::size_t data_bytes = page_bytes;
  // Data are reached through memory windows of type 2, and the target is asked to take them away.
  bool uses_windows = false;
  std::chrono::milliseconds timeout{30'000};
};

enum class Direction : std::uint8_t { none, to_host, from_host };

struct Done {
  std::size_t tag = 0;
  Completion completion;
};

class HostQueue {
 public:
  // Connects; Connect the command is the caller's. Throws a Failure.
  HostQueue(const Place& place, const QueueWishes& wishes);
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  [[nodiscard]] std::size_t entries() const { return wishes_.entries; }
  [[nodiscard]] std::uint16_t queue_id() const { return wishes_.queue_id; }
  // The memory of the command with this tag, which is less than entries().
  std::span<std::uint8_t> data(std::size_t tag) { return (*data_)[tag]; }

  // The tag must be free. `length` bytes of data(tag) go in this direction, unless it is none.
  void submit(std::size_t tag, Command command, Direction direction, std::size_t length);
  // The next command that is done. Throws a Failure after the timeout.
  Done wait();
  // One command with tag 0, and nothing else under way but commands that are held for ever.
  Completion execute(const Command& command, Direction direction = Direction::none,
                     std::size_t length = 0);

  // How data went.
  struct Counts {
    std::uint64_t in_capsule = 0;
    std::uint64_t by_key = 0;
    std::uint64_t invalidated = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // A command is done when its completion is here and its SEND is, too.
  struct Slot {
    bool is_sent = true;
    bool is_answered = true;
    bool has_window = false;
    Completion completion;
  };

  explicit HostQueue(const QueueWishes& wishes);

  void connect(const Place& place);
  void create_queue_pair();
  void connect_queue_pair();
  void post_receive(std::size_t index);
  void bind_window(std::size_t tag, Direction direction, std::size_t length);
  [[nodiscard]] Sgl describe_data(std::size_t tag, Direction direction, std::size_t length);
  void on_completion(const ibv_wc& wc);
  void on_answer(const ibv_wc& wc);
  void note_if_done(std::size_t tag);
  void wait_for_event();

  const QueueWishes wishes_;
  OwnedId id_;
  OwnedPd pd_;
  OwnedCompChannel channel_;
  OwnedCq cq_;
  std::unique_ptr<Pieces> capsules_;
  std::unique_ptr<Pieces> answers_;
  std::unique_ptr<Pieces> data_;
  std::vector<OwnedMw> windows_;
  std::vector<Slot> slots_;
  std::deque<std::size_t> done_;
  Counts counts_;
};

}  // namespace nvmf
