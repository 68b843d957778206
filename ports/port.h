// A port: a way for frames to leave and to enter the process. The engine sends through it as
// through any FrameSink and fetches what arrived. Ports stack by decoration: capture and faults are
// ports in front of a port.
//
// All calls are made under the engine's lock, but for wake() and the wait_* of an engine thread as
// told below.
#pragma once

#include "base/bytes.h"
#include "base/time.h"
#include "proto/packet_sink.h"
#include "proto/verdict.h"

namespace verbena::ports {

/// Takes received frames, one call each; its verdict says what became of the frame.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  virtual RxVerdict on_frame(ByteView frame) = 0;
};

class Port : public FrameSink {
 public:
  /// Hands at most `frames_max` received frames to `handler`; returns how many.
  virtual std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) = 0;
  /// Makes everything committed so far visible to the receivers and wakes those that sleep. The
  /// engine calls it once per batch.
  virtual void flush() = 0;
  /// Announces that the caller is about to sleep on fd(). False: something has arrived meanwhile,
  /// don't sleep. After true, the caller polls fd() for input and then calls finish_sleep().
  virtual bool prepare_sleep() = 0;
  virtual void finish_sleep() = 0;
  /// Readable when a frame arrived while asleep, or when room came for a sender that was blocked.
  [[nodiscard]] virtual int fd() const = 0;
  /// Tells the port the time of the batch that begins (captures stamp frames with it).
  virtual void begin_batch(Time now) = 0;
};

}  // namespace verbena::ports
