#include "ports/capture_port.h"

#include <fmt/format.h>

#include <boost/container/static_vector.hpp>
#include <chrono>

namespace verbena::ports {

namespace {

/// A busy capture is written out at least this often, so that its reader sees it live; an idle one
/// at once.
constexpr Duration flush_interval = std::chrono::milliseconds(50);

std::string_view words_of(PacketNote::Cause cause) {
  switch (cause) {
    case PacketNote::Cause::none:
      return "";
    case PacketNote::Cause::timeout:
      return " after the ACK timeout";
    case PacketNote::Cause::nak_sequence:
      return " after a NAK \"PSN sequence error\"";
    case PacketNote::Cause::implied_nak:
      return " after a gap in the responses (implied NAK)";
    case PacketNote::Cause::rnr:
      return " after an RNR NAK";
    case PacketNote::Cause::duplicate_acks:
      return " after duplicate ACKs";
  }
  return "";
}

}  // namespace

std::string describe(const PacketNote& note) {
  switch (note.kind) {
    case PacketNote::Kind::plain:
      return {};
    case PacketNote::Kind::retransmission:
      return fmt::format("retransmission {}{}", note.attempt, words_of(note.cause));
    case PacketNote::Kind::replay:
      return "replay: answer to a duplicate request";
    case PacketNote::Kind::rnr_nak:
      return "RNR NAK: no receive is posted";
    case PacketNote::Kind::nak:
      return "NAK";
  }
  return {};
}

/// Stands between the inner port and the handler: sees the frame and what became of it.
class CapturePort::Tap final : public FrameHandler {
 public:
  Tap(CapturePort& port, FrameHandler& handler) : port_(port), handler_(handler) {}

  RxVerdict on_frame(ByteView frame) override {
    port_.remark_.clear();
    const RxVerdict verdict = handler_.on_frame(frame);
    port_.record(frame, pcap::Direction::inbound, verbena::describe(verdict));
    return verdict;
  }

  void on_aside(ByteView frame, FrameWay way) override {
    port_.remark_.clear();
    port_.record(frame,
                 way == FrameWay::sent ? pcap::Direction::outbound : pcap::Direction::inbound, {});
  }

 private:
  CapturePort& port_;
  FrameHandler& handler_;
};

CapturePort::CapturePort(std::unique_ptr<Port> inner, std::shared_ptr<CaptureFile> file,
                         std::string_view name, std::string_view description)
    : PortDecorator(std::move(inner)),
      file_(std::move(file)),
      interface_(file_->add_interface(name, description)) {}

CapturePort::~CapturePort() { file_->flush(); }

void CapturePort::record(ByteView frame, pcap::Direction direction, std::string_view comment) {
  boost::container::static_vector<std::string_view, 2> comments;
  for (const std::string_view text : {std::string_view(remark_), comment}) {
    if (!text.empty()) {
      comments.push_back(text);
    }
  }
  file_->write(
      {.interface = interface_, .frame = frame, .direction = direction, .comments = comments},
      now_);
  remark_.clear();
}

void CapturePort::record_lost(ByteView frame, std::string_view what) {
  record(frame, pcap::Direction::outbound, what);
}

MutableBytes CapturePort::reserve(const FrameRoute& route, std::size_t bytes) {
  const MutableBytes frame = inner_->reserve(route, bytes);
  reserved_ = frame;
  return frame;
}

void CapturePort::commit(const PacketNote& note) {
  // Before the inner port has it: afterwards the frame is the receiver's.
  record(reserved_, pcap::Direction::outbound, describe(note));
  inner_->commit(note);
}

std::uint32_t CapturePort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  Tap tap(*this, handler);
  return inner_->poll_receive(tap, frames_max);
}

bool CapturePort::prepare_sleep() {
  file_->flush();
  return inner_->prepare_sleep();
}

void CapturePort::abandon() {
  file_->abandon();
  inner_->abandon();
}

void CapturePort::begin_batch(Time now) {
  now_ = now;
  if (now >= next_flush_) {
    next_flush_ = now + flush_interval;
    file_->flush();
  }
  inner_->begin_batch(now);
}

}  // namespace verbena::ports
