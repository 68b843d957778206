#include "proto/ib_bth/cm/messages.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace verbena::ib::cm {

namespace {

struct MessageName {
  AttributeId id;
  const char* name;
};

constexpr MessageName message_names[] = {
    {AttributeId::req, "ConnectRequest"},
    {AttributeId::mra, "MsgRcptAck"},
    {AttributeId::rej, "ConnectReject"},
    {AttributeId::rep, "ConnectReply"},
    {AttributeId::rtu, "ReadyToUse"},
    {AttributeId::dreq, "DisconnectRequest"},
    {AttributeId::drep, "DisconnectReply"},
    {AttributeId::sidr_req, "ServiceIDResReq"},
    {AttributeId::lap, "LoadAlternatePath"},
    {AttributeId::sidr_rep, "ServiceIDResReqResp"},
    {AttributeId::apr, "AlternatePathResponse"},
};

/// The message of that number, with the fields that `data` holds.
template <std::size_t index = 0>
std::optional<Message> read_message(AttributeId id, ByteView data) {
  if constexpr (index == std::variant_size_v<Message>) {
    return std::nullopt;
  } else {
    using Candidate = std::variant_alternative_t<index, Message>;
    if (Candidate::attribute != id) {
      return read_message<index + 1>(id, data);
    }
    Candidate message;
    read_fields(data, message);
    return message;
  }
}

/// Messages in which the header's attribute modifier has a meaning.
template <class T>
concept CarriesEce = requires(T message) { message.ece_options; };

}  // namespace

const char* name_of(AttributeId id) noexcept {
  const auto* found = std::ranges::find(message_names, id, &MessageName::id);
  return found == std::end(message_names) ? nullptr : found->name;
}

std::uint64_t read_bits(ByteView bytes, const Place& place) {
  std::uint64_t value = 0;
  const std::size_t end = place.bit + place.width;
  for (std::size_t i = 0; i * 8 < end; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[place.byte + i]);
  }
  const std::size_t below = (8 - end % 8) % 8;
  const std::uint64_t mask =
      place.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << place.width) - 1;
  return value >> below & mask;
}

void write_bits(MutableBytes bytes, const Place& place, std::uint64_t value) {
  const std::size_t end = place.bit + place.width;
  const std::size_t below = (8 - end % 8) % 8;
  const std::uint64_t mask =
      (place.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << place.width) - 1) << below;
  value <<= below;
  for (std::size_t count = (end + 7) / 8, i = 0; i < count; ++i) {
    const std::size_t shift = 8 * (count - 1 - i);
    std::byte& byte = bytes[place.byte + i];
    byte = (byte & ~static_cast<std::byte>(mask >> shift)) |
           static_cast<std::byte>((value & mask) >> shift);
  }
}

AttributeId attribute_of(const Message& message) {
  return std::visit([]<class M>(const M&) { return M::attribute; }, message);
}

const char* describe(MadError error) noexcept {
  switch (error) {
    case MadError::truncated:
      return "shorter than a MAD";
    case MadError::not_communication_management:
      return "not of the communication management class";
    case MadError::version:
      return "of another version";
    case MadError::method:
      return "not a Send";
    case MadError::unknown_attribute:
      return "no known message";
  }
  return "";
}

Result<Envelope, MadError> parse(ByteView mad) {
  if (mad.size() < mad_bytes) {
    return std::unexpected(MadError::truncated);
  }
  const auto header = read_struct<MadHeader>(mad);
  if (header.management_class != class_communication_management) {
    return std::unexpected(MadError::not_communication_management);
  }
  if (header.base_version != mad_base_version || header.class_version != cm_class_version) {
    return std::unexpected(MadError::version);
  }
  if (header.method != method_send) {
    return std::unexpected(MadError::method);
  }
  auto message = read_message(AttributeId{header.attribute_id.value()},
                              mad.subspan(mad_header_bytes, mad_bytes - mad_header_bytes));
  if (!message) {
    return std::unexpected(MadError::unknown_attribute);
  }
  std::visit(
      [&]<class T>(T& each) {
        if constexpr (CarriesEce<T>) {
          each.ece_options = header.attribute_modifier.value();
        }
      },
      *message);
  return Envelope{.transaction_id = header.transaction_id.value(), .message = *message};
}

Mad emit(const Envelope& envelope) {
  Mad mad{};
  MadHeader header;
  header.base_version = mad_base_version;
  header.management_class = class_communication_management;
  header.class_version = cm_class_version;
  header.method = method_send;
  header.transaction_id = envelope.transaction_id;
  header.attribute_id = static_cast<std::uint16_t>(attribute_of(envelope.message));
  const MutableBytes data = MutableBytes(mad).subspan(mad_header_bytes);
  std::visit(
      [&]<class T>(const T& message) {
        write_fields(data, message);
        if constexpr (CarriesEce<T>) {
          header.attribute_modifier = message.ece_options;
        }
      },
      envelope.message);
  write_struct(mad, header);
  return mad;
}

}  // namespace verbena::ib::cm
