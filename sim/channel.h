// One direction of a link: a queue, a rate, a delay. Frames leave one after the other, each taking
// its bits at the rate, and arrive `delay` later, in order unless a fault says otherwise.
//
//     send ──► fault rules ──► queue (limit) ──► wire (rate) ──► delay ──► receive
//                 │                │ full: lost
//                 └ lost, late, twice, changed, held back
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "faults/injector.h"
#include "sim/event_queue.h"
#include "sim/world.h"

namespace verbena::sim {

struct LinkConfig {
  /// 0: infinitely fast.
  std::uint64_t bits_per_second = 100'000'000'000;
  Duration delay{1'000};
  /// Ethernet frames that are longer are lost: a packet of 4096 bytes and its headers fit by
  /// default.
  std::size_t frame_bytes_max = 9'018;
  /// Frames that wait for the wire, in bytes. A host stops sending there, a switch drops.
  std::size_t queue_bytes_max = 256 * 1024;
  /// Switches mark "congestion experienced" while more than this waits; 0: never.
  std::size_t mark_bytes = 0;
};

/// A frame that a `reorder` rule holds back goes on after this time even if none follows.
inline constexpr Duration reorder_hold_max{1'000'000};

class Channel final : public EventHandler {
 public:
  Channel(World& world, const LinkConfig& config, Station& from, Station& to)
      : world_(world), config_(config), from_(from), to_(to) {}

  [[nodiscard]] Station& to() const { return to_; }
  [[nodiscard]] bool is_up() const { return up_; }
  /// A link that is down loses all that is sent; what is on the wire still arrives.
  void set_up(bool up) { up_ = up; }

  /// Whether a host may send another frame now. If not, its on_room() is called once it may.
  [[nodiscard]] bool has_room();
  /// Takes the frame.
  void send(FrameRef frame);

  void on_event(Time now, std::uint64_t token) override;

 private:
  struct Held {
    FrameRef frame;
    std::uint32_t behind;
    Time until;
  };

  void forget_departed();
  [[nodiscard]] std::string why_lost(std::size_t bytes) const;
  void lose(FrameRef frame, std::string_view why);
  void enqueue(FrameRef frame, Duration late);
  void carry_out(FrameRef frame, const faults::Decision& decision);
  void release_held(bool one_passed);
  [[nodiscard]] Duration time_on_wire(std::size_t bytes) const;

  World& world_;
  LinkConfig config_;
  Station& from_;
  Station& to_;
  bool up_ = true;
  Time wire_free_at_{};
  /// Frames that have not left yet: when they will, and how long they are.
  struct Waiting {
    Time departs;
    std::size_t bytes;
  };
  std::deque<Waiting> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool room_wanted_ = false;
  std::vector<Held> held_;
};

}  // namespace verbena::sim
