#include "sim/packet_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/ib_bth/cm/messages.h"
#include "proto/ib_bth/cm/reject_reason.h"
#include "proto/ib_bth/packet.h"
#include "proto/inet/tcp/frame.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"

namespace verbena::sim {

namespace {

std::string connection_message_of(ByteView payload) {
  const auto envelope = ib::cm::parse(payload);
  if (!envelope) {
    return {};
  }
  const auto name = [](const auto& message) { return ib::cm::name_of(message.attribute); };
  std::string text = fmt::format("CM {}", std::visit(name, envelope->message));
  if (const auto* rej = std::get_if<ib::cm::Rej>(&envelope->message)) {
    text += fmt::format(" ({})", ib::cm::describe(rej->reason));
  }
  return text;
}

SegmentSummary segment_of(const inet::TcpFrame& frame) {
  const inet::TcpHeader& header = frame.segment.header;
  SegmentSummary segment{.source_port = header.source_port.value(),
                         .destination_port = header.destination_port.value(),
                         .sequence = header.sequence.value(),
                         .acknowledgement = header.acknowledgement.value(),
                         .flags = header.flags,
                         .start = iwarp::glimpse_start(frame.segment.payload),
                         .fpdus = {}};
  ByteView stream = frame.segment.payload;
  while (const auto fpdu = iwarp::glimpse_fpdu(stream)) {
    segment.fpdus.push_back(*fpdu);
  }
  return segment;
}

std::string name_of(const iwarp::FpduGlimpse& fpdu) {
  return fpdu.name ? std::string(iwarp::segment_names[*fpdu.name].name) : "FPDU";
}

std::string short_name(const SegmentSummary& segment, std::uint32_t payload_bytes) {
  using inet::TcpHeader;
  if (segment.has(TcpHeader::flag_rst)) {
    return "RST";
  }
  if (segment.has(TcpHeader::flag_syn)) {
    return segment.has(TcpHeader::flag_ack) ? "SYN_ACK" : "SYN";
  }
  if (!segment.fpdus.empty()) {
    return name_of(segment.fpdus.front());
  }
  if (segment.start) {
    return *segment.start == iwarp::StartKind::request ? "MPA_REQUEST" : "MPA_REPLY";
  }
  if (payload_bytes > 0) {
    return "DATA";
  }
  return segment.has(TcpHeader::flag_fin) ? "FIN" : "ACK";
}

std::string describe(const iwarp::FpduGlimpse& fpdu) {
  std::string text = name_of(fpdu);
  if (fpdu.opcode == iwarp::RdmapOpcode::terminate) {
    const auto reason = iwarp::find_reason(fpdu.terminate);
    return text + fmt::format(" ({})", reason ? iwarp::name_of(*reason) : "unknown reason");
  }
  if (fpdu.payload_bytes > 0) {
    text += fmt::format(" payload={}", fpdu.payload_bytes);
  }
  if (fpdu.opcode == iwarp::RdmapOpcode::read_request) {
    return text + fmt::format(" va={:#x} length={}", fpdu.source_offset, fpdu.read_bytes);
  }
  if (fpdu.opcode == iwarp::RdmapOpcode::atomic_request) {
    return text + fmt::format(" msn={} va={:#x}", fpdu.msn, fpdu.source_offset);
  }
  if (fpdu.opcode == iwarp::RdmapOpcode::immediate ||
      fpdu.opcode == iwarp::RdmapOpcode::immediate_solicited) {
    text += fmt::format(" imm={:#x}", fpdu.immediate);
  }
  return text + (fpdu.is_tagged ? fmt::format(" va={:#x}", fpdu.offset)
                                : fmt::format(" msn={} mo={}", fpdu.msn, fpdu.message_offset));
}

/// "WRITE_LAST payload=976 va=0x100400 seq=1069".
std::string describe(const SegmentSummary& segment, std::uint32_t payload_bytes) {
  std::string text;
  for (const iwarp::FpduGlimpse& fpdu : segment.fpdus) {
    text += (text.empty() ? "" : " + ") + describe(fpdu);
  }
  if (text.empty()) {
    text = short_name(segment, payload_bytes);
    text += payload_bytes > 0 ? fmt::format(" payload={}", payload_bytes) : "";
  } else if (segment.has(inet::TcpHeader::flag_fin)) {
    text += " + FIN";
  }
  const bool is_ack = payload_bytes == 0 && segment.has(inet::TcpHeader::flag_ack) &&
                      !segment.has(inet::TcpHeader::flag_syn);
  return text + (is_ack ? fmt::format(" ack={}", segment.acknowledgement)
                        : fmt::format(" seq={}", segment.sequence));
}

}  // namespace

PacketSummary summarize(ByteView frame) {
  PacketSummary summary;
  summary.frame_bytes = static_cast<std::uint32_t>(frame.size());
  if (const auto tcp = inet::parse_tcp_frame(frame)) {
    summary.source = roce::gid_from_ipv6(tcp->source);
    summary.destination = roce::gid_from_ipv6(tcp->destination);
    summary.payload_bytes = static_cast<std::uint32_t>(tcp->segment.payload.size());
    summary.segment = segment_of(*tcp);
    return summary;
  }
  const auto parsed = roce::parse_frame(frame);
  if (!parsed) {
    return summary;
  }
  summary.source = parsed->source;
  summary.destination = parsed->destination;
  summary.icrc_is_good = parsed->icrc_is_good();
  const auto packet = ib::PacketView::parse(parsed->transport);
  if (!packet) {
    return summary;
  }
  summary.is_transport = true;
  summary.fields = ib::parse_fields(*packet);
  summary.payload_bytes = static_cast<std::uint32_t>(packet->payload().size());
  if (summary.fields.dest_qpn == qpn_gsi) {
    summary.connection_message = connection_message_of(packet->payload());
  }
  return summary;
}

std::string short_name(const PacketSummary& packet) {
  if (packet.segment) {
    return short_name(*packet.segment, packet.payload_bytes);
  }
  if (!packet.is_transport) {
    return "OTHER";
  }
  if (!packet.connection_message.empty()) {
    // "CM ConnectReject (REJ 8, ...)" is CM_ConnectReject.
    std::string name = packet.connection_message.substr(0, packet.connection_message.find(" ("));
    std::ranges::replace(name, ' ', '_');
    return name;
  }
  if (packet.info().operation == ib::Operation::acknowledge) {
    switch (packet.fields.aeth.syndrome().kind()) {
      case ib::AethKind::ack:
        return "ACK";
      case ib::AethKind::rnr_nak:
        return "RNR_NAK";
      case ib::AethKind::nak:
        return "NAK";
      case ib::AethKind::reserved:
        break;
    }
  }
  std::string name(ib::opcode_identifier(packet.fields.opcode));
  if (name.starts_with("rc_")) {
    name.erase(0, 3);
  }
  for (char& c : name) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

namespace {

std::string describe_aeth(const ib::Aeth& aeth) {
  const ib::Syndrome syndrome = aeth.syndrome();
  std::string text = fmt::format(" msn={}", aeth.msn().value());
  if (syndrome.kind() == ib::AethKind::nak) {
    text += fmt::format(" ({})", ib::nak_code_name(syndrome.nak_code()));
  }
  if (syndrome.kind() == ib::AethKind::rnr_nak) {
    const auto us = ib::rnr_timer(syndrome.code()).count() / 1'000;
    text += fmt::format(" (wait {} us)", us);
  }
  return text;
}

}  // namespace

std::string describe(const PacketSummary& packet) {
  if (packet.segment) {
    return describe(*packet.segment, packet.payload_bytes);
  }
  if (!packet.is_transport) {
    return fmt::format("a frame of {} bytes that is no RoCE packet", packet.frame_bytes);
  }
  const ib::OpcodeInfo& info = packet.info();
  const ib::PacketFields& fields = packet.fields;
  if (!packet.connection_message.empty()) {
    return packet.connection_message + (packet.icrc_is_good ? "" : " (ICRC wrong)");
  }
  std::string text = fmt::format("{} psn={}", short_name(packet), fields.psn.value());
  if (packet.payload_bytes > 0) {
    text += fmt::format(" payload={}", packet.payload_bytes);
  }
  if (info.has(ib::ExtHeader::reth)) {
    text +=
        fmt::format(" va={:#x} length={}", to_value(fields.reth.va()), fields.reth.length_bytes());
  }
  if (info.has(ib::ExtHeader::aeth)) {
    text += describe_aeth(fields.aeth);
  }
  if (info.has(ib::ExtHeader::atomic_eth)) {
    text += fmt::format(" va={:#x}", to_value(fields.atomic_eth.va()));
  }
  if (info.has(ib::ExtHeader::atomic_ack_eth)) {
    text += fmt::format(" original={}", fields.atomic_ack_eth.original());
  }
  if (info.has_immediate()) {
    text += fmt::format(" imm={:#x}", fields.imm.value());
  }
  if (fields.ack_request && info.is_request()) {
    text += " ackreq";
  }
  if (!packet.icrc_is_good) {
    text += " (ICRC wrong)";
  }
  return text;
}

std::string describe(const PacketNote& note) {
  const auto cause = [&] {
    switch (note.cause) {
      case PacketNote::Cause::none:
        return "";
      case PacketNote::Cause::timeout:
        return " after a timeout";
      case PacketNote::Cause::nak_sequence:
        return " after a NAK";
      case PacketNote::Cause::implied_nak:
        return " after an implied NAK";
      case PacketNote::Cause::rnr:
        return " after an RNR NAK";
      case PacketNote::Cause::duplicate_acks:
        return " after duplicate ACKs";
    }
    return "";
  };
  switch (note.kind) {
    case PacketNote::Kind::plain:
      return {};
    case PacketNote::Kind::retransmission:
      return fmt::format("retransmission {}{}", note.attempt, cause());
    case PacketNote::Kind::replay:
      return "answer to a duplicate";
    case PacketNote::Kind::rnr_nak:
      return "receiver not ready";
    case PacketNote::Kind::nak:
      return "refused";
  }
  return {};
}

}  // namespace verbena::sim
