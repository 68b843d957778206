#include "proto/iwarp/glimpse.h"

#include <algorithm>
#include <boost/endian/buffers.hpp>

#include "base/crc.h"
#include "proto/iwarp/mpa.h"
#include "proto/iwarp/segment.h"

namespace verbena::iwarp {

namespace {

std::optional<std::size_t> position_of(RdmapOpcode opcode, bool is_last) {
  const auto* const row = std::ranges::find_if(segment_names, [&](const SegmentName& candidate) {
    return candidate.opcode == opcode && candidate.is_last == is_last;
  });
  if (row == segment_names.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(row - segment_names.begin());
}

FpduGlimpse glimpse_of(const SegmentView& segment) {
  FpduGlimpse glimpse;
  glimpse.opcode = segment.opcode();
  glimpse.is_last = segment.is_last();
  glimpse.is_tagged = segment.info().is_tagged();
  glimpse.name = position_of(glimpse.opcode, glimpse.is_last);
  glimpse.payload_bytes = static_cast<std::uint32_t>(segment.payload().size());
  if (glimpse.is_tagged) {
    const auto header = segment.tagged();
    glimpse.stag = header.stag.value();
    glimpse.offset = header.offset.value();
    if (glimpse.opcode == RdmapOpcode::write && glimpse.is_last && glimpse.stag == 0 &&
        glimpse.payload_bytes == 0) {
      glimpse.name = segment_name_rtr;
    }
  } else {
    const auto header = segment.untagged();
    glimpse.msn = header.msn.value();
    glimpse.message_offset = header.message_offset.value();
  }
  if (glimpse.opcode == RdmapOpcode::read_request) {
    const auto request = segment.rdmap<ReadRequestHeader>();
    glimpse.stag = request.sink_stag.value();
    glimpse.offset = request.sink_offset.value();
    glimpse.source_stag = request.source_stag.value();
    glimpse.source_offset = request.source_offset.value();
    glimpse.read_bytes = request.size_bytes.value();
  } else if (glimpse.opcode == RdmapOpcode::atomic_request) {
    const auto request = segment.rdmap<AtomicRequestHeader>();
    glimpse.source_stag = request.remote_stag.value();
    glimpse.source_offset = request.remote_offset.value();
    glimpse.read_bytes = atomic_bytes;
  } else if ((glimpse.opcode == RdmapOpcode::immediate ||
              glimpse.opcode == RdmapOpcode::immediate_solicited) &&
             glimpse.payload_bytes == immediate_data_bytes) {
    glimpse.immediate = read_struct<ImmediateData>(segment.payload()).value.value();
  } else if (glimpse.opcode == RdmapOpcode::terminate) {
    glimpse.terminate = segment.rdmap<TerminateHeader>().to_code();
  }
  return glimpse;
}

}  // namespace

std::optional<FpduGlimpse> glimpse_fpdu(ByteView& stream) {
  if (stream.size() < fpdu_bytes(0)) {
    return std::nullopt;
  }
  const std::size_t ulpdu_bytes = read_struct<boost::endian::big_uint16_buf_t>(stream).value();
  const std::size_t bytes = fpdu_bytes(ulpdu_bytes);
  if (bytes > stream.size()) {
    return std::nullopt;
  }
  const std::size_t crc_at = bytes - mpa_crc_bytes;
  const auto crc = read_struct<boost::endian::little_uint32_buf_t>(stream.subspan(crc_at));
  if (crc.value() != crc32c(0, stream.first(crc_at))) {
    return std::nullopt;
  }
  FpduGlimpse glimpse;
  if (ulpdu_bytes > 0) {
    const auto segment = SegmentView::parse(stream.subspan(ulpdu_length_bytes, ulpdu_bytes));
    if (!segment) {
      return std::nullopt;
    }
    glimpse = glimpse_of(*segment);
  }
  stream = stream.subspan(bytes);
  return glimpse;
}

std::optional<StartKind> glimpse_start(ByteView stream) {
  for (const StartKind kind : {StartKind::request, StartKind::reply}) {
    StartFrameReader reader(kind);
    ByteView rest = stream;
    const auto frame = reader.take(rest);
    if (frame && *frame) {
      return kind;
    }
  }
  return std::nullopt;
}

}  // namespace verbena::iwarp
