// A port in front of a port that loses, delays, repeats, reorders and corrupts frames by rules
// (faults/rule.h), both those that are sent and those that arrive. The seed determines which: it is
// the same rules and the same injector as in the simulator.
//
//     NIC ◀──▶ faults ◀──▶ capture ◀──▶ fabric, UDP
//
// A capture lies behind, so it shows what the network carries: a corrupted frame as it was sent, a
// repeated one as often as it was. What was lost on its way out is in it as well, and each such
// frame has a comment that says what was done and by which rule. Arriving frames are in it as they
// arrived, with the same comments.
//
// Frames that have to wait are copied. When too many wait, the port blocks and fetches no more, as
// a full link does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "faults/injector.h"
#include "ports/port_decorator.h"

namespace verbena::ports {

/// A frame that waits to be overtaken goes on after this time, if none comes.
inline constexpr Duration reorder_hold_max{1'000'000};

class FaultPort final : public PortDecorator {
 public:
  /// `start`: what the rules' time windows count from.
  FaultPort(std::unique_ptr<Port> inner, faults::RuleSet rules, std::uint64_t seed, Time start);

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override;
  bool prepare_sleep() override;
  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override;
  [[nodiscard]] PortStatistics statistics() const override;

 private:
  class Tap;

  struct Held {
    std::vector<std::byte> frame;
    /// Sent frames only.
    FrameRoute route;
    PacketNote note;
    std::string what;
  };
  /// Frames of one direction that wait.
  struct Waiting {
    /// By the time when they go on; equal times in the order of arrival.
    std::multimap<Time, Held> timed;
    struct Overtaken {
      Held held;
      std::uint32_t behind;
      Time until;
    };
    std::vector<Overtaken> overtaken;

    [[nodiscard]] std::size_t size() const { return timed.size() + overtaken.size(); }
    [[nodiscard]] Time next() const;
    /// A frame has passed: those that were overtaken often enough are due now.
    void count_passed(Time now);
    /// The same for those that waited long enough.
    void give_up_waiting(Time now);
  };

  /// Carries out what makes a frame wait, and what repeats it.
  static void hold(Waiting& waiting, const faults::Decision& decision, Held held, Time now);
  /// True if the frame itself goes on now.
  static bool goes_on(const faults::Decision& decision);
  /// Sends what is due; false if the way is blocked.
  bool send_due();
  [[nodiscard]] bool send_again(const Held& held);
  std::uint32_t deliver_due(FrameHandler& handler, std::uint32_t frames_max);
  RxVerdict on_arrival(ByteView frame, FrameHandler& handler);

  faults::FaultInjector injector_;
  Time now_{};
  Waiting out_;
  Waiting in_;
  FrameRoute route_;
  MutableBytes reserved_;
  /// The inner port has no room for what is due.
  bool out_blocked_ = false;
  std::vector<std::byte> altered_;
};

}  // namespace verbena::ports
