#include "ports/icrc_port.h"

#include <utility>

#include "proto/roce/decap.h"

namespace verbena::ports {

namespace {

void spoil(MutableBytes frame, IcrcSent how) {
  const auto parsed = roce::parse_frame(frame);
  if (!parsed) {
    return;
  }
  const std::byte* const end = parsed->packet.data() + parsed->packet.size();
  const auto bytes_before = static_cast<std::size_t>(end - frame.data()) - roce::icrc_bytes;
  roce::store_icrc(frame.subspan(bytes_before, roce::icrc_bytes),
                   how == IcrcSent::zero ? 0 : ~parsed->wire_icrc());
}

}  // namespace

/// Stands between the inner port and the handler.
class IcrcPort::Tap final : public FrameHandler {
 public:
  Tap(IcrcPort& port, FrameHandler& handler) : port_(port), handler_(handler) {}

  RxVerdict on_frame(ByteView frame) override {
    if (port_.check_ == IcrcCheck::count) {
      const auto parsed = roce::parse_frame(frame);
      port_.wrong_ += parsed && !parsed->icrc_is_good() ? 1 : 0;
    }
    return handler_.on_proved_frame(frame);
  }
  RxVerdict on_proved_frame(ByteView frame) override { return handler_.on_proved_frame(frame); }

 private:
  IcrcPort& port_;
  FrameHandler& handler_;
};

IcrcPort::IcrcPort(std::unique_ptr<Port> inner, IcrcSent sent, IcrcCheck check)
    : PortDecorator(std::move(inner)), sent_(sent), check_(check) {}

MutableBytes IcrcPort::reserve(const FrameRoute& route, std::size_t bytes) {
  reserved_ = inner_->reserve(route, bytes);
  return reserved_;
}

void IcrcPort::commit(const PacketNote& note) {
  if (sent_ != IcrcSent::good) {
    spoil(reserved_, sent_);
  }
  inner_->commit(note);
}

std::uint32_t IcrcPort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  if (check_ == IcrcCheck::on) {
    return inner_->poll_receive(handler, frames_max);
  }
  Tap tap(*this, handler);
  return inner_->poll_receive(tap, frames_max);
}

PortStatistics IcrcPort::statistics() const {
  PortStatistics statistics = inner_->statistics();
  statistics.frames_with_wrong_icrc += wrong_;
  return statistics;
}

}  // namespace verbena::ports
