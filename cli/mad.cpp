// Read first: IBTA vol 1, 13.4.2 (MAD header), 16.7 (communication management attributes).
#include "cli/mad.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "cli/layer_builder.h"

namespace verbena::cli {
namespace {

/// The common MAD header (13.4.2).
struct MadHeader {
  std::uint8_t base_version = 0;
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;
  boost::endian::big_uint16_buf_t status{};
  boost::endian::big_uint16_buf_t class_specific{};
  boost::endian::big_uint64_buf_t transaction_id{};
  boost::endian::big_uint16_buf_t attribute_id{};
  boost::endian::big_uint16_buf_t reserved{};
  boost::endian::big_uint32_buf_t attribute_modifier{};
};
constexpr std::size_t mad_header_bytes = 24;
static_assert(is_wire_struct<MadHeader, mad_header_bytes>);

constexpr std::uint8_t class_subnet_administration = 0x03;
constexpr std::uint8_t class_communication_management = 0x07;

struct CmMessage {
  std::uint16_t attribute_id;
  std::string_view name;
  /// What the first two words of its data are called; some have one identifier only.
  std::string_view first_id = "local_id";
  std::string_view second_id = "remote_id";
};

/// Communication management attributes (16.7.2).
constexpr CmMessage cm_messages[] = {
    {0x0010, "ConnectRequest", "local_id", {}},
    {0x0011, "MsgRcptAck"},
    {0x0012, "ConnectReject"},
    {0x0013, "ConnectReply"},
    {0x0014, "ReadyToUse"},
    {0x0015, "DisconnectRequest"},
    {0x0016, "DisconnectReply"},
    {0x0017, "ServiceIDResReq", "request_id", {}},
    {0x0018, "ServiceIDResReqResp", "request_id", {}},
    {0x0019, "LoadAlternatePath"},
    {0x001A, "AlternatePathResponse"},
};

std::uint32_t read_u32(ByteView bytes) {
  return read_struct<boost::endian::big_uint32_buf_t>(bytes).value();
}

std::string message_name(const MadHeader& header, const CmMessage* message) {
  const std::uint16_t attribute = header.attribute_id.value();
  if (message != nullptr) {
    return fmt::format("CM {}", message->name);
  }
  if (header.management_class == class_subnet_administration) {
    return fmt::format("SA attribute {:#06x}", attribute);
  }
  return fmt::format("MAD of class {:#04x}, attribute {:#06x}", header.management_class, attribute);
}

}  // namespace

std::string dissect_mad(ByteView mad, std::size_t offset, Dissection& out) {
  constexpr std::size_t ids_bytes = 8;
  if (mad.size() < mad_header_bytes + ids_bytes) {
    return "too short for a MAD";
  }
  const auto header = read_struct<MadHeader>(mad);
  const CmMessage* message = nullptr;
  if (header.management_class == class_communication_management) {
    const auto* found =
        std::ranges::find(cm_messages, header.attribute_id.value(), &CmMessage::attribute_id);
    message = found == std::end(cm_messages) ? nullptr : found;
  }
  std::string name = message_name(header, message);
  LayerBuilder layer(out, "mad", "MAD", offset, mad.size());
  layer.text("message", 0, mad_header_bytes, name);
  layer.number("base_version", 0, 1, header.base_version);
  layer.hex("class", 1, 1, header.management_class);
  layer.number("class_version", 2, 1, header.class_version);
  layer.hex("method", 3, 1, header.method);
  layer.hex("status", 4, 2, header.status.value());
  layer.hex("transaction_id", 8, 8, header.transaction_id.value());
  layer.hex("attribute_id", 16, 2, header.attribute_id.value());
  layer.hex("attribute_modifier", 20, 4, header.attribute_modifier.value());
  if (message != nullptr) {
    const ByteView data = mad.subspan(mad_header_bytes);
    layer.hex(message->first_id, mad_header_bytes, 4, read_u32(data));
    if (!message->second_id.empty()) {
      layer.hex(message->second_id, mad_header_bytes + 4, 4, read_u32(data.subspan(4)));
    }
  }
  return name;
}

}  // namespace verbena::cli
