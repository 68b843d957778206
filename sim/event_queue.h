// The order of things in a simulated world: a heap of events, ordered by time and then by the order
// in which they were scheduled. Nothing else orders events, so a run is the same on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace verbena::sim {

/// Takes events that it has scheduled; `token` is its own.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_event(Time now, std::uint64_t token) = 0;
};

struct Event {
  Time time;
  std::uint64_t sequence = 0;
  EventHandler* handler = nullptr;
  std::uint64_t token = 0;
};

class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  /// When the next event is due; time_never if there is none.
  [[nodiscard]] Time next_time() const { return heap_.empty() ? time_never : heap_.front().time; }

  /// `handler` must live until the event has happened.
  void schedule(Time time, EventHandler& handler, std::uint64_t token) {
    heap_.push_back({time, next_sequence_++, &handler, token});
    sift_up(heap_.size() - 1);
  }

  /// Takes the next event out. There must be one.
  Event pop() {
    VERBENA_CHECK(!heap_.empty());
    const Event first = heap_.front();
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      sift_down(0);
    }
    return first;
  }

 private:
  /// Four children a node: half the levels of a binary heap, and the children share cache lines.
  static constexpr std::size_t arity = 4;

  static bool before(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
  }

  void sift_up(std::size_t at) {
    const Event event = heap_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / arity;
      if (!before(event, heap_[parent])) {
        break;
      }
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  void sift_down(std::size_t at) {
    const Event event = heap_[at];
    for (;;) {
      const std::size_t first = at * arity + 1;
      if (first >= heap_.size()) {
        break;
      }
      const std::size_t end = std::min(first + arity, heap_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (before(heap_[child], heap_[least])) {
          least = child;
        }
      }
      if (!before(heap_[least], event)) {
        break;
      }
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = event;
  }

  std::vector<Event> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace verbena::sim
