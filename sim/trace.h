// What happened in a simulated world, in order: one event, one line, with its reason; and a 64-bit
// hash over all of it, by which two runs are compared.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "proto/packet_sink.h"
#include "proto/verdict.h"
#include "sim/frame.h"
#include "sim/packet_summary.h"

namespace verbena::sim {

enum class TraceKind : std::uint8_t {
  sent,       ///< A station gave a frame to its link.
  lost,       ///< A frame ended before its destination; the text says why.
  arrived,    ///< A host took a frame; the text is the NIC's verdict, empty if it accepted.
  posted,     ///< A work request.
  completed,  ///< A completion was taken from a queue.
  state,      ///< A queue pair changed its state.
  event,      ///< An asynchronous event.
  note,       ///< Anything else: a step of a script, a link going down.
};

[[nodiscard]] std::string_view name_of(TraceKind kind) noexcept;

struct TraceEvent {
  Time time;
  TraceKind kind = TraceKind::note;
  StationId station{};
  /// sent, lost and arrived: the frame's id.
  std::uint64_t frame = 0;
  std::string text;
  /// sent only: what the frame says, and why it is sent.
  PacketSummary packet;
  PacketNote note;
  /// arrived only: what the NIC made of it.
  RxVerdict verdict;
};

class Trace {
 public:
  /// Whether events are kept; the hash runs in any case.
  void set_recording(bool on) { recording_ = on; }
  [[nodiscard]] bool is_recording() const { return recording_; }

  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] std::uint64_t count(TraceKind kind) const {
    return counts_[static_cast<std::size_t>(kind)];
  }

  void sent(Time now, const Frame& frame);
  void lost(Time now, StationId at, const Frame& frame, std::string_view why);
  void arrived(Time now, StationId at, const Frame& frame, const RxVerdict& verdict);
  void add(Time now, TraceKind kind, StationId at, std::string_view text);

 private:
  void mix(std::uint64_t value);
  void mix_event(Time now, TraceKind kind, StationId at, std::uint64_t frame,
                 std::string_view text);

  bool recording_ = false;
  std::vector<TraceEvent> events_;
  std::uint64_t counts_[8] = {};
  std::uint64_t hash_ = 0xCBF2'9CE4'8422'2325;
};

}  // namespace verbena::sim
