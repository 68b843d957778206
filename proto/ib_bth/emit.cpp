#include "proto/ib_bth/emit.h"

#include <algorithm>

namespace verbena::ib {
namespace {

Bth make_bth(const PacketFields& fields, std::size_t payload_bytes) {
  Bth bth;
  bth.set_opcode(fields.opcode);
  bth.set_solicited(fields.solicited);
  bth.set_migrated(fields.migrated);
  bth.set_pad_count(static_cast<unsigned>(pad_count(payload_bytes)));
  bth.set_pkey(fields.pkey);
  bth.set_fecn(fields.fecn);
  bth.set_becn(fields.becn);
  bth.set_dest_qpn(fields.dest_qpn);
  bth.set_ack_request(fields.ack_request);
  bth.set_psn(fields.psn);
  return bth;
}

void emit_ext_header(MutableBytes out, ExtHeader header, const PacketFields& fields) {
  switch (header) {
    case ExtHeader::rdeth:
      return write_struct(out, fields.rdeth);
    case ExtHeader::deth:
      return write_struct(out, fields.deth);
    case ExtHeader::xrceth:
      return write_struct(out, fields.xrceth);
    case ExtHeader::feth:
      return write_struct(out, fields.feth);
    case ExtHeader::reth:
      return write_struct(out, fields.reth);
    case ExtHeader::atomic_eth:
      return write_struct(out, fields.atomic_eth);
    case ExtHeader::aeth:
      return write_struct(out, fields.aeth);
    case ExtHeader::atomic_ack_eth:
      return write_struct(out, fields.atomic_ack_eth);
    case ExtHeader::imm_dt:
      return write_struct(out, fields.imm);
    case ExtHeader::ieth:
      return write_struct(out, fields.ieth);
    case ExtHeader::cnp_reserved:
      // Sixteen bytes, sent as zero and ignored by who receives them (annex A17.9.3).
      std::ranges::fill(out.first(ext_header_bytes[static_cast<std::size_t>(header)]), std::byte{});
      return;
  }
}

void parse_ext_header(const PacketView& packet, ExtHeader header, PacketFields& fields) {
  switch (header) {
    case ExtHeader::rdeth:
      fields.rdeth = packet.rdeth();
      return;
    case ExtHeader::deth:
      fields.deth = packet.deth();
      return;
    case ExtHeader::xrceth:
      fields.xrceth = packet.xrceth();
      return;
    case ExtHeader::feth:
      fields.feth = packet.feth();
      return;
    case ExtHeader::reth:
      fields.reth = packet.reth();
      return;
    case ExtHeader::atomic_eth:
      fields.atomic_eth = packet.atomic_eth();
      return;
    case ExtHeader::aeth:
      fields.aeth = packet.aeth();
      return;
    case ExtHeader::atomic_ack_eth:
      fields.atomic_ack_eth = packet.atomic_ack_eth();
      return;
    case ExtHeader::imm_dt:
      fields.imm = packet.imm();
      return;
    case ExtHeader::ieth:
      fields.ieth = packet.ieth();
      return;
    case ExtHeader::cnp_reserved:
      return;
  }
}

}  // namespace

std::size_t emit_headers(MutableBytes transport, const PacketFields& fields,
                         std::size_t payload_bytes) {
  const OpcodeInfo& info = opcode_info(fields.opcode);
  VERBENA_CHECK(info.is_known);
  VERBENA_CHECK(transport.size() >= info.header_bytes);
  write_struct(transport, make_bth(fields, payload_bytes));
  for (const ExtHeader header : info.ext_headers) {
    emit_ext_header(transport.subspan(info.offset_of(header)), header, fields);
  }
  return info.header_bytes;
}

std::size_t emit_pad(MutableBytes after_payload, std::size_t payload_bytes) {
  const std::size_t pad_bytes = pad_count(payload_bytes);
  VERBENA_CHECK(after_payload.size() >= pad_bytes);
  std::ranges::fill(after_payload.first(pad_bytes), std::byte{0});
  return pad_bytes;
}

std::size_t emit_packet(MutableBytes transport, const PacketFields& fields, ByteView payload) {
  VERBENA_CHECK(transport.size() >= transport_size(fields.opcode, payload.size()));
  std::size_t size = emit_headers(transport, fields, payload.size());
  copy_bytes(transport.subspan(size), payload);
  size += payload.size();
  return size + emit_pad(transport.subspan(size), payload.size());
}

PacketFields parse_fields(const PacketView& packet) {
  const Bth& bth = packet.bth();
  PacketFields fields;
  fields.opcode = bth.opcode();
  fields.solicited = bth.solicited();
  fields.migrated = bth.migrated();
  fields.ack_request = bth.ack_request();
  fields.fecn = bth.fecn();
  fields.becn = bth.becn();
  fields.pkey = bth.pkey();
  fields.dest_qpn = bth.dest_qpn();
  fields.psn = bth.psn();
  for (const ExtHeader header : packet.info().ext_headers) {
    parse_ext_header(packet, header, fields);
  }
  return fields;
}

}  // namespace verbena::ib
