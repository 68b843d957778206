#include "ports/log_port.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "ports/capture_port.h"
#include "ports/log.h"
#include "proto/ib_bth/aeth.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

std::string syndrome_text(ib::Syndrome syndrome) {
  switch (syndrome.kind()) {
    case ib::AethKind::ack:
      return "ACK";
    case ib::AethKind::rnr_nak:
      return "RNR NAK";
    case ib::AethKind::nak:
      return fmt::format("NAK \"{}\"", ib::nak_code_name(syndrome.nak_code()));
    case ib::AethKind::reserved:
      break;
  }
  return fmt::format("reserved syndrome 0x{:02x}", syndrome.to_byte());
}

/// Whether it is an answer that says no.
bool is_refusal(ByteView frame) {
  const auto roce = roce::parse_frame(frame);
  if (!roce) {
    return false;
  }
  const auto packet = ib::PacketView::parse(roce->transport);
  return packet && packet->has(ib::ExtHeader::aeth) &&
         packet->aeth().syndrome().kind() != ib::AethKind::ack;
}

}  // namespace

std::string describe_frame(ByteView frame) {
  const auto roce = roce::parse_frame(frame);
  if (!roce) {
    return fmt::format("a frame of {} bytes that is not RoCE", frame.size());
  }
  const std::string way = fmt::format("from {} to {}", roce::to_address_text(roce->source),
                                      roce::to_address_text(roce->destination));
  const auto packet = ib::PacketView::parse(roce->transport);
  if (!packet) {
    return fmt::format("a packet that can't be read {}", way);
  }
  std::string text =
      fmt::format("{} PSN 0x{:06x}", ib::opcode_name(packet->opcode()), packet->psn().value());
  if (packet->has(ib::ExtHeader::aeth)) {
    text += fmt::format(", {}", syndrome_text(packet->aeth().syndrome()));
  }
  if (!packet->payload().empty()) {
    text += fmt::format(", {} bytes", packet->payload().size());
  }
  return fmt::format("{} {} QP 0x{:06x}", text, way, to_value(packet->dest_qpn()));
}

/// Stands between the inner port and the handler.
class LogPort::Tap final : public FrameHandler {
 public:
  Tap(LogPort& port, FrameHandler& handler) : port_(port), handler_(handler) {}

  RxVerdict on_frame(ByteView frame) override {
    const LogLevel level = is_refusal(frame) ? LogLevel::debug : LogLevel::trace;
    if (logs(level)) {
      log(level, port_.device_name_, std::nullopt, "received " + describe_frame(frame));
    }
    port_.remark_.clear();
    const RxVerdict verdict = handler_.on_frame(frame);
    if (!port_.remark_.empty()) {
      log(LogLevel::debug, port_.device_name_, std::nullopt,
          fmt::format("{}: {}", describe_frame(frame), std::exchange(port_.remark_, {})));
    }
    return verdict;
  }

 private:
  LogPort& port_;
  FrameHandler& handler_;
};

LogPort::LogPort(std::unique_ptr<Port> inner, std::string device_name)
    : PortDecorator(std::move(inner)), device_name_(std::move(device_name)) {}

MutableBytes LogPort::reserve(const FrameRoute& route, std::size_t bytes) {
  const MutableBytes frame = inner_->reserve(route, bytes);
  reserved_ = frame;
  return frame;
}

void LogPort::commit(const PacketNote& note) {
  const std::string remark = std::exchange(remark_, {});
  const bool is_plain = note.kind == PacketNote::Kind::plain && remark.empty();
  const LogLevel level = is_plain ? LogLevel::trace : LogLevel::debug;
  if (logs(level)) {
    std::string text = "sent " + describe_frame(reserved_);
    for (const std::string& why : {describe(note), remark}) {
      text += why.empty() ? "" : ": " + why;
    }
    log(level, device_name_, std::nullopt, text);
  }
  inner_->commit(note);
}

std::uint32_t LogPort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  Tap tap(*this, handler);
  return inner_->poll_receive(tap, frames_max);
}

void LogPort::remark(std::string_view what) {
  remark_ = what;
  inner_->remark(what);
}

void LogPort::record_lost(ByteView frame, std::string_view what) {
  log(LogLevel::debug, device_name_, std::nullopt,
      fmt::format("{}: {}", describe_frame(frame), what));
  inner_->record_lost(frame, what);
}

}  // namespace verbena::ports
