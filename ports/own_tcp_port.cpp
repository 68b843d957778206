#include "ports/own_tcp_port.h"

#include <algorithm>
#include <utility>

#include "proto/inet/tcp/frame.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

class OwnTcpPort::Receiver final : public FrameHandler {
 public:
  Receiver(OwnTcp& tcp, Time now) : tcp_(tcp), now_(now) {}
  RxVerdict on_frame(ByteView frame) override { return tcp_.on_frame(now_, frame); }

 private:
  OwnTcp& tcp_;
  Time now_;
};

/// Puts segments into frames, where the port has room for them.
class OwnTcpPort::Sender final : public inet::TcpPacketSink {
 public:
  explicit Sender(Port& port) : port_(port) {}

  MutableBytes reserve(const inet::Ipv6Address& source, const inet::Ipv6Address& destination,
                       std::size_t bytes) override {
    const std::size_t prefix_bytes = inet::tcp_frame_prefix_bytes_of(source);
    FrameRoute route;
    route.source = roce::gid_from_ipv6(source);
    route.destination = roce::gid_from_ipv6(destination);
    frame_ = port_.reserve(route, prefix_bytes + bytes);
    path_.source = source;
    path_.destination = destination;
    return frame_.empty() ? MutableBytes() : frame_.subspan(prefix_bytes);
  }

  void commit(inet::TcpResend why, std::uint8_t times) override {
    const WayFields fields = port_.way_fields();
    path_.source_mac.bytes = fields.source_mac;
    path_.destination_mac.bytes = fields.destination_mac;
    inet::finish_tcp_frame(frame_, path_);
    PacketNote note;
    if (why != inet::TcpResend::none) {
      note = {.kind = PacketNote::Kind::retransmission,
              .cause = why == inet::TcpResend::timeout ? PacketNote::Cause::timeout
                                                       : PacketNote::Cause::duplicate_acks,
              .attempt = times};
    }
    port_.commit(note);
  }

 private:
  Port& port_;
  MutableBytes frame_;
  inet::TcpFramePath path_{};
};

OwnTcpPort::OwnTcpPort(std::unique_ptr<Port> inner, std::shared_ptr<OwnTcp> tcp)
    : PortDecorator(std::move(inner)), tcp_(std::move(tcp)) {}

std::uint32_t OwnTcpPort::poll_receive(FrameHandler& /*handler*/, std::uint32_t frames_max) {
  Receiver receiver(*tcp_, now_);
  return inner_->poll_receive(receiver, frames_max);
}

void OwnTcpPort::flush() {
  // Behind what was received: an acknowledgement may have been here, unread, for long.
  tcp_->on_timer(now_);
  Sender sender(*inner_);
  tcp_->transmit(now_, sender);
  inner_->flush();
}

void OwnTcpPort::begin_batch(Time now) {
  now_ = now;
  inner_->begin_batch(now);
}

Time OwnTcpPort::next_deadline() const {
  return std::min(inner_->next_deadline(), tcp_->next_timeout());
}

PortStatistics OwnTcpPort::statistics() const {
  PortStatistics statistics = inner_->statistics();
  tcp_->add_to(statistics);
  return statistics;
}

}  // namespace verbena::ports
