// A hostile byte stream for iWARP: a start frame and FPDUs, in pieces that the input chooses. It is
// read or refused, the same in one piece and in many, and what is read is written again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "proto/iwarp/connector.h"
#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/glimpse.h"
#include "proto/iwarp/segment.h"
#include "proto/iwarp/start_frame.h"

namespace verbena::iwarp {
namespace {

using Bytes = std::vector<std::byte>;

struct Read {
  std::vector<Bytes> ulpdus;
  bool failed = false;
  friend bool operator==(const Read&, const Read&) = default;
};

void check_start_frame(StartKind kind, ByteView stream) {
  StartFrameReader reader(kind);
  const auto frame = reader.take(stream);
  if (!frame) {
    VERBENA_CHECK(!describe(frame.error()).empty());
    return;
  }
  if (*frame) {
    const auto size = start_frame_bytes(**frame);
    VERBENA_CHECK(size && *size == reader.bytes().size());
    Bytes again(*size);
    emit_start_frame(again, **frame);
    StartFrameReader second(kind);
    ByteView view = again;
    const auto read_again = second.take(view);
    VERBENA_CHECK(read_again && *read_again && (*read_again)->enhanced == (*frame)->enhanced);
  }
}

/// `piece_bytes` 0: all at once.
Read read_fpdus(FpduFormat format, ByteView stream, std::size_t piece_bytes) {
  FpduReceiver receiver(format);
  Read read;
  while (!stream.empty()) {
    ByteView piece =
        stream.first(piece_bytes == 0 ? stream.size() : std::min(piece_bytes, stream.size()));
    stream = stream.subspan(piece.size());
    for (;;) {
      const auto fpdu = receiver.next(piece);
      if (!fpdu) {
        read.failed = true;
        return read;
      }
      if (!*fpdu) {
        break;
      }
      read.ulpdus.emplace_back((*fpdu)->ulpdu.begin(), (*fpdu)->ulpdu.end());
    }
  }
  return read;
}

void check_segment(ByteView ulpdu) {
  const auto segment = SegmentView::parse(ulpdu);
  if (segment) {
    VERBENA_CHECK(segment->payload().size() + segment->info().header_bytes() == ulpdu.size());
    return;
  }
  Bytes terminate(terminate_ulpdu_bytes_max);
  terminate.resize(emit_terminate(terminate, segment.error(), ulpdu));
  VERBENA_CHECK(SegmentView::parse(terminate)->opcode() == RdmapOpcode::terminate);
}

/// Who watches a stream, and who answers its beginning, take any bytes.
void check_watchers(StartKind kind, ByteView stream) {
  ByteView rest = stream;
  while (glimpse_fpdu(rest)) {
    VERBENA_CHECK(rest.size() < stream.size());
  }
  const auto seen = glimpse_start(stream);
  const bool initiates = kind == StartKind::reply;
  MpaConnector connector = initiates ? MpaConnector::initiator({}) : MpaConnector::responder({});
  if (initiates) {
    connector.connect({.ird = 4, .ord = 4}, {});
    connector.note_written(connector.output().size());
  }
  rest = stream;
  connector.on_stream(rest);
  if (connector.state() == MpaConnector::State::asked) {
    VERBENA_CHECK(seen == StartKind::request);
    connector.accept({.ird = 4, .ord = 4}, {});
    VERBENA_CHECK(!connector.output().empty());
  }
}

void check_stream(ByteView input) {
  if (input.size() < 2) {
    return;
  }
  const auto choice = std::to_integer<unsigned>(input[0]);
  const FpduFormat format{.markers = (choice & 1) != 0, .crc = (choice & 2) != 0};
  const auto piece_bytes = std::to_integer<std::size_t>(input[1]) + 1;
  const ByteView stream = input.subspan(2);
  const StartKind kind = (choice & 4) != 0 ? StartKind::request : StartKind::reply;
  check_start_frame(kind, stream);
  check_watchers(kind, stream);
  const Read whole = read_fpdus(format, stream, 0);
  VERBENA_CHECK(whole == read_fpdus(format, stream, piece_bytes));

  FpduWriter writer(format);
  Bytes again;
  for (const Bytes& ulpdu : whole.ulpdus) {
    check_segment(ulpdu);
    if (ulpdu.size() > ulpdu_bytes_max) {
      return;
    }
    Bytes fpdu(writer.size_of(ulpdu.size()));
    copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
    writer.finish(fpdu, ulpdu.size());
    again.insert(again.end(), fpdu.begin(), fpdu.end());
  }
  VERBENA_CHECK(read_fpdus(format, again, piece_bytes).ulpdus == whole.ulpdus);
}

}  // namespace
}  // namespace verbena::iwarp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbena::iwarp::check_stream(std::as_bytes(std::span(data, size)));
  return 0;
}
