#include "cli/dissect_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "base/ids.h"
#include "cli/layer_builder.h"
#include "cli/mad.h"
#include "proto/ib_bth/aeth.h"
#include "proto/ib_bth/headers.h"
#include "proto/ib_bth/packet.h"

namespace verbena::cli {
namespace {

using ib::ExtHeader;

/// "0.64 ms", "655.36 ms": as the specification's table has them.
std::string milliseconds(Duration duration) {
  return fmt::format("{:g} ms", static_cast<double>(duration.count()) / 1e6);
}

/// A syndrome in words: "ACK", "NAK PSN sequence error", "RNR NAK, wait 0.64 ms".
std::string syndrome_words(ib::Syndrome syndrome) {
  switch (syndrome.kind()) {
    case ib::AethKind::ack:
      return syndrome.code() == ib::Syndrome::credit_unlimited
                 ? "ACK"
                 : fmt::format("ACK, {} credits", ib::credits.at(syndrome.code()));
    case ib::AethKind::rnr_nak:
      return "RNR NAK, wait " + milliseconds(ib::rnr_timer(syndrome.code()));
    case ib::AethKind::nak:
      return fmt::format("NAK {}", ib::nak_code_name(syndrome.nak_code()));
    case ib::AethKind::reserved:
      break;
  }
  return fmt::format("reserved syndrome {:#04x}", syndrome.to_byte());
}

void add_bth(const ib::Bth& bth, std::size_t offset, Dissection& out) {
  LayerBuilder layer(out, "bth", "BTH", offset, ib::bth_bytes);
  layer.hex("opcode", 0, 1, static_cast<std::uint8_t>(bth.opcode()), ib::opcode_name(bth.opcode()));
  layer.flag("solicited", 1, bth.solicited());
  layer.flag("migrated", 1, bth.migrated());
  layer.number("pad_count", 1, 1, bth.pad_count());
  layer.number("transport_version", 1, 1, bth.transport_version());
  layer.hex("pkey", 2, 2, to_value(bth.pkey()));
  layer.flag("fecn", 4, bth.fecn());
  layer.flag("becn", 4, bth.becn());
  layer.hex("destination_qp", 5, 3, to_value(bth.dest_qpn()));
  layer.flag("ack_request", 8, bth.ack_request());
  layer.hex("psn", 9, 3, bth.psn().value());
}

/// Each of these adds the fields of an extension header and returns what it says, for the line.

std::string add_deth(const ib::Deth& deth, LayerBuilder layer) {
  layer.hex("qkey", 0, 4, to_value(deth.qkey()));
  layer.hex("source_qp", 5, 3, to_value(deth.source_qpn()));
  return fmt::format("from QP {:#08x}, qkey {:#010x}", to_value(deth.source_qpn()),
                     to_value(deth.qkey()));
}

std::string add_feth(const ib::Feth& feth, LayerBuilder layer) {
  layer.number("placement_type", 3, 1, feth.placement_type());
  layer.number("selectivity", 3, 1, feth.selectivity());
  constexpr std::array<std::string_view, 4> types{"nothing", "visibility", "persistence",
                                                  "visibility and persistence"};
  constexpr std::array<std::string_view, 2> levels{"a range", "a region"};
  if (feth.placement_type() >= types.size() || feth.selectivity() >= levels.size()) {
    return fmt::format("placement type {}, selectivity {}: reserved", feth.placement_type(),
                       feth.selectivity());
  }
  return fmt::format("{} of {}", types[feth.placement_type()], levels[feth.selectivity()]);
}

std::string add_reth(const ib::Reth& reth, LayerBuilder layer) {
  layer.hex("va", 0, 8, to_value(reth.va()));
  layer.hex("rkey", 8, 4, to_value(reth.rkey()));
  layer.number("dma_length", 12, 4, reth.length_bytes());
  return fmt::format("va {:#x}, rkey {:#010x}, length {}", to_value(reth.va()),
                     to_value(reth.rkey()), reth.length_bytes());
}

std::string add_atomic_eth(const ib::AtomicEth& atomic, ib::Operation operation,
                           LayerBuilder layer) {
  layer.hex("va", 0, 8, to_value(atomic.va()));
  layer.hex("rkey", 8, 4, to_value(atomic.rkey()));
  layer.hex("swap_or_add", 12, 8, atomic.swap_or_add());
  layer.hex("compare", 20, 8, atomic.compare());
  const std::string where =
      fmt::format("va {:#x}, rkey {:#010x}", to_value(atomic.va()), to_value(atomic.rkey()));
  return operation == ib::Operation::fetch_add
             ? fmt::format("{}, add {:#x}", where, atomic.swap_or_add())
             : fmt::format("{}, compare {:#x}, swap {:#x}", where, atomic.compare(),
                           atomic.swap_or_add());
}

std::string add_aeth(const ib::Aeth& aeth, LayerBuilder layer) {
  const std::string words = syndrome_words(aeth.syndrome());
  layer.hex("syndrome", 0, 1, aeth.syndrome().to_byte(), words);
  layer.number("msn", 1, 3, aeth.msn().value());
  return fmt::format("{}, MSN {}", words, aeth.msn().value());
}

std::string add_rdeth(const ib::Rdeth& rdeth, LayerBuilder layer) {
  layer.hex("ee_context", 1, 3, rdeth.ee_context());
  return fmt::format("EE context {:#08x}", rdeth.ee_context());
}

std::string add_xrceth(const ib::XrcEth& xrceth, LayerBuilder layer) {
  layer.hex("srq", 1, 3, xrceth.srq_number());
  return fmt::format("SRQ {:#08x}", xrceth.srq_number());
}

std::string add_atomic_ack_eth(const ib::AtomicAckEth& atomic_ack, LayerBuilder layer) {
  layer.hex("original", 0, 8, atomic_ack.original());
  return fmt::format("original {:#x}", atomic_ack.original());
}

std::string add_imm_dt(const ib::ImmDt& imm, LayerBuilder layer) {
  layer.hex("immediate", 0, 4, imm.value());
  return fmt::format("immediate {:#010x}", imm.value());
}

std::string add_ieth(const ib::Ieth& ieth, LayerBuilder layer) {
  layer.hex("rkey", 0, 4, to_value(ieth.rkey()));
  return fmt::format("invalidates rkey {:#010x}", to_value(ieth.rkey()));
}

std::string add_ext_header(const ib::PacketView& packet, ExtHeader header, std::size_t offset,
                           Dissection& out) {
  const std::size_t size = ib::ext_header_bytes.at(static_cast<std::size_t>(header));
  const auto layer = [&](std::string_view name, std::string_view title) {
    return LayerBuilder(out, name, title, offset, size);
  };
  switch (header) {
    case ExtHeader::rdeth:
      return add_rdeth(packet.rdeth(), layer("rdeth", "RDETH"));
    case ExtHeader::deth:
      return add_deth(packet.deth(), layer("deth", "DETH"));
    case ExtHeader::xrceth:
      return add_xrceth(packet.xrceth(), layer("xrceth", "XRCETH"));
    case ExtHeader::feth:
      return add_feth(packet.feth(), layer("feth", "FETH"));
    case ExtHeader::reth:
      return add_reth(packet.reth(), layer("reth", "RETH"));
    case ExtHeader::atomic_eth:
      return add_atomic_eth(packet.atomic_eth(), packet.info().operation,
                            layer("atomic_eth", "AtomicETH"));
    case ExtHeader::aeth:
      return add_aeth(packet.aeth(), layer("aeth", "AETH"));
    case ExtHeader::atomic_ack_eth:
      return add_atomic_ack_eth(packet.atomic_ack_eth(), layer("atomic_ack_eth", "AtomicAckETH"));
    case ExtHeader::imm_dt:
      return add_imm_dt(packet.imm(), layer("imm_dt", "ImmDt"));
    case ExtHeader::ieth:
      return add_ieth(packet.ieth(), layer("ieth", "IETH"));
    case ExtHeader::cnp_reserved:
      layer("cnp_reserved", "CNP reserved bytes");
      break;
  }
  return {};
}

void append_words(std::string& summary, std::string_view words) {
  if (!words.empty()) {
    summary += summary.empty() ? "" : ", ";
    summary += words;
  }
}

void add_payload(const ib::PacketView& packet, std::size_t offset, Dissection& out) {
  const std::size_t header_bytes = packet.info().header_bytes;
  if (packet.transport().size() == header_bytes) {
    return;
  }
  LayerBuilder layer(out, "payload", "Payload", offset + header_bytes,
                     packet.transport().size() - header_bytes);
  layer.number("length", 0, packet.payload().size(), packet.payload().size());
  layer.text("data", 0, packet.payload().size(), hex_bytes(packet.payload()));
  if (!packet.pad().empty()) {
    layer.text("pad", packet.payload().size(), packet.pad().size(), hex_bytes(packet.pad()));
  }
}

}  // namespace

void dissect_transport(ByteView transport, std::size_t offset, Dissection& out) {
  const auto bth = read_struct<ib::Bth>(transport);
  out.title = ib::opcode_name(bth.opcode());
  out.destination_qpn = to_value(bth.dest_qpn());
  out.psn = bth.psn().value();
  add_bth(bth, offset, out);

  const auto packet = ib::PacketView::parse(transport);
  if (!packet) {
    out.error = describe(packet.error());
    return;
  }
  for (const ExtHeader header : packet->info().ext_headers) {
    append_words(out.summary,
                 add_ext_header(*packet, header, offset + packet->info().offset_of(header), out));
  }
  if (packet->info().may_have_payload()) {
    append_words(out.summary, fmt::format("{} bytes", packet->payload().size()));
  }
  if (packet->dest_qpn() == qpn_gsi && packet->info().service == ib::Service::ud) {
    // Says more than the headers do, so it comes first.
    const std::size_t payload_offset = offset + packet->info().header_bytes;
    out.summary = dissect_mad(packet->payload(), payload_offset, out) + ", " + out.summary;
  } else {
    add_payload(*packet, offset, out);
  }
  append_words(out.summary, bth.solicited() ? "solicited" : "");
  append_words(out.summary, bth.ack_request() ? "AckReq" : "");
}

}  // namespace verbena::cli
