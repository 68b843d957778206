#include "ports/link_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "ports/log.h"
#include "ports/network_frame.h"
#include "proto/inet/tcp/frame.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// How often a frame looks whether its neighbour has answered, if nothing else happens.
constexpr Duration neighbour_pause = 1ms;
/// For how long frames wait for somebody at the other end.
constexpr Duration patience_with_link = 5s;
/// Who was told of; the application chooses whom it sends to.
constexpr std::size_t told_max = 64;

}  // namespace

/// What the host on the link says, and what it has heard: told to the capture in this order.
class LinkPort::Speaker final : public inet::EthernetSink {
 public:
  Speaker(Link& link, NetworkFrameHandler& handler) : link_(link), handler_(handler) {}

  /// From now on it speaks because of this frame.
  void hear(ByteView frame) {
    heard_ = frame;
    is_told_ = false;
  }
  void tell_heard() {
    if (!std::exchange(is_told_, true)) {
      handler_.on_aside(heard_, FrameWay::received);
    }
  }

  MutableBytes reserve(std::size_t bytes) override {
    reserved_ = bytes <= link_frame_bytes_max ? link_.reserve(bytes) : MutableBytes();
    return reserved_;
  }
  void commit() override {
    tell_heard();
    handler_.on_aside(reserved_, FrameWay::sent);
    link_.commit();
  }

 private:
  Link& link_;
  NetworkFrameHandler& handler_;
  MutableBytes reserved_;
  ByteView heard_;
  bool is_told_ = true;
};

Result<std::unique_ptr<LinkPort>, std::string> LinkPort::open(const Place& place) {
  const auto link_place = LinkPlace::from_text(place.link);
  if (!link_place) {
    return std::unexpected(link_place.error());
  }
  auto link = Link::open(place.device, *link_place);
  if (!link) {
    return std::unexpected(std::move(link.error()));
  }
  return std::unique_ptr<LinkPort>(new LinkPort(place, std::move(*link)));
}

LinkPort::LinkPort(const Place& place, std::unique_ptr<Link> link)
    : device_(place.device),
      takes_tcp_(place.takes_tcp),
      name_(place.link),
      link_(std::move(link)),
      host_(place.mac, place.addresses) {}

void LinkPort::begin_batch(Time now) {
  now_ = now;
  link_->begin_batch(now);
  if (retry_at_ <= now) {
    retry_at_ = time_never;
  }
  if (!link_->is_up()) {
    down_since_ = down_since_.value_or(now);
  } else if (down_since_) {
    down_since_.reset();
    told_down_ = false;
    host_.on_link_up();
  }
}

Time LinkPort::next_deadline() const {
  // Nothing can be asked while nobody is there.
  const Time next_question = link_->is_up() ? host_.next_timeout() : time_never;
  return std::min({retry_at_, link_->next_deadline(), next_question});
}

MutableBytes LinkPort::try_later() {
  retry_at_ = std::min(retry_at_, now_ + neighbour_pause);
  return {};
}

MutableBytes LinkPort::lose(std::size_t bytes, std::uint64_t& counter) {
  losing_ = true;
  ++counter;
  return MutableBytes(nowhere_).first(bytes);
}

MutableBytes LinkPort::reserve(const FrameRoute& route, std::size_t bytes) {
  using Kind = inet::NeighbourAnswer::Kind;
  VERBENA_CHECK(bytes <= nowhere_.size());
  if (!link_->is_up()) {
    // The link's own deadline brings us back.
    if (!down_since_ || now_ < *down_since_ + patience_with_link) {
      return {};
    }
    tell_link_is_out();
    return lose(bytes, without_link_);
  }
  if (const auto group = roce::multicast_mac(route.destination)) {
    peer_ = *group;
  } else {
    const auto answer = host_.resolve(roce::ipv6_from_gid(route.destination), now_);
    if (answer.kind == Kind::pending) {
      return try_later();
    }
    if (answer.kind == Kind::unreachable) {
      tell_unreachable(route.destination);
      return lose(bytes, without_neighbour_);
    }
    peer_ = answer.mac;
  }
  losing_ = false;
  const MutableBytes room = link_->reserve(bytes);
  return room.empty() ? try_later() : room;
}

WayFields LinkPort::way_fields() const {
  return {.destination_mac = peer_.bytes, .source_mac = host_.mac().bytes};
}

void LinkPort::commit(const PacketNote& /*note*/) {
  if (!losing_) {
    link_->commit();
  }
}

std::uint32_t LinkPort::poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) {
  Speaker speaker(*link_, handler);
  if (link_->is_up() && host_.next_timeout() <= now_) {
    host_.transmit(now_, speaker);
    link_->flush();
  }
  std::uint32_t received = 0;
  while (received < frames_max) {
    const auto frame = link_->receive();
    if (!frame) {
      break;
    }
    ++received;
    take(*frame, handler, speaker);
  }
  return received;
}

void LinkPort::take(ByteView frame, NetworkFrameHandler& handler, Speaker& speaker) {
  using Verdict = inet::LinkHost::Verdict;
  speaker.hear(frame);
  const Verdict verdict = host_.on_frame(frame, now_, speaker);
  if (verdict != Verdict::not_mine) {
    speaker.tell_heard();
    ignored_ += verdict == Verdict::ignored ? 1 : 0;
    refused_ += verdict == Verdict::refused ? 1 : 0;
    if (host_.counters().conflicts > 0) {
      tell_conflict();
    }
    return;
  }
  if (const auto network_frame = read(frame)) {
    handler.on_network_frame(*network_frame);
  } else {
    ++ignored_;
  }
}

std::optional<NetworkFrame> LinkPort::read(ByteView frame) const {
  if (!takes_tcp_) {
    return read_network_frame(frame);
  }
  return inet::parse_tcp_frame(frame) ? std::optional(NetworkFrame{.bytes = frame}) : std::nullopt;
}

void LinkPort::tell_link_is_out() {
  if (!std::exchange(told_down_, true)) {
    report(fmt::format(
        "{}: nobody is at the other end of the link {}{}{}; frames are lost until somebody is",
        device_, name_, link_->why_down().empty() ? "" : ": ", link_->why_down()));
  }
}

void LinkPort::tell_unreachable(const Gid& destination) {
  if (told_.size() >= told_max || !told_.insert(destination).second) {
    return;
  }
  const bool is_near = host_.source_toward(roce::ipv6_from_gid(destination)).has_value();
  report(
      fmt::format("{}: no Ethernet address for {}: {}; frames to it are lost until somebody does",
                  device_, roce::to_address_text(destination),
                  is_near ? "nobody on the link answers"
                          : "none of the device's subnets has it, and nobody can answer"));
}

void LinkPort::tell_conflict() {
  if (!std::exchange(told_conflict_, true)) {
    report(fmt::format(
        "{}: somebody else on the link {} has an address of this device; give it another one",
        device_, name_));
  }
}

void LinkPort::add_to(PortStatistics& statistics) const {
  const Link::Counters& link = link_->counters();
  statistics.frames_lost += without_link_ + without_neighbour_ + link.frames_lost;
  statistics.frames_without_link += without_link_ + link.frames_lost;
  statistics.frames_without_neighbour += without_neighbour_;
  statistics.times_blocked += link.times_blocked;
  statistics.link_answers += host_.counters().answered;
  statistics.link_frames_ignored += ignored_;
  statistics.link_frames_refused += refused_;
}

}  // namespace verbena::ports
