// The texts of `verbena dump`: lines and details.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <iterator>

#include "cli/dump_format.h"

namespace verbena::cli {
namespace {

/// The longest title that lines are aligned for: "RC RDMA READ Response Middle".
constexpr int title_columns = 28;

constexpr std::int64_t ns_per_second = 1'000'000'000;

/// Seconds with nine digits behind the point.
std::string seconds(std::chrono::nanoseconds time) {
  const std::int64_t ns = time.count();
  const std::int64_t magnitude_seconds = ns / ns_per_second;
  const std::int64_t rest = ns % ns_per_second;
  return fmt::format("{}{}.{:09}", ns < 0 ? "-" : "",
                     ns < 0 ? -magnitude_seconds : magnitude_seconds, rest < 0 ? -rest : rest);
}

std::string_view direction_word(pcap::Direction direction) {
  switch (direction) {
    case pcap::Direction::inbound:
      return "in";
    case pcap::Direction::outbound:
      return "out";
    case pcap::Direction::unknown:
      break;
  }
  return "";
}

std::string utc(pcap::UnixTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     (time - whole).count());
}

/// Everything of a line that begins at the QP.
std::string transport_columns(const Dissection& dissection) {
  std::string text;
  auto out = std::back_inserter(text);
  if (dissection.destination_qpn) {
    fmt::format_to(out, "QP {:#08x}  PSN {:#08x}  ", *dissection.destination_qpn,
                   dissection.psn.value_or(0));
  }
  const bool is_last = dissection.summary.empty() && !dissection.icrc_is_good &&
                       !dissection.mpa_crc_is_good && dissection.error.empty();
  fmt::format_to(out, "{:{}}", dissection.title, is_last ? 0 : title_columns);
  if (!dissection.summary.empty()) {
    fmt::format_to(out, "  {}", dissection.summary);
  }
  if (dissection.icrc_is_good) {
    fmt::format_to(out, "  ICRC {}", *dissection.icrc_is_good ? "good" : "BAD");
  }
  if (dissection.mpa_crc_is_good) {
    fmt::format_to(out, "  CRC {}", *dissection.mpa_crc_is_good ? "good" : "BAD");
  }
  if (!dissection.error.empty()) {
    fmt::format_to(out, "  malformed: {}", dissection.error);
  }
  return text;
}

void append_layer(std::string& text, const Layer& layer) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  {}, {} bytes at {}{}\n", layer.title, layer.size_bytes, layer.offset,
                 layer.is_reassembled ? " of the reassembled FPDU" : "");
  for (const Field& field : layer.fields) {
    std::string label(field.name);
    for (char& c : label) {
      c = c == '_' ? ' ' : c;
    }
    fmt::format_to(out, "    {:5}  {:20} {}", field.offset, label, field.text);
    if (!field.meaning.empty()) {
      fmt::format_to(out, " ({})", field.meaning);
    }
    text += '\n';
  }
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr unsigned char delete_character = 0x7F;
  constexpr unsigned char utf8_c1_lead = 0xC2;  // C2 80 .. C2 9F: the C1 control characters
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool is_c1 =
        c == utf8_c1_lead && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c < ' ' || c == delete_character || is_c1) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string format_line(const DumpedPacket& dumped) {
  const Dissection& dissection = dumped.dissection;
  std::string text = fmt::format("{:5}  {:>13}  {:3}  {} > {}  {}", dumped.number,
                                 dumped.relative_time ? seconds(*dumped.relative_time) : "-",
                                 direction_word(dumped.packet.direction), dissection.source,
                                 dissection.destination, transport_columns(dissection));
  for (const std::string_view comment : dumped.packet.comments) {
    text += "  # " + printable(comment);
  }
  text += '\n';
  return text;
}

std::string format_details(const DumpedPacket& dumped) {
  const pcap::Packet& packet = dumped.packet;
  std::string text = format_line(dumped);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  Frame, {} bytes", packet.wire_bytes);
  if (packet.frame.size() != packet.wire_bytes) {
    fmt::format_to(out, ", {} of them captured", packet.frame.size());
  }
  fmt::format_to(out, ", at byte {} of the file", packet.offset);
  if (packet.time) {
    fmt::format_to(out, ", {}", utc(*packet.time));
  }
  if (!packet.interface_name.empty()) {
    fmt::format_to(out, ", interface {}", printable(packet.interface_name));
  }
  text += '\n';
  for (const Layer& layer : dumped.dissection.layers) {
    append_layer(text, layer);
  }
  text += '\n';
  return text;
}

}  // namespace verbena::cli
