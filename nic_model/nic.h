// The NIC: the device that the real-time engine and the simulator drive alike.
//
// One Nic is single-threaded state: the caller serialises all calls (only Cq::poll() may run beside
// them). It never reads a clock, never blocks, never throws. Its methods are of four kinds:
//
//   commands       create_*, modify_*, destroy_*, post_*, req_notify_cq
//   events in      on_frame(now, frame), on_timer(now)
//   effects out    poll_transmit(now, sink), poll_event(), poll_cq_notification(),
//                  poll_membership(); completions in CQs
//   next deadline  next_timeout()
//
// After any command or event, call poll_transmit() until it returns idle (or blocked), then
// the other polls until they are empty, then sleep until next_timeout().
// `now` must never go backwards.
//
// Objects belong to the Nic and live until their destroy call; the references that creation returns
// stay valid until then. Objects carry a `cookie` of their creator, never read here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "nic_model/cq.h"
#include "nic_model/device_profile.h"
#include "nic_model/types.h"
#include "proto/counters.h"
#include "proto/packet_sink.h"
#include "proto/verdict.h"
#include "proto/work.h"

namespace verbena::nic {

class Ah;
class Qp;

/// A protection domain: a number and the count of objects in it.
struct Pd {
  PdId id{};
  std::uint32_t users = 0;
};

/// A registered memory region.
struct Mr {
  std::byte* host = nullptr;
  std::uint64_t length = 0;
  /// The address by which SGEs and peers name the first byte.
  Va iova{};
  Access access = Access::none;
  Lkey lkey{};
  Rkey rkey{};
  Pd* pd = nullptr;
};

struct QpInitAttr {
  QpType type = QpType::rc;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  QpCaps caps{};
  bool signal_all = false;
  std::uintptr_t cookie = 0;
};

/// An affiliated or unaffiliated asynchronous event; at most one of qp and cq is set.
struct AsyncEvent {
  AsyncEventType type = AsyncEventType::device_fatal;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  std::uint8_t port = 1;
};

/// A queue pair came into another state.
struct QpChange {
  enum class Cause : std::uint8_t {
    /// The program wanted it.
    command,
    /// A completion with the error `status`.
    completion_error,
    /// The peer's request was invalid, or had no right to the memory it named.
    invalid_request,
    access_violation,
    /// Completions were lost: the CQ was full.
    cq_overflow,
  };

  /// The state it comes from; state_of() tells the new one.
  QpState from = QpState::reset;
  Cause cause = Cause::command;
  WcStatus status = WcStatus::success;
};

/// Hears of changes, for logs: during the call that makes them. May call getters only.
class NicObserver {
 public:
  virtual ~NicObserver() = default;
  virtual void on_qp_change(const Qp& qp, const QpChange& change) = 0;
};

/// Frames that no queue pair number of ours names came to be of interest, or ceased to be: those to
/// a multicast group, or those to QPN 1 of one of our own addresses. A port that chooses what it
/// lets through has to let these through.
struct Membership {
  Gid gid;
  bool joined = false;
};

enum class TransmitStatus : std::uint8_t {
  /// Nothing left to send now.
  idle,
  /// The budget is used up; there is more.
  more,
  /// There is more, but the sink had no room: call again when it has.
  blocked,
};

/// Which half of a connection sends first in a turn.
enum class TransmitOrder : std::uint8_t {
  /// Peers wait for answers.
  answers_first,
  /// For answers that were held back to travel with a request: a peer that polls for the answer has
  /// received the request by then. And behind longer datagrams a shorter one leaves in the same
  /// batch (ports/udp_batch.h).
  requests_first,
};

class Nic {
 public:
  /// `seed` feeds what must be unpredictable to peers but reproducible in a test: the key tags.
  Nic(const DeviceProfile& profile, NicConfig config, std::uint64_t seed);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  // Getters.
  [[nodiscard]] const DeviceProfile& profile() const;
  [[nodiscard]] const NicConfig& config() const;
  [[nodiscard]] const Counters& counters() const;
  /// Objects alive, for leak checks and reports.
  struct ObjectCounts {
    std::uint32_t pds = 0, mrs = 0, cqs = 0, qps = 0, ahs = 0;
  };
  [[nodiscard]] ObjectCounts object_counts() const;
  /// The first queue pairs, as many as `room` holds; returns how many it wrote.
  std::size_t list_qps(std::span<const Qp*> room) const;
  /// `observer` must outlive the Nic; nullptr: nobody.
  void set_observer(NicObserver* observer);

  // Commands: resources. Destroying what others use is refused with `busy`.
  [[nodiscard]] Result<Pd*, NicError> alloc_pd();
  [[nodiscard]] Result<void, NicError> dealloc_pd(Pd& pd);
  /// Registers [host, host + length), named `iova` by keys. remote_write and remote_atomic need
  /// local_write (IBTA vol 1, 10.6.3.1). The memory must stay mapped until deregistration.
  [[nodiscard]] Result<Mr*, NicError> reg_mr(Pd& pd, std::byte* host, std::uint64_t length, Va iova,
                                             Access access);
  [[nodiscard]] Result<void, NicError> dereg_mr(Mr& mr);
  [[nodiscard]] Result<Cq*, NicError> create_cq(std::uint32_t cqe, std::uintptr_t cookie);
  [[nodiscard]] Result<void, NicError> destroy_cq(Cq& cq);
  /// Asks for one notification at the next (solicited) completion; those in the ring don't count.
  void req_notify_cq(Cq& cq, bool solicited_only);

  // Commands: queue pairs.
  /// QPNs [first, first + count) may be given to QPs created from now on.
  void add_qpn_block(Qpn first, std::uint32_t count);
  /// Caps may come out larger than asked for; qp_caps() tells. The one queue pair of type gsi gets
  /// QPN 1; where several Nics share an address, each that has one is given a copy of every frame
  /// to it, so its consumer ignores what is not its own.
  [[nodiscard]] Result<Qp*, NicError> create_qp(Pd& pd, const QpInitAttr& attr);
  /// `mask` is of qp_attr_mask: checked against the table of required and optional attributes.
  /// To RESET takes completions away that nobody has polled, as destroy_qp() does.
  [[nodiscard]] Result<void, NicError> modify_qp(Time now, Qp& qp, const QpAttr& attr,
                                                 std::uint32_t mask);
  [[nodiscard]] QpAttr query_qp(const Qp& qp) const;
  /// What the QP completed and nobody has polled goes with it: a number that is given again must
  /// not find the completions of its former life. So nobody may be polling its CQs meanwhile.
  [[nodiscard]] Result<void, NicError> destroy_qp(Qp& qp);
  [[nodiscard]] Qp* find_qp(Qpn qpn) const;

  [[nodiscard]] Result<void, PostError> post_send(Time now, Qp& qp, const SendWr& wr);
  [[nodiscard]] Result<void, PostError> post_recv(Time now, Qp& qp, const RecvWr& wr);

  // Commands: datagrams.
  [[nodiscard]] Result<Ah*, NicError> create_ah(Pd& pd, const AddressVector& av);
  /// Requests that were posted with it may still wait: they are sent all the same.
  void destroy_ah(Ah& ah);
  /// Datagrams to the group come to `qp`, which must be UD. A queue pair that is attached can't be
  /// destroyed.
  [[nodiscard]] Result<void, NicError> attach_multicast(Qp& qp, const Gid& group);
  [[nodiscard]] Result<void, NicError> detach_multicast(Qp& qp, const Gid& group);
  /// From all its groups.
  void detach_multicast(Qp& qp);

  // Events in.
  /// A whole Ethernet frame without FCS. Its bytes are read during the call only. Some ports have
  /// to compute the ICRC themselves (proto/roce/icrc_solve.h); it is checked here unless
  /// `icrc_is_proved`.
  RxVerdict on_frame(Time now, ByteView frame, bool icrc_is_proved = false);
  void on_timer(Time now);

  // Effects out.
  /// Sends what is due, round robin over QPs, at most `frames_max` frames.
  TransmitStatus poll_transmit(Time now, FrameSink& sink, std::uint32_t frames_max = 64,
                               TransmitOrder order = TransmitOrder::answers_first);
  [[nodiscard]] std::optional<AsyncEvent> poll_event();
  /// The next CQ whose armed notification fired.
  [[nodiscard]] Cq* poll_cq_notification();
  [[nodiscard]] std::optional<Membership> poll_membership();

  /// When on_timer() wants to be called; time_never if nothing waits.
  [[nodiscard]] Time next_timeout() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What is public about an address handle.
/// What a SendWr takes.
[[nodiscard]] const AddressHandle& handle_of(const Ah& ah);

// What is public about a queue pair.
[[nodiscard]] Qpn qpn_of(const Qp& qp);
[[nodiscard]] QpState state_of(const Qp& qp);
[[nodiscard]] QpType type_of(const Qp& qp);
[[nodiscard]] const QpCaps& qp_caps(const Qp& qp);
[[nodiscard]] std::uintptr_t cookie_of(const Qp& qp);
[[nodiscard]] const Counters& counters_of(const Qp& qp);
/// How many send requests can still be posted.
[[nodiscard]] std::size_t send_room(const Qp& qp);

}  // namespace verbena::nic
