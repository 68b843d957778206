// Asynchronous events of a context: from the NIC to ibv_get_async_event().
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "verbs/abi.h"
#include "verbs/event_fd.h"

namespace verbena::verbs {

/// Unread events of one context; more are lost, which the user is told once.
inline constexpr std::uint32_t async_events_max = 1024;

class AsyncQueue {
 public:
  [[nodiscard]] int fd() const { return event_fd_.fd(); }

  /// `delivered` is the object's count of events that a program has fetched, by which destroying
  /// it waits for their acknowledgement; nullptr if the event belongs to no object.
  void push(const ibv_async_event& event, std::uint32_t* delivered) noexcept;
  /// Takes the oldest event; blocks as EventFd::wait() does.
  [[nodiscard]] Errno pop(ibv_async_event& event);
  /// Drops the unread events of the object with this count. Returns how many were fetched.
  std::uint32_t forget(const std::uint32_t* delivered) noexcept;

 private:
  struct Entry {
    ibv_async_event event;
    std::uint32_t* delivered;
  };

  EventFd event_fd_;
  std::mutex mutex_;
  /// A ring; first_ and count_ in entries.
  std::array<Entry, async_events_max> entries_;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  bool overflow_reported_ = false;
};

}  // namespace verbena::verbs
