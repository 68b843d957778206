#include "ports/fabric_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "ports/log.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// Room is given back to a producer in pieces of this size, so that it needn't wait for a whole
/// batch.
constexpr std::size_t give_back_bytes = std::size_t{64} << 10;
/// How often a blocked sender asks whether the receiver died: a system call each.
constexpr Duration liveness_check_interval = 10ms;
/// A datagram waits for so long for a receiver that doesn't drain its ring, and those behind it
/// don't wait any more: the receiver is stopped or hangs, and nothing else would ever tell.
constexpr Duration patience_with_receivers = 500ms;
/// A receiver that has frames to read and reads none for so long is stopped or hangs, and what it
/// should answer counts as lost. One that merely waits for a processor comes sooner, even where
/// many compilers run on few processors; hardware would answer for either.
constexpr Duration patience_with_readers = 3s;
/// A receiver that is busy with others' frames always has some to read. Once it has read a whole
/// ring of them, one question in so many is answered as if there were none: who has really lost a
/// frame uses up its retries more slowly, but does, and who hasn't, loses one that it can spare.
constexpr std::uint32_t questions_per_loss = 4;
/// After a ring could not be made, frames to that process are lost for this long.
constexpr Duration ring_retry_interval = 100ms;
/// How often a port that never sleeps looks for rings of dead processes.
constexpr std::uint32_t cleanup_interval_polls = 4096;

}  // namespace

FabricPort::FabricPort(std::unique_ptr<Fabric> fabric) : fabric_(std::move(fabric)) {
  unflushed_.reserve(slots_max);
}

void FabricPort::begin_batch(Time now) {
  now_ = now;
  if (next_loss_ <= now) {
    // What waits asks again in this batch.
    next_loss_ = time_never;
  }
}

void FabricPort::set_membership(const nic::Membership& membership) {
  if (membership.joined) {
    fabric_->join_gid(membership.gid);
  } else {
    fabric_->leave_gid(membership.gid);
  }
}

MutableBytes FabricPort::reserve(const FrameRoute& route, std::size_t bytes) {
  VERBENA_CHECK(bytes > 0 && bytes <= frame_bytes_max);
  copies_.clear();
  if (route.destination_qpn == qpn_gsi || route.destination_qpn == qpn_multicast) {
    return reserve_for_all(route, bytes);
  }
  reserved_ = out_ring_to(fabric_->owner_of(route.destination_qpn));
  if (reserved_ == nullptr) {
    return lose(bytes);
  }
  const MutableBytes frame = reserved_->producer.reserve(bytes);
  if (!frame.empty()) {
    reserved_->counted_as_blocked = false;
    return frame;
  }
  if (waits_for(*reserved_, route.may_be_lost)) {
    reserved_ = nullptr;
    return {};
  }
  return lose(bytes);
}

const std::vector<SlotLife>& FabricPort::audience_of(const Gid& gid) {
  const std::uint32_t changes = fabric_->membership_changes();
  if (audiences_.size() > memberships_max) {
    audiences_.clear();  // GIDs are the application's to choose: it can't make us remember all.
  }
  const auto [place, is_new] = audiences_.try_emplace(gid);
  Audience& audience = place->second;
  if (is_new || audience.as_of != changes) {
    audience = {.as_of = changes, .members = fabric_->members_of(gid)};
  }
  return audience.members;
}

MutableBytes FabricPort::reserve_for_all(const FrameRoute& route, std::size_t bytes) {
  reserved_ = nullptr;
  for (const SlotLife member : audience_of(route.destination)) {
    OutRing* const ring = out_ring_to(member);
    if (ring == nullptr) {
      continue;
    }
    const MutableBytes frame = ring->producer.reserve(bytes);
    if (!frame.empty()) {
      ring->counted_as_blocked = false;
      copies_.push_back({.ring = ring, .frame = frame});
    } else if (waits_for(*ring, route.may_be_lost)) {
      copies_.clear();
      return {};
    } else {
      ++statistics_.frames_lost;
    }
  }
  if (copies_.empty()) {
    return lose(bytes);
  }
  reserved_ = copies_.back().ring;
  reserved_frame_ = copies_.back().frame;
  copies_.pop_back();
  return reserved_frame_;
}

bool FabricPort::waits_for(OutRing& ring, bool may_be_lost) {
  if (ring.producer.broken()) {
    ++statistics_.broken_rings;
    drop_out_ring(ring);
    return false;
  }
  if (!ring.counted_as_blocked) {
    ring.counted_as_blocked = true;
    ++statistics_.times_blocked;
    ring.blocked_since = now_;
    ring.next_liveness_check = now_ + liveness_check_interval;
  } else if (now_ >= ring.next_liveness_check) {
    ring.next_liveness_check = now_ + liveness_check_interval;
    if (!fabric_->check_alive(ring.mapping.consumer)) {
      drop_out_ring(ring);
      return false;
    }
  }
  const Time loss = ring.blocked_since + patience_with_receivers;
  if (may_be_lost && now_ < loss) {
    next_loss_ = std::min(next_loss_, loss);
  }
  return !may_be_lost || now_ < loss;
}

MutableBytes FabricPort::lose(std::size_t bytes) {
  reserved_ = nullptr;
  return MutableBytes(lost_frame_).first(bytes);
}

void FabricPort::commit(const PacketNote& /*note*/) {
  if (reserved_ == nullptr) {
    ++statistics_.frames_lost;
    return;
  }
  for (const Copy& copy : copies_) {
    copy_bytes(copy.frame, reserved_frame_);
    commit_to(*copy.ring);
  }
  commit_to(*reserved_);
}

bool FabricPort::is_unread(const FrameRoute& route) {
  const SlotLife consumer = fabric_->owner_of(route.destination_qpn);
  if (consumer == SlotLife{}) {
    return false;
  }
  OutRing* const ring = out_rings_[slot_of(consumer)].get();
  if (ring == nullptr || ring->mapping.consumer != consumer) {
    return false;
  }
  if (!ring->producer.has_unread()) {
    ring->first_taken.reset();
    ring->asked_in_vain = 0;
    return false;
  }
  if (!fabric_->check_alive(consumer)) {
    return false;
  }
  const std::uint64_t taken = ring->producer.taken_bytes();
  if (std::exchange(ring->last_taken, taken) == taken) {
    return now_ - ring->standing_since < patience_with_readers;
  }
  ring->standing_since = now_;
  ring->first_taken = ring->first_taken.value_or(taken);
  // More than a ring holds: nothing of what was in it then is still there.
  const bool has_read_all = taken - *ring->first_taken >= ring->mapping.data().size();
  return !has_read_all || ++ring->asked_in_vain % questions_per_loss != 0;
}

void FabricPort::commit_to(OutRing& ring) {
  ring.producer.commit();
  if (!ring.unflushed) {
    ring.unflushed = true;
    unflushed_.push_back(slot_of(ring.mapping.consumer));
  }
}

void FabricPort::flush() {
  for (const std::uint32_t slot : unflushed_) {
    OutRing& ring = *out_rings_[slot];
    ring.unflushed = false;
    if (ring.producer.publish() && fabric_->wake(ring.mapping.consumer)) {
      ++statistics_.wakes;
    }
  }
  unflushed_.clear();
}

void FabricPort::tell(std::string_view what, SlotLife other) const {
  if (!logs(LogLevel::info)) {
    return;
  }
  const std::int32_t pid = fabric_->process_of(other);
  const std::string who = pid == 0 ? "a process that has gone" : fmt::format("process {}", pid);
  log(LogLevel::info, fabric_->device_name(), std::nullopt,
      fmt::format("{} {}, slot {} of the fabric", what, who, slot_of(other)));
}

FabricPort::OutRing* FabricPort::out_ring_to(SlotLife consumer) {
  if (consumer == SlotLife{}) {
    return nullptr;
  }
  OutRing* ring = out_rings_[slot_of(consumer)].get();
  if (ring != nullptr && ring->mapping.consumer == consumer) {
    return ring;
  }
  return make_out_ring(consumer);
}

FabricPort::OutRing* FabricPort::make_out_ring(SlotLife consumer) {
  if (now_ < next_ring_attempt_) {
    return nullptr;
  }
  auto& place = out_rings_[slot_of(consumer)];
  if (place) {
    drop_out_ring(*place);
  }
  auto mapping = fabric_->create_ring(consumer);
  if (!mapping) {
    next_ring_attempt_ = now_ + ring_retry_interval;
    if (!ring_failure_reported_) {
      ring_failure_reported_ = true;
      report(fmt::format(
          "can't make a ring to another process: {}; frames to it are lost. Free space where the "
          "fabric is (`verbena devices` tells), or set VERBENA_RING_KIB to less",
          sys::error_text(-mapping.error())));
    }
    return nullptr;
  }
  RingHeader& header = mapping->header();
  const MutableBytes data = mapping->data();
  tell("made a ring to", consumer);
  place.reset(new OutRing{.mapping = std::move(*mapping), .producer = {header, data}});
  return place.get();
}

void FabricPort::drop_out_ring(OutRing& ring) {
  const std::uint32_t slot = slot_of(ring.mapping.consumer);
  tell("gave up the ring to", ring.mapping.consumer);
  if (ring.unflushed) {
    std::erase(unflushed_, slot);
  }
  out_rings_[slot].reset();
}

std::uint32_t FabricPort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  if (fabric_->has_announcements()) {
    map_announced_rings();
  }
  if (polls_until_cleanup_-- == 0) {
    polls_until_cleanup_ = cleanup_interval_polls;
    drop_stale_rings();
  }
  std::uint32_t received = receive_own(handler, frames_max / 2);
  const std::size_t count = in_rings_.size();
  for (std::size_t i = 0; i < count && received < frames_max; ++i) {
    InRing& ring = *in_rings_[(first_in_ring_ + i) % count];
    received += receive_from(ring, handler, frames_max - received);
  }
  // The next call begins with another ring, so that a busy one doesn't starve the rest.
  ++first_in_ring_;
  return received;
}

std::uint32_t FabricPort::receive_own(FrameHandler& handler, std::uint32_t frames_max) {
  const SlotLife self = fabric_->self();
  const auto own = std::ranges::find_if(
      in_rings_, [&](const auto& ring) { return ring->mapping.producer == self; });
  return own != in_rings_.end() ? receive_from(**own, handler, frames_max) : 0;
}

std::uint32_t FabricPort::receive_from(InRing& ring, FrameHandler& handler,
                                       std::uint32_t frames_max) {
  std::uint32_t received = 0;
  while (received < frames_max) {
    const ByteView frame = ring.consumer.next();
    if (frame.empty()) {
      break;
    }
    handler.on_frame(frame);
    ++received;
    if (ring.consumer.held_bytes() >= give_back_bytes) {
      give_room_back(ring);
    }
  }
  give_room_back(ring);
  return received;
}

void FabricPort::give_room_back(InRing& ring) {
  if (ring.consumer.release() && fabric_->wake(ring.mapping.producer)) {
    ++statistics_.wakes;
  }
}

void FabricPort::map_announced_rings() {
  std::uint64_t bad = 0;
  for (RingMapping& mapping : fabric_->take_announced_rings(bad)) {
    for (const auto& ring : in_rings_) {
      if (ring->mapping.producer == mapping.producer) {
        ring->superseded = true;
      }
    }
    tell("connected to the ring from", mapping.producer);
    RingHeader& header = mapping.header();
    const MutableBytes data = mapping.data();
    in_rings_.emplace_back(new InRing{.mapping = std::move(mapping), .consumer = {header, data}});
  }
  statistics_.broken_rings += bad;
}

void FabricPort::drop_stale_rings() {
  std::erase_if(in_rings_, [&](const std::unique_ptr<InRing>& ring) {
    if (ring->consumer.broken()) {
      ++statistics_.broken_rings;
      return true;
    }
    const bool ended = ring->superseded || !fabric_->is_current(ring->mapping.producer);
    return ended && !ring->consumer.has_frames();
  });
  for (const auto& ring : out_rings_) {
    if (ring && !ring->unflushed && !fabric_->is_current(ring->mapping.consumer)) {
      drop_out_ring(*ring);
    }
  }
}

bool FabricPort::prepare_sleep() {
  drop_stale_rings();
  fabric_->doorbell().repair();
  fabric_->set_asleep(true);
  bool news = fabric_->has_announcements();
  for (const auto& ring : in_rings_) {
    news = news || ring->consumer.has_frames();
  }
  for (const auto& ring : out_rings_) {
    news = (ring && ring->producer.take_room_news()) || news;
  }
  if (news) {
    fabric_->set_asleep(false);
  }
  return !news;
}

void FabricPort::finish_sleep() {
  fabric_->set_asleep(false);
  fabric_->doorbell().drain();
}

}  // namespace verbena::ports
