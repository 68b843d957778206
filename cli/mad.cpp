// Read first: IBTA vol 1, 13.4.2 (MAD header), 16.7 (communication management attributes).
#include "cli/mad.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <variant>

#include "cli/layer_builder.h"
#include "proto/ib_bth/cm/messages.h"
#include "proto/ib_bth/cm/reject_reason.h"
#include "proto/ib_bth/cm/service_id.h"
#include "proto/roce/gid.h"

namespace verbena::cli {
namespace {

namespace cm = ib::cm;

/// Numbers that people know in hexadecimal.
template <class T>
constexpr bool is_hexadecimal =
    std::is_same_v<T, cm::CommId> || std::is_same_v<T, cm::ServiceId> || std::is_same_v<T, Qpn> ||
    std::is_same_v<T, Qkey> || std::is_same_v<T, Pkey> || std::is_same_v<T, Psn> ||
    std::is_same_v<T, std::uint64_t>;

std::string meaning_of(cm::ServiceId id) {
  if (const auto tcp = cm::port_of(id, cm::PortSpace::tcp)) {
    return fmt::format("TCP port space, port {}", *tcp);
  }
  if (const auto udp = cm::port_of(id, cm::PortSpace::udp)) {
    return fmt::format("UDP port space, port {}", *udp);
  }
  return {};
}

std::string meaning_of(cm::RejectReason reason) { return cm::describe(reason); }

template <class T>
std::string meaning_of(const T&) {
  return {};
}

/// As much of the private data as isn't zero, in hexadecimal.
template <std::size_t size>
std::string bytes_text(const std::array<std::byte, size>& bytes) {
  const auto last = std::find_if(bytes.rbegin(), bytes.rend(),
                                 [](std::byte byte) { return byte != std::byte{0}; });
  std::string text;
  for (auto byte = bytes.begin(); byte != last.base(); ++byte) {
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<unsigned>(*byte));
  }
  return text;
}

template <class T>
void add_field(LayerBuilder& layer, const char* name, std::size_t at, std::size_t size_bytes,
               const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    layer.flag(name, at, value);
  } else if constexpr (is_hexadecimal<T>) {
    layer.hex(name, at, size_bytes, cm::number_of(value), meaning_of(value));
  } else if constexpr (cm::NumberField<T>) {
    layer.number(name, at, size_bytes, cm::number_of(value), meaning_of(value));
  } else if constexpr (std::is_same_v<T, Gid>) {
    layer.text(name, at, sizeof value, roce::to_text(value));
  } else if (std::string text = bytes_text(value); !text.empty()) {
    const std::size_t bytes = text.size() / 2;
    layer.text(name, at, bytes, std::move(text));
  }
}

void add_fields(LayerBuilder& layer, const cm::Message& message) {
  // Nobody sends an alternate path on RoCE, and its fields are called like those of the primary.
  constexpr std::size_t req_alternate_at = 96;
  const auto add = [&](const auto& field, const auto& value, std::size_t base) {
    if (base == req_alternate_at) {
      return;
    }
    const std::size_t at = cm::mad_header_bytes + base + field.place.byte;
    add_field(layer, field.name, at, (field.place.bit + field.place.width + 7) / 8, value);
  };
  std::visit([&](const auto& each) { cm::for_each_field(each, add); }, message);
}

std::string message_name(const cm::MadHeader& header) {
  const std::uint16_t attribute = header.attribute_id.value();
  if (header.management_class == cm::class_communication_management) {
    if (const char* name = cm::name_of(cm::AttributeId{attribute})) {
      return fmt::format("CM {}", name);
    }
  }
  if (header.management_class == cm::class_subnet_administration) {
    return fmt::format("SA attribute {:#06x}", attribute);
  }
  return fmt::format("MAD of class {:#04x}, attribute {:#06x}", header.management_class, attribute);
}

}  // namespace

std::string dissect_mad(ByteView mad, std::size_t offset, Dissection& out) {
  if (mad.size() < cm::mad_header_bytes) {
    return "too short for a MAD";
  }
  const auto header = read_struct<cm::MadHeader>(mad);
  std::string name = message_name(header);
  LayerBuilder layer(out, "mad", "MAD", offset, mad.size());
  layer.text("message", 0, cm::mad_header_bytes, name);
  layer.number("base_version", 0, 1, header.base_version);
  layer.hex("class", 1, 1, header.management_class);
  layer.number("class_version", 2, 1, header.class_version);
  layer.hex("method", 3, 1, header.method);
  layer.hex("status", 4, 2, header.status.value());
  layer.hex("transaction_id", 8, 8, header.transaction_id.value());
  layer.hex("attribute_id", 16, 2, header.attribute_id.value());
  layer.hex("attribute_modifier", 20, 4, header.attribute_modifier.value());
  if (const auto envelope = cm::parse(mad)) {
    add_fields(layer, envelope->message);
  }
  return name;
}

}  // namespace verbena::cli
