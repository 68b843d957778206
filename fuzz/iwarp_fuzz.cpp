// A hostile byte stream for iWARP: a start frame and FPDUs, in pieces that the input chooses. It is
// read or refused, the same in one piece and in many, and what is read is written again. A queue
// pair that has requests of every kind under way hears it, too: it does the same whatever the
// pieces are.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "proto/iwarp/connector.h"
#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/glimpse.h"
#include "proto/iwarp/segment.h"
#include "proto/iwarp/start_frame.h"
#include "proto/iwarp/stream_qp.h"

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

/// Memory of one region under one key, with all rights.
class OneRegion final : public MemoryAccess {
 public:
  static constexpr std::uint32_t key = 0x100;
  static constexpr std::uint64_t base = 0x1000;

  Result<std::byte*, AccessFault> local(PdId /*pd*/, Lkey lkey, Va va, std::uint64_t length,
                                        Access /*needed*/) override {
    return find(to_value(lkey), to_value(va), length);
  }
  Result<std::byte*, AccessFault> remote(const MemoryUser& /*user*/, Rkey rkey, Va va,
                                         std::uint64_t length, Access /*needed*/) override {
    return find(to_value(rkey), to_value(va), length);
  }
  Result<void, AccessFault> check_local(PdId pd, Lkey lkey, Va va, std::uint64_t length,
                                        Access needed) override {
    return without_address(local(pd, lkey, va, length, needed));
  }
  Result<void, AccessFault> check_remote(const MemoryUser& user, Rkey rkey, Va va,
                                         std::uint64_t length, Access needed) override {
    return without_address(remote(user, rkey, va, length, needed));
  }
  Result<void, AccessFault> bind(const MemoryUser&, const WindowBinding&) override {
    return std::unexpected(AccessFault::wrong_window);
  }
  Result<void, AccessFault> invalidate(const MemoryUser&, Rkey rkey) override {
    return to_value(rkey) == key ? Result<void, AccessFault>()
                                 : std::unexpected(AccessFault::unknown_key);
  }
  Result<void, AccessFault> flush(const MemoryUser&, Rkey, Va, const Flush&) override {
    return std::unexpected(AccessFault::not_permitted);
  }

  alignas(8) std::array<std::byte, 4096> bytes{};

 private:
  static Result<void, AccessFault> without_address(const Result<std::byte*, AccessFault>& host) {
    return host ? Result<void, AccessFault>() : std::unexpected(host.error());
  }
  Result<std::byte*, AccessFault> find(std::uint32_t named, std::uint64_t address,
                                       std::uint64_t length) {
    if (named != key) {
      return std::unexpected(AccessFault::unknown_key);
    }
    if (address < base || address - base > bytes.size() ||
        length > bytes.size() - (address - base)) {
      return std::unexpected(AccessFault::out_of_range);
    }
    return bytes.data() + (address - base);
  }
};

/// What a queue pair said and did.
struct Heard final : StreamSink, CompletionSink {
  MutableBytes reserve(std::size_t size) override {
    reserved.assign(size, std::byte{});
    return reserved;
  }
  void commit() override { said.insert(said.end(), reserved.begin(), reserved.end()); }
  void complete(const Completion& completion, bool /*solicited*/) override {
    completed.emplace_back(completion.wr_id, completion.status);
  }

  Bytes reserved;
  Bytes said;
  std::vector<std::pair<std::uint64_t, WcStatus>> completed;
  OneRegion memory;
  Counters counters;
};

/// A READ, two atomics and a WRITE with immediate data, and receives for what comes.
void post_everything(StreamQp& qp, StreamEnv& env) {
  const Sge sges[] = {{.addr = Va{OneRegion::base}, .length = 8, .lkey = Lkey{OneRegion::key}}};
  for (const WrOpcode opcode : {WrOpcode::rdma_read, WrOpcode::atomic_fetch_and_add,
                                WrOpcode::atomic_cmp_and_swp, WrOpcode::rdma_write_with_imm}) {
    VERBENA_CHECK(qp.post_send(env, {.wr_id = static_cast<std::uint64_t>(opcode),
                                     .opcode = opcode,
                                     .signaled = true,
                                     .sges = sges})
                      .has_value());
    VERBENA_CHECK(qp.post_recv(env, {.wr_id = 100, .sges = sges}).has_value());
  }
}

void hear(Heard& heard, FpduFormat format, ByteView stream, std::size_t piece_bytes) {
  StreamQp qp(Qpn{1}, {.send = {.wr_max = 8, .sge_max = 1}, .ird_max = 4, .extensions = true},
              false, RecvSource(8, 1), heard, heard);
  const MpaAgreement agreement{
      .send_format = format, .receive_format = format, .depths = {4, 4}, .rtr = {}};
  qp.activate({.agreement = agreement,
               .is_initiator = true,
               .access = Access::remote_write | Access::remote_read | Access::remote_atomic});
  StreamEnv env{.now = Time{}, .memory = heard.memory, .counters = heard.counters};
  post_everything(qp, env);
  const auto speak = [&] {
    constexpr std::uint32_t unlimited = ~std::uint32_t{0};
    std::uint32_t fpdus_max = unlimited;
    VERBENA_CHECK(qp.poll_transmit(env, heard, fpdus_max) == StreamTransmitted::idle);
  };
  speak();
  while (!stream.empty()) {
    const ByteView piece = stream.first(std::min(piece_bytes, stream.size()));
    stream = stream.subspan(piece.size());
    qp.on_stream(env, piece);
  }
  speak();
  VERBENA_CHECK(qp.state() == StreamState::rts ||
                (qp.state() == StreamState::terminate && qp.wants_close()));
  qp.on_stream_closed(env);
}

void check_queue_pair(FpduFormat format, ByteView stream, std::size_t piece_bytes) {
  Heard whole;
  hear(whole, format, stream, stream.size());
  Heard pieces;
  hear(pieces, format, stream, piece_bytes);
  VERBENA_CHECK(whole.said == pieces.said && whole.completed == pieces.completed &&
                whole.memory.bytes == pieces.memory.bytes);
  // All that it says is framed well.
  VERBENA_CHECK(!read_fpdus(format, whole.said, 0).failed);
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
  check_queue_pair(format, stream, piece_bytes);
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
