#include "ports/fault_port.h"

#include <algorithm>

#include "proto/inet/headers.h"
#include "proto/roce/decap.h"
#include "proto/roce/icrc_solve.h"

namespace verbena::ports {

namespace {

using faults::ActionKind;
using faults::Direction;

/// Frames that wait in one direction; up to 8 KiB each.
constexpr std::size_t waiting_frames_max = 4096;

/// ECN "congestion experienced" (RFC 3168, 5).
constexpr std::uint8_t congestion_experienced = 3;

/// A frame that is sent at another time than it was built may get another number from the way.
void renumber(MutableBytes frame, std::uint16_t identification) {
  const auto parsed = roce::parse_frame(frame);
  if (!parsed || parsed->version != roce::Version::v2_ipv4 ||
      parsed->identification == identification) {
    return;
  }
  const auto offset = static_cast<std::size_t>(parsed->packet.data() - frame.data());
  roce::change_identification(frame.subspan(offset, parsed->packet.size()), identification);
}

}  // namespace

Time FaultPort::Waiting::next() const {
  Time earliest = timed.empty() ? time_never : timed.begin()->first;
  for (const Overtaken& frame : overtaken) {
    earliest = std::min(earliest, frame.until);
  }
  return earliest;
}

void FaultPort::Waiting::count_passed(Time now) {
  for (Overtaken& frame : overtaken) {
    --frame.behind;
    frame.until = frame.behind == 0 ? now : frame.until;
  }
  give_up_waiting(now);
}

void FaultPort::Waiting::give_up_waiting(Time now) {
  for (Overtaken& frame : overtaken) {
    if (frame.until <= now) {
      timed.emplace(now, std::move(frame.held));
    }
  }
  std::erase_if(overtaken, [now](const Overtaken& frame) { return frame.until <= now; });
}

FaultPort::FaultPort(std::unique_ptr<Port> inner, faults::RuleSet rules, std::uint64_t seed,
                     Time start)
    : PortDecorator(std::move(inner)), injector_(std::move(rules), seed, start), now_(start) {}

bool FaultPort::goes_on(const faults::Decision& decision) {
  return decision.kind == ActionKind::pass || decision.kind == ActionKind::duplicate ||
         decision.kind == ActionKind::corrupt;
}

void FaultPort::hold(Waiting& waiting, const faults::Decision& decision, Held held, Time now) {
  switch (decision.kind) {
    case ActionKind::delay:
      waiting.timed.emplace(now + decision.delay, std::move(held));
      break;
    case ActionKind::reorder:
      waiting.overtaken.push_back({std::move(held), decision.behind, now + reorder_hold_max});
      break;
    case ActionKind::duplicate:
      for (std::uint32_t copy = 1; copy <= decision.copies; ++copy) {
        waiting.timed.emplace(now + decision.delay * copy, held);
      }
      break;
    case ActionKind::mark:
      faults::alter(decision, held.frame);
      held.route.traffic_class |= congestion_experienced;
      waiting.timed.emplace(now, std::move(held));
      break;
    case ActionKind::pass:
    case ActionKind::drop:
    case ActionKind::corrupt:
      break;
  }
}

MutableBytes FaultPort::reserve(const FrameRoute& route, std::size_t bytes) {
  if (out_.size() >= waiting_frames_max) {
    return {};
  }
  route_ = route;
  reserved_ = inner_->reserve(route, bytes);
  return reserved_;
}

void FaultPort::commit(const PacketNote& note) {
  const faults::Decision decision = injector_.decide(now_, Direction::out, reserved_);
  if (decision.rule) {
    std::string what = injector_.describe(decision);
    if (decision.is_lost()) {
      inner_->record_lost(reserved_, what);
      return;
    }
    inner_->remark(goes_on(decision) ? what : "");
    hold(out_, decision, {{reserved_.begin(), reserved_.end()}, route_, note, std::move(what)},
         now_);
  }
  if (goes_on(decision)) {
    faults::alter(decision, reserved_);
    inner_->commit(note);
    out_.count_passed(now_);
  }
  // What follows this frame follows it at once, not behind the rest of a batch.
  out_blocked_ = !send_due();
}

bool FaultPort::send_again(const Held& held) {
  const MutableBytes room = inner_->reserve(held.route, held.frame.size());
  if (room.empty()) {
    return false;
  }
  copy_bytes(room, held.frame);
  renumber(room, inner_->way_fields().identification);
  inner_->remark(held.what);
  inner_->commit(held.note);
  return true;
}

bool FaultPort::send_due() {
  out_.give_up_waiting(now_);
  while (!out_.timed.empty() && out_.timed.begin()->first <= now_) {
    if (!send_again(out_.timed.begin()->second)) {
      return false;
    }
    out_.timed.erase(out_.timed.begin());
  }
  return true;
}

void FaultPort::flush() {
  out_blocked_ = !send_due();
  inner_->flush();
}

class FaultPort::Tap final : public FrameHandler {
 public:
  Tap(FaultPort& port, FrameHandler& handler) : port_(port), handler_(handler) {}
  RxVerdict on_frame(ByteView frame) override { return port_.on_arrival(frame, handler_); }

 private:
  FaultPort& port_;
  FrameHandler& handler_;
};

RxVerdict FaultPort::on_arrival(ByteView frame, FrameHandler& handler) {
  const faults::Decision decision = injector_.decide(now_, Direction::in, frame);
  if (decision.rule) {
    inner_->remark(injector_.describe(decision));
    if (!decision.is_lost()) {
      hold(in_, decision, {{frame.begin(), frame.end()}, {}, {}, {}}, now_);
    }
  }
  RxVerdict verdict;
  if (goes_on(decision)) {
    ByteView delivered = frame;
    if (decision.kind == ActionKind::corrupt) {
      altered_.assign(frame.begin(), frame.end());
      faults::alter(decision, altered_);
      delivered = altered_;
    }
    verdict = handler.on_frame(delivered);
    in_.count_passed(now_);
  }
  deliver_due(handler, waiting_frames_max);
  return verdict;
}

std::uint32_t FaultPort::deliver_due(FrameHandler& handler, std::uint32_t frames_max) {
  std::uint32_t delivered = 0;
  in_.give_up_waiting(now_);
  while (delivered < frames_max && !in_.timed.empty() && in_.timed.begin()->first <= now_) {
    static_cast<void>(handler.on_frame(in_.timed.begin()->second.frame));
    in_.timed.erase(in_.timed.begin());
    ++delivered;
  }
  return delivered;
}

std::uint32_t FaultPort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  const std::uint32_t late = deliver_due(handler, frames_max);
  if (late == frames_max || in_.size() >= waiting_frames_max) {
    return late;
  }
  Tap tap(*this, handler);
  return late + inner_->poll_receive(tap, frames_max - late);
}

void FaultPort::begin_batch(Time now) {
  now_ = now;
  inner_->begin_batch(now);
}

Time FaultPort::next_deadline() const {
  // What is blocked goes on when the inner port says that it has room.
  const Time out = out_blocked_ ? time_never : out_.next();
  return std::min({inner_->next_deadline(), out, in_.next()});
}

bool FaultPort::prepare_sleep() {
  const bool due = in_.next() <= now_ || (!out_blocked_ && out_.next() <= now_);
  return !due && inner_->prepare_sleep();
}

PortStatistics FaultPort::statistics() const {
  PortStatistics statistics = inner_->statistics();
  for (const faults::RuleCounters& counters : injector_.counters()) {
    statistics.frames_faulted += counters.taken;
  }
  return statistics;
}

}  // namespace verbena::ports
