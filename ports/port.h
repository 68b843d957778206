// A port: a way for frames to leave and to enter the process. The engine sends through it as
// through any FrameSink and fetches what arrived. Ports stack by decoration: capture and faults are
// ports in front of a port.
//
// All calls are made under the engine's lock.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "proto/packet_sink.h"
#include "proto/verdict.h"

namespace verbena::ports {

enum class FrameWay : std::uint8_t { received, sent };

/// Takes received frames, one call each; its verdict says what became of the frame.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  virtual RxVerdict on_frame(ByteView frame) = 0;
  /// The same for a frame whose ICRC the port has found to be right: saves doing so again. Whoever
  /// may change frames on the way leaves this as it is.
  virtual RxVerdict on_proved_frame(ByteView frame) { return on_frame(frame); }
  /// A frame that the port sent or heard for itself, like a question for an Ethernet address. It is
  /// told for captures, after the fact; nobody else listens.
  virtual void on_aside(ByteView /*frame*/, FrameWay /*way*/) {}
};

// What a port did besides sending and receiving: X(identifier), as with VERBENA_COUNTERS.
#define VERBENA_PORT_STATISTICS(X)                                                                 \
  X(frames_lost)              /* no destination took them: nobody has the QPN, its process died */ \
  X(frames_with_wrong_icrc)   /* taken all the same, as was asked for (icrc_mode.h) */             \
  X(times_blocked)            /* times that a sender waited because a receiver did not drain */    \
  X(wakes)                    /* receivers that had to be woken */                                 \
  X(broken_rings)             /* rings to other processes given up: their bytes made no sense */   \
  X(frames_handed_over)       /* came from the network for another process, which got them */      \
  X(frames_not_handed_over)   /* the same, but lost because that process did not drain */          \
  X(frames_refused)           /* the kernel refused to send them (they count as lost as well) */   \
  X(frames_faulted)           /* a fault rule took them */                                         \
  X(frames_without_neighbour) /* nobody told their Ethernet address (they count as lost as well)   \
                               */                                                                  \
  X(frames_without_link)      /* nobody is at the link's other end (they count as lost as well) */ \
  X(link_answers)             /* ARP, neighbour discovery, echo: answered on a link */             \
  X(link_frames_ignored)      /* came by a link for others, or in a protocol not spoken here */    \
  X(link_frames_refused)      /* came by a link and made no sense */                               \
  X(segments_refused)         /* own TCP: damaged, or of an address that no peer has */            \
  X(segments_of_strangers)    /* own TCP: of no connection here; answered by a reset */            \
  X(connections_ignored)      /* own TCP: whose SYN was too much; the peer asks again */           \
  X(streams_opened)           /* iWARP: connections that were agreed on */                         \
  X(streams_lost)             /* iWARP: those that were reset, by a peer, by us or the network */  \
  X(handshakes_refused)       /* iWARP: those who came with no request that we can agree to */     \
  X(handshakes_timed_out)     /* iWARP: those whose request did not come in time */                \
  X(handshakes_evicted)       /* iWARP: the oldest without a request, when there were too many */

inline constexpr std::array port_statistic_names = {
#define VERBENA_PORT_STATISTIC(name) std::string_view(#name),
    VERBENA_PORT_STATISTICS(VERBENA_PORT_STATISTIC)
#undef VERBENA_PORT_STATISTIC
};

struct PortStatistics {
#define VERBENA_PORT_STATISTIC(name) std::uint64_t name = 0;
  VERBENA_PORT_STATISTICS(VERBENA_PORT_STATISTIC)
#undef VERBENA_PORT_STATISTIC

  using Values = std::array<std::uint64_t, port_statistic_names.size()>;
};

/// In the order of `port_statistic_names`.
[[nodiscard]] constexpr PortStatistics::Values values_of(const PortStatistics& statistics) {
  return {
#define VERBENA_PORT_STATISTIC(name) statistics.name,
      VERBENA_PORT_STATISTICS(VERBENA_PORT_STATISTIC)
#undef VERBENA_PORT_STATISTIC
  };
}

class Port : public FrameSink {
 public:
  /// To be answered by each port: one that stands in front of another asks that one.
  [[nodiscard]] bool is_unread(const FrameRoute& route) override = 0;
  /// Hands at most `frames_max` received frames to `handler`; returns how many.
  virtual std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) = 0;
  /// Makes everything committed so far visible to the receivers and wakes those that sleep. The
  /// engine calls it once per batch.
  virtual void flush() = 0;
  /// Announces that a thread is about to sleep on fd(). False: something has arrived meanwhile, or
  /// room for a sender that was blocked; don't sleep. After true, the thread polls fd() for input,
  /// without the lock.
  virtual bool prepare_sleep() = 0;
  /// Nobody sleeps on fd() for frames any more: either the sleeper woke up, or another thread looks
  /// for frames often enough. Senders then save the cost of waking.
  virtual void finish_sleep() = 0;
  /// Readable when a frame arrived while asleep, or when room came for a sender that was blocked.
  /// May change in prepare_sleep().
  [[nodiscard]] virtual int fd() const = 0;
  /// Makes fd() readable until finish_sleep().
  virtual void wake() = 0;
  /// Tells the port the time of the batch that begins (captures stamp frames with it).
  virtual void begin_batch(Time now) = 0;
  /// Frames to a group, or to QPN 1 of an address, are wanted or not wanted any more.
  virtual void set_membership(const nic::Membership& /*membership*/) {}
  /// When the port has something to do by itself, which it does in any batch from then on.
  [[nodiscard]] virtual Time next_deadline() const { return time_never; }

  // What decorators in front of a capture have to say; only the capture listens.

  /// What was done to the frame that is committed next, or that is just being received.
  virtual void remark(std::string_view /*what*/) {}
  /// A frame that was sent and did not get here.
  virtual void record_lost(ByteView /*frame*/, std::string_view /*what*/) {}

  [[nodiscard]] virtual PortStatistics statistics() const = 0;
  /// In the child of a fork(): closes descriptors, touches nothing that is shared. Nothing may be
  /// called afterwards, not even the destructor: the object is leaked.
  virtual void abandon() = 0;
};

}  // namespace verbena::ports
