#include "cli/dissect_rdmap.h"

#include <fmt/format.h>

#include "cli/layer_builder.h"
#include "proto/iwarp/segment.h"

namespace verbena::cli {
namespace {

using iwarp::RdmapOpcode;
using iwarp::SegmentView;

/// Makes the layers of one segment, one behind the other.
class SegmentLayers {
 public:
  SegmentLayers(const SegmentView& segment, const FpduPlace& place, Dissection& out)
      : segment_(segment), place_(place), out_(out) {}

  SegmentWords add() {
    SegmentWords words{.title = fmt::format("iWARP {}", segment_.info().name), .summary = {}};
    words.summary = segment_.info().is_tagged() ? add_tagged() : add_untagged();
    words.summary += add_rdmap();
    if (!segment_.is_last()) {
      words.summary += ", more follow";
    }
    return words;
  }

 private:
  LayerBuilder layer(std::string_view name, std::string_view title, std::size_t at,
                     std::size_t size_bytes) {
    LayerBuilder builder(out_, std::string(name) + place_.suffix, title, place_.ulpdu_offset + at,
                         size_bytes);
    builder.set_reassembled(place_.is_reassembled);
    return builder;
  }

  void add_ddp_control(LayerBuilder& fields, const iwarp::SegmentControl& control) const {
    fields.flag("tagged", 0, control.is_tagged());
    fields.flag("last", 0, control.is_last());
    fields.number("version", 0, 1, control.ddp_version_value());
  }

  std::string add_tagged() {
    const auto header = segment_.tagged();
    auto fields = layer("ddp", "DDP", 0, iwarp::tagged_header_bytes);
    add_ddp_control(fields, header.control);
    fields.hex("stag", 2, 4, header.stag.value());
    fields.hex("tagged_offset", 6, 8, header.offset.value());
    return fmt::format("STag {:#010x}, offset {:#x}, {} bytes", header.stag.value(),
                       header.offset.value(), segment_.payload().size());
  }

  std::string add_untagged() {
    const auto header = segment_.untagged();
    auto fields = layer("ddp", "DDP", 0, iwarp::untagged_header_bytes);
    add_ddp_control(fields, header.control);
    fields.number("queue", 6, 4, header.queue.value());
    fields.number("msn", 10, 4, header.msn.value());
    fields.number("message_offset", 14, 4, header.message_offset.value());
    std::string words = fmt::format("MSN {}", header.msn.value());
    if (header.message_offset.value() != 0) {
      words += fmt::format(", offset {}", header.message_offset.value());
    }
    if (segment_.info().takes_receive()) {
      words += fmt::format(", {} bytes", segment_.payload().size());
    }
    return words;
  }

  std::string add_rdmap() {
    const iwarp::RdmapInfo& info = segment_.info();
    const auto control = read_struct<iwarp::SegmentControl>(segment_.ulpdu());
    std::string words;
    {
      // Its control byte stands in front of DDP's fields, its own header behind them.
      auto fields = layer("rdmap", "RDMAP", 1, info.invalidates ? 5 : 1);
      fields.number("version", 0, 1, control.rdmap_version_value());
      fields.number("opcode", 0, 1, control.opcode_value(), info.name);
      if (info.invalidates) {
        const std::uint32_t stag = segment_.untagged().invalidate_stag.value();
        fields.hex("invalidate_stag", 1, 4, stag);
        words = fmt::format(", invalidates STag {:#010x}", stag);
      }
    }
    switch (info.opcode) {
      case RdmapOpcode::read_request:
        return words + add_read_request();
      case RdmapOpcode::terminate:
        return words + add_terminate();
      case RdmapOpcode::atomic_request:
        return words + add_atomic_request();
      case RdmapOpcode::atomic_response:
        return words + add_atomic_response();
      case RdmapOpcode::immediate:
      case RdmapOpcode::immediate_solicited:
        return words + add_immediate();
      default:
        add_payload();
        return words;
    }
  }

  std::string add_read_request() {
    const auto header = segment_.rdmap<iwarp::ReadRequestHeader>();
    auto fields =
        layer("read_request", "Read Request", iwarp::untagged_header_bytes, sizeof header);
    fields.hex("sink_stag", 0, 4, header.sink_stag.value());
    fields.hex("sink_offset", 4, 8, header.sink_offset.value());
    fields.number("read_size", 12, 4, header.size_bytes.value());
    fields.hex("source_stag", 16, 4, header.source_stag.value());
    fields.hex("source_offset", 20, 8, header.source_offset.value());
    return fmt::format(", {} bytes from STag {:#010x}, offset {:#x} to STag {:#010x}, offset {:#x}",
                       header.size_bytes.value(), header.source_stag.value(),
                       header.source_offset.value(), header.sink_stag.value(),
                       header.sink_offset.value());
  }

  std::string add_terminate() {
    const auto header = segment_.rdmap<iwarp::TerminateHeader>();
    const iwarp::TerminateCode code = header.to_code();
    const auto layer_number = static_cast<std::uint8_t>(code.layer);
    const auto reason = iwarp::find_reason(code);
    const std::string_view name = reason ? iwarp::name_of(*reason) : "not in the registry";
    const std::string_view layer_words = iwarp::layer_name(layer_number);
    auto fields = layer("terminate", "Terminate", iwarp::untagged_header_bytes,
                        sizeof header + segment_.payload().size());
    fields.number("layer", 0, 1, layer_number, layer_words);
    fields.number("error_type", 0, 1, code.type);
    fields.hex("error_code", 1, 1, code.code, name);
    fields.flag("has_length", 2, (header.flags & iwarp::TerminateHeader::flag_length) != 0);
    fields.flag("has_ddp_header", 2, (header.flags & iwarp::TerminateHeader::flag_ddp) != 0);
    fields.flag("has_rdmap_header", 2, (header.flags & iwarp::TerminateHeader::flag_rdmap) != 0);
    if (!segment_.payload().empty()) {
      fields.text("about", sizeof header, segment_.payload().size(), hex_bytes(segment_.payload()));
    }
    return fmt::format(", {}: {}", layer_words.empty() ? "unknown layer" : layer_words, name);
  }

  std::string add_atomic_request() {
    const auto header = segment_.rdmap<iwarp::AtomicRequestHeader>();
    const auto operation = header.operation.value() & iwarp::atomic_opcode_mask;
    const bool is_add = operation == static_cast<std::uint32_t>(iwarp::AtomicOpcode::fetch_add);
    const bool is_swap = operation == static_cast<std::uint32_t>(iwarp::AtomicOpcode::compare_swap);
    const std::string_view name = is_add ? "FetchAdd" : is_swap ? "CmpSwap" : "unknown";
    auto fields =
        layer("atomic_request", "Atomic Request", iwarp::untagged_header_bytes, sizeof header);
    fields.number("operation", 3, 1, operation, name);
    fields.number("request_identifier", 4, 4, header.request_identifier.value());
    fields.hex("stag", 8, 4, header.remote_stag.value());
    fields.hex("tagged_offset", 12, 8, header.remote_offset.value());
    fields.hex("add_or_swap_data", 20, 8, header.add_or_swap_data.value());
    fields.hex("add_or_swap_mask", 28, 8, header.add_or_swap_mask.value());
    fields.hex("compare_data", 36, 8, header.compare_data.value());
    fields.hex("compare_mask", 44, 8, header.compare_mask.value());
    return fmt::format(", {} at STag {:#010x}, offset {:#x}", name, header.remote_stag.value(),
                       header.remote_offset.value());
  }

  std::string add_atomic_response() {
    const auto header = segment_.rdmap<iwarp::AtomicResponseHeader>();
    auto fields =
        layer("atomic_response", "Atomic Response", iwarp::untagged_header_bytes, sizeof header);
    fields.number("request_identifier", 0, 4, header.request_identifier.value());
    fields.hex("original", 4, 8, header.original.value());
    return fmt::format(", original {:#x}", header.original.value());
  }

  std::string add_immediate() {
    if (segment_.payload().size() != iwarp::immediate_data_bytes) {
      add_payload();
      return {};
    }
    const auto data = read_struct<iwarp::ImmediateData>(segment_.payload());
    auto fields = layer("immediate", "Immediate Data", iwarp::untagged_header_bytes, sizeof data);
    fields.hex("data", 0, 4, data.value.value());
    fields.hex("unused", 4, 4, data.unused.value());
    return fmt::format(", immediate {:#010x}", data.value.value());
  }

  void add_payload() {
    const ByteView payload = segment_.payload();
    if (payload.empty()) {
      return;
    }
    auto fields = layer("payload", "Payload", segment_.info().header_bytes(), payload.size());
    fields.number("length", 0, payload.size(), payload.size());
    fields.text("data", 0, payload.size(), hex_bytes(payload));
  }

  const SegmentView& segment_;
  const FpduPlace& place_;
  Dissection& out_;
};

}  // namespace

SegmentWords dissect_segment(ByteView ulpdu, const FpduPlace& place, Dissection& out) {
  if (ulpdu.empty()) {
    // RFC 6581, 4: one of the ways to tell "ready to receive".
    return {.title = "iWARP FPDU", .summary = "empty"};
  }
  const auto segment = SegmentView::parse(ulpdu);
  if (!segment) {
    out.error = fmt::format("DDP segment: {}", iwarp::name_of(segment.error()));
    return {.title = "iWARP", .summary = {}};
  }
  return SegmentLayers(*segment, place, out).add();
}

}  // namespace verbena::cli
