#include "sim/channel.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::sim {
namespace {

/// Preamble, start delimiter, FCS and gap, which take time on the wire (IEEE 802.3, 4.4.2).
constexpr std::size_t wire_overhead_bytes = 8 + 4 + 12;

// Tokens of a channel's events; any other is the frame that arrives.
constexpr std::uint64_t token_room = ~std::uint64_t{0};
constexpr std::uint64_t token_held = token_room - 1;

}  // namespace

Duration Channel::time_on_wire(std::size_t bytes) const {
  if (config_.bits_per_second == 0) {
    return Duration(0);
  }
  // Rounded up. 64 KiB in bits times 10^9 stays below 2^64.
  const std::uint64_t bits = 8 * (std::uint64_t{bytes} + wire_overhead_bytes);
  constexpr std::uint64_t ns_per_s = 1'000'000'000;
  return Duration(static_cast<std::int64_t>((bits * ns_per_s + config_.bits_per_second - 1) /
                                            config_.bits_per_second));
}

void Channel::forget_departed() {
  while (!waiting_.empty() && waiting_.front().departs <= world_.now) {
    waiting_bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
  }
}

bool Channel::has_room() {
  forget_departed();
  if (waiting_bytes_ < config_.queue_bytes_max) {
    return true;
  }
  if (!room_wanted_) {
    room_wanted_ = true;
    world_.queue.schedule(waiting_.front().departs, *this, token_room);
  }
  return false;
}

void Channel::lose(FrameRef frame, std::string_view why) {
  world_.trace.lost(world_.now, from_.id(), world_.frames.at(frame), why);
  world_.frames.give_back(frame);
}

void Channel::send(FrameRef ref) {
  Frame& frame = world_.frames.at(ref);
  if (!from_.is_host()) {
    forget_departed();
    if (config_.mark_bytes != 0 && waiting_bytes_ > config_.mark_bytes) {
      faults::alter({.kind = faults::ActionKind::mark}, frame.bytes);
    }
    if (world_.capture != nullptr) {
      world_.capture->write(world_.now, from_.id(), frame.bytes, pcap::Direction::outbound,
                            why_lost(frame.bytes.size()));
    }
    enqueue(ref, Duration(0));
    return;
  }
  frame.id = world_.next_frame++;
  frame.origin = from_.id();
  const faults::Decision decision =
      world_.faults.decide(world_.now, faults::Direction::out, frame.bytes);
  world_.trace.sent(world_.now, frame);
  if (world_.observer != nullptr) {
    world_.observer->on_sent(world_.now, frame);
  }
  if (world_.capture != nullptr) {
    std::string comment = describe(frame.note);
    const std::string fault = world_.faults.describe(decision);
    comment += (comment.empty() || fault.empty() ? "" : "; ") + fault;
    world_.capture->write(world_.now, from_.id(), frame.bytes, pcap::Direction::outbound, comment);
  }
  carry_out(ref, decision);
  release_held(true);
}

void Channel::carry_out(FrameRef frame, const faults::Decision& decision) {
  if (decision.rule && decision.kind != faults::ActionKind::drop) {
    world_.trace.add(world_.now, TraceKind::note, from_.id(), world_.faults.describe(decision));
  }
  switch (decision.kind) {
    case faults::ActionKind::pass:
      enqueue(frame, Duration(0));
      break;
    case faults::ActionKind::drop:
      lose(frame, world_.faults.describe(decision));
      break;
    case faults::ActionKind::delay:
      enqueue(frame, decision.delay);
      break;
    case faults::ActionKind::duplicate:
      for (std::uint32_t copy = 1; copy <= decision.copies; ++copy) {
        const FrameRef twin = world_.frames.copy(frame);
        if (copy == 1) {
          enqueue(frame, Duration(0));
        }
        enqueue(twin, decision.delay * copy);
      }
      break;
    case faults::ActionKind::corrupt:
    case faults::ActionKind::mark:
      faults::alter(decision, world_.frames.at(frame).bytes);
      enqueue(frame, Duration(0));
      break;
    case faults::ActionKind::reorder:
      // One more, because the frame itself is counted as the first that passes.
      held_.push_back({frame, decision.behind + 1, world_.now + reorder_hold_max});
      world_.queue.schedule(held_.back().until, *this, token_held);
      break;
  }
}

/// Lets those go on that have been passed by enough frames, or have waited too long.
void Channel::release_held(bool one_passed) {
  std::size_t kept = 0;
  for (Held held : held_) {
    held.behind -= one_passed ? 1 : 0;
    if (held.behind == 0 || held.until <= world_.now) {
      enqueue(held.frame, Duration(0));
    } else {
      held_[kept++] = held;
    }
  }
  held_.resize(kept, Held{});
}

/// Why a frame of that length doesn't get onto the wire now; empty if it does.
std::string Channel::why_lost(std::size_t bytes) const {
  if (!up_) {
    return "the link is down";
  }
  if (bytes > config_.frame_bytes_max) {
    return fmt::format("longer than the link's MTU: {} bytes of {}", bytes,
                       config_.frame_bytes_max);
  }
  // A host has asked has_room() before; copies and held frames may exceed the limit a little.
  if (!from_.is_host() && waiting_bytes_ + bytes > config_.queue_bytes_max) {
    return "the queue is full";
  }
  return {};
}

void Channel::enqueue(FrameRef ref, Duration late) {
  const std::size_t bytes = world_.frames.at(ref).bytes.size();
  forget_departed();
  if (const std::string why = why_lost(bytes); !why.empty()) {
    return lose(ref, why);
  }
  wire_free_at_ = std::max(wire_free_at_, world_.now) + time_on_wire(bytes);
  waiting_.push_back({wire_free_at_, bytes});
  waiting_bytes_ += bytes;
  world_.queue.schedule(wire_free_at_ + config_.delay + late, *this,
                        static_cast<std::uint64_t>(ref));
}

void Channel::on_event(Time /*now*/, std::uint64_t token) {
  if (token == token_room) {
    room_wanted_ = false;
    from_.on_room();
  } else if (token == token_held) {
    release_held(false);
  } else {
    to_.receive(static_cast<FrameRef>(token));
  }
}

}  // namespace verbena::sim
