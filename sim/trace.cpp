#include "sim/trace.h"

#include <bit>

#include "base/crc.h"

namespace verbena::sim {

std::string_view name_of(TraceKind kind) noexcept {
  switch (kind) {
    case TraceKind::sent:
      return "sent";
    case TraceKind::lost:
      return "lost";
    case TraceKind::arrived:
      return "arrived";
    case TraceKind::posted:
      return "posted";
    case TraceKind::completed:
      return "completed";
    case TraceKind::state:
      return "state";
    case TraceKind::event:
      return "event";
    case TraceKind::note:
      return "note";
  }
  return "unknown";
}

void Trace::mix(std::uint64_t value) {
  // FNV-1a's prime on whole words, with a rotation that brings the upper bits down again.
  hash_ = std::rotl((hash_ ^ value) * 0x0000'0100'0000'01B3, 29);
}

void Trace::mix_event(Time now, TraceKind kind, StationId at, std::uint64_t frame,
                      std::string_view text) {
  ++counts_[static_cast<std::size_t>(kind)];
  mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  mix(static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint64_t>(at));
  mix(frame);
  mix(crc32(0, std::as_bytes(std::span(text.data(), text.size()))));
}

void Trace::sent(Time now, const Frame& frame) {
  mix_event(now, TraceKind::sent, frame.origin, frame.id, {});
  // Not CRC-32: a frame ends with its own, so that whole frames that differ only in what the ICRC
  // covers would have the same one.
  mix(crc32c(0, frame.bytes));
  if (recording_) {
    events_.push_back({.time = now,
                       .kind = TraceKind::sent,
                       .station = frame.origin,
                       .frame = frame.id,
                       .text = {},
                       .packet = summarize(frame.bytes),
                       .note = frame.note,
                       .verdict = {}});
  }
}

void Trace::lost(Time now, StationId at, const Frame& frame, std::string_view why) {
  mix_event(now, TraceKind::lost, at, frame.id, why);
  if (recording_) {
    events_.push_back({.time = now,
                       .kind = TraceKind::lost,
                       .station = at,
                       .frame = frame.id,
                       .text = std::string(why),
                       .packet = {},
                       .note = {},
                       .verdict = {}});
  }
}

void Trace::arrived(Time now, StationId at, const Frame& frame, const RxVerdict& verdict) {
  const std::string text = verbena::describe(verdict);
  mix_event(now, TraceKind::arrived, at, frame.id, text);
  if (recording_) {
    events_.push_back({.time = now,
                       .kind = TraceKind::arrived,
                       .station = at,
                       .frame = frame.id,
                       .text = text,
                       .packet = {},
                       .note = {},
                       .verdict = verdict});
  }
}

void Trace::add(Time now, TraceKind kind, StationId at, std::string_view text) {
  mix_event(now, kind, at, 0, text);
  if (recording_) {
    events_.push_back({.time = now,
                       .kind = kind,
                       .station = at,
                       .frame = 0,
                       .text = std::string(text),
                       .packet = {},
                       .note = {},
                       .verdict = {}});
  }
}

}  // namespace verbena::sim
