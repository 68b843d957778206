// What the senders of a stream queue pair share: room for one FPDU, and the header of an untagged
// segment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/segment.h"
#include "proto/iwarp/stream_sink.h"

namespace verbena::iwarp {

/// Builds one FPDU in the room that a sink gives.
class FpduBuilder {
 public:
  FpduBuilder(FpduWriter& writer, StreamSink& sink, std::size_t ulpdu_bytes)
      : writer_(writer), sink_(sink), ulpdu_bytes_(ulpdu_bytes) {
    fpdu_ = sink.reserve(writer.size_of(ulpdu_bytes));
  }
  [[nodiscard]] bool has_room() const { return !fpdu_.empty(); }
  [[nodiscard]] MutableBytes ulpdu() const { return writer_.ulpdu_room(fpdu_, ulpdu_bytes_); }
  void commit() {
    writer_.finish(fpdu_, ulpdu_bytes_);
    sink_.commit();
  }

 private:
  FpduWriter& writer_;
  StreamSink& sink_;
  std::size_t ulpdu_bytes_;
  MutableBytes fpdu_;
};

/// The DDP header of an untagged segment; it invalidates nothing.
[[nodiscard]] inline UntaggedHeader untagged_header(RdmapOpcode opcode, bool is_last,
                                                    std::uint32_t msn,
                                                    std::uint32_t message_offset) {
  UntaggedHeader header;
  header.control = make_control(opcode, is_last);
  header.queue = static_cast<std::uint32_t>(rdmap_info(opcode).queue);
  header.msn = msn;
  header.message_offset = message_offset;
  return header;
}

}  // namespace verbena::iwarp
