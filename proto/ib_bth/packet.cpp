#include "proto/ib_bth/packet.h"

#include <fmt/format.h>

namespace verbena::ib {

Result<PacketView, ParseError> PacketView::parse(ByteView transport) {
  using Kind = ParseError::Kind;
  const std::size_t size = transport.size();
  if (size < bth_bytes) {
    return std::unexpected(ParseError{Kind::bth_truncated, Opcode{}, bth_bytes, size});
  }
  const auto bth = read_struct<Bth>(transport);
  const Opcode opcode = bth.opcode();
  if (bth.transport_version() != 0) {
    return std::unexpected(ParseError{Kind::transport_version, opcode, 0, bth.transport_version()});
  }
  const OpcodeInfo& info = opcode_info(opcode);
  if (!info.is_known) {
    return std::unexpected(
        ParseError{Kind::opcode_reserved, opcode, 0, static_cast<std::size_t>(opcode)});
  }
  if (size % 4 != 0) {
    return std::unexpected(ParseError{Kind::length_not_in_words, opcode, size - size % 4, size});
  }
  if (size < info.header_bytes) {
    return std::unexpected(ParseError{Kind::headers_truncated, opcode, info.header_bytes, size});
  }
  if (size - info.header_bytes < bth.pad_count()) {
    return std::unexpected(
        ParseError{Kind::pad_exceeds_payload, opcode, size - info.header_bytes, bth.pad_count()});
  }
  return PacketView(transport, bth, info);
}

std::string describe(const ParseError& error) {
  using Kind = ParseError::Kind;
  const std::string_view name = opcode_name(error.opcode);
  switch (error.kind) {
    case Kind::bth_truncated:
      return fmt::format("a BTH needs {} bytes, got {}", error.expected, error.got);
    case Kind::transport_version:
      return fmt::format("transport version {} expected, got {}", error.expected, error.got);
    case Kind::opcode_reserved:
      return fmt::format("opcode {:#04x} is reserved", error.got);
    case Kind::length_not_in_words:
      return fmt::format("{} has {} bytes, not a multiple of 4", name, error.got);
    case Kind::headers_truncated:
      return fmt::format("{} needs {} bytes of headers, got {}", name, error.expected, error.got);
    case Kind::pad_exceeds_payload:
      return fmt::format("{} with PadCnt {} has only {} bytes behind its headers", name, error.got,
                         error.expected);
  }
  return "unknown error";
}

}  // namespace verbena::ib
