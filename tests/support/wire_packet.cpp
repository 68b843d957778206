#include "tests/support/wire_packet.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"

namespace verbena::test {

ByteView WirePacket::payload() const {
  const auto roce_frame = roce::parse_frame(frame);
  REQUIRE(roce_frame);
  return roce_frame->transport.subspan(info().header_bytes, payload_bytes);
}

WirePacket decode(Side from, Time sent, ByteView frame, const PacketNote& note) {
  const auto roce_frame = roce::parse_frame(frame);
  REQUIRE(roce_frame);
  REQUIRE(roce_frame->icrc_is_good());
  const auto packet = ib::PacketView::parse(roce_frame->transport);
  REQUIRE(packet);
  return {.from = from,
          .sent = sent,
          .fields = ib::parse_fields(*packet),
          .payload_bytes = packet->payload().size(),
          .note = note,
          .frame = {frame.begin(), frame.end()}};
}

namespace {

std::string to_text(const ib::Aeth& aeth) {
  const ib::Syndrome syndrome = aeth.syndrome();
  const std::uint32_t msn = aeth.msn().value();
  switch (syndrome.kind()) {
    case ib::AethKind::ack:
      return fmt::format(" ack msn {}", msn);
    case ib::AethKind::rnr_nak:
      return fmt::format(" rnr {} msn {}", syndrome.code(), msn);
    case ib::AethKind::nak:
    case ib::AethKind::reserved:
      break;
  }
  return fmt::format(" nak {:02x} msn {}", syndrome.to_byte(), msn);
}

/// "rc_send_only" of a reliable connection is "send_only"; other services are named.
std::string without_service(const ib::OpcodeInfo& info) {
  constexpr std::string_view prefix = "rc_";
  const std::string name(ib::opcode_identifier(info.opcode));
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace

std::string to_text(const WirePacket& packet) {
  const ib::OpcodeInfo& info = packet.info();
  std::string text = fmt::format("{} {}", without_service(info), packet.fields.psn.value());
  if (info.may_have_payload()) {
    text += fmt::format(" +{}", packet.payload_bytes);
  }
  if (info.operation == ib::Operation::read_request) {
    text += fmt::format(" len {}", packet.fields.reth.length_bytes());
  }
  if (info.has(ib::ExtHeader::aeth)) {
    text += to_text(packet.fields.aeth);
  }
  if (packet.fields.ack_request) {
    text += " A";
  }
  if (packet.fields.solicited) {
    text += " SE";
  }
  return text;
}

}  // namespace verbena::test
