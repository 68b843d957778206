// The NIC: the device that the real-time engine and the simulator drive alike.
//
// One Nic is single-threaded state: the caller serialises all calls (only Cq::poll() may run beside
// them). It never reads a clock, never blocks, never throws. Its methods are of four kinds:
//
//   commands       create_*, modify_*, destroy_*, post_*, req_notify_cq
//   events in      on_frame(now, frame), on_timer(now); of an iWARP device on_stream(now, qp,
//   bytes) effects out    poll_transmit(now, sink), poll_event(), poll_cq_notification(),
//                  poll_membership(); completions in CQs; of an iWARP device poll_streams(now,
//                  port)
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
#include "nic_model/pacer.h"
#include "nic_model/types.h"
#include "proto/counters.h"
#include "proto/iwarp/negotiation.h"
#include "proto/iwarp/stream_sink.h"
#include "proto/packet_sink.h"
#include "proto/verdict.h"
#include "proto/work.h"

namespace verbena::nic {

class Ah;
class Qp;
struct Srq;
struct Xrcd;

/// A protection domain: a number and the count of objects in it.
struct Pd {
  PdId id{};
  std::uint32_t users = 0;
};

/// Memory of the device itself: a program copies to and from it, and registers it like its own.
struct DeviceMemory {
  /// Its number in this Nic.
  std::uint32_t id = 0;
  /// Begins at a page.
  struct Free {
    void operator()(std::byte* pages) const;
  };
  std::unique_ptr<std::byte[], Free> bytes;
  std::uint64_t length = 0;
  /// Regions of it.
  std::uint32_t users = 0;
};

/// Zeroed memory of `length` bytes that belongs to no Nic yet.
[[nodiscard]] std::unique_ptr<DeviceMemory> make_device_memory(std::uint64_t length);

/// A registered memory region.
struct Mr {
  std::byte* host = nullptr;
  std::uint64_t length = 0;
  /// The address by which SGEs and peers name the first byte.
  Va iova{};
  Access access = Access::none;
  Lkey lkey{};
  /// A null region has none that opens anything.
  Rkey rkey{};
  Pd* pd = nullptr;
  /// Reads as zeros, swallows what is written to it.
  bool is_null = false;
  /// The device memory that it is a part of, if it is.
  DeviceMemory* device_memory = nullptr;
  /// Windows bound to it.
  std::uint32_t windows = 0;
};

/// What rereg_mr() changes of a region; what is absent stays.
struct MrChange {
  struct Translation {
    std::byte* host = nullptr;
    std::uint64_t length = 0;
    Va iova{};
  };
  std::optional<Translation> translation{};
  Pd* pd = nullptr;
  std::optional<Access> access{};
};

/// Who may bind a window and reach through it (IBTA vol 1, 10.6.7.2). Values of ibv_mw_type.
enum class MwType : std::uint8_t {
  /// Bound by a verb, and open to every queue pair of its protection domain.
  type_1 = 1,
  /// Bound by a work request, to the queue pair that executes it (type 2B: and its domain).
  type_2 = 2,
};

/// A memory window.
struct Mw {
  MwType type = MwType::type_1;
  /// The key that it has, or had last.
  Rkey rkey{};
  Pd* pd = nullptr;
  /// The region that it is bound to, if it is.
  Mr* region = nullptr;
};

struct SrqInitAttr {
  std::uint32_t wr_max = 1;
  std::uint32_t sge_max = 1;
  /// As modify_srq().
  std::uint32_t limit = 0;
  /// Of a queue for XRC targets: its domain, and where its requests complete. Both or none.
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  std::uintptr_t cookie = 0;
};

/// What a shared receive queue says of itself.
struct SrqAttr {
  std::uint32_t wr_max = 0;
  std::uint32_t sge_max = 0;
  /// 0 when it has been reached.
  std::uint32_t limit = 0;
};

struct QpInitAttr {
  QpType type = QpType::rc;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  /// Where receive requests come from; null: from a queue of its own.
  Srq* srq = nullptr;
  /// Of an XRC target, which has no CQ of its own.
  Xrcd* xrcd = nullptr;
  QpCaps caps{};
  bool signal_all = false;
  std::uintptr_t cookie = 0;
};

/// An affiliated or unaffiliated asynchronous event; at most one of qp, cq and srq is set.
struct AsyncEvent {
  AsyncEventType type = AsyncEventType::device_fatal;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
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
    /// Of a stream: the connection broke, or the peer ended it with an error.
    connection_lost,
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

/// The connection of an iWARP queue pair, as two peers have agreed on it (proto/iwarp/connector.h).
struct StreamAttr {
  iwarp::MpaAgreement agreement;
  bool is_initiator = false;
  /// What a TCP segment carries (EMSS): FPDUs are cut so that one fits it.
  std::size_t segment_bytes = 1460;
};

/// The connections of an iWARP device: byte streams that the owner of the Nic moves. Called from
/// poll_streams(); must not call the Nic.
class StreamPort {
 public:
  virtual ~StreamPort() = default;
  /// Where the bytes of that queue pair go; valid until the next call.
  [[nodiscard]] virtual iwarp::StreamSink& stream_of(const Qp& qp) = 0;
  enum class Close : std::uint8_t {
    in_order,  ///< What was written is sent, then the stream ends.
    abort,     ///< Reset, whatever is under way.
  };
  /// Nothing more will be sent. Asked once; Nic::on_stream_closed() answers when it is done.
  virtual void close_stream(const Qp& qp, Close how) = 0;
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
    std::uint32_t pds = 0, mrs = 0, mws = 0, cqs = 0, srqs = 0, qps = 0, ahs = 0;
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
  /// local_write (IBTA vol 1, 10.6.3.1). flush_persistent needs a store (`unsupported` otherwise)
  /// and excludes on_demand. The memory must stay mapped until deregistration.
  [[nodiscard]] Result<Mr*, NicError> reg_mr(Pd& pd, std::byte* host, std::uint64_t length, Va iova,
                                             Access access);
  /// A region of any address and no memory: for the parts of a message that nobody wants.
  [[nodiscard]] Result<Mr*, NicError> alloc_null_mr(Pd& pd);
  /// Changes a region that no window is bound to; its keys stay.
  [[nodiscard]] Result<void, NicError> rereg_mr(Mr& mr, const MrChange& change);
  /// Refused with `busy` while windows are bound to the region (IBTA vol 1, C11-17).
  [[nodiscard]] Result<void, NicError> dereg_mr(Mr& mr);
  /// The host memory that an SGE names, if the rights of its region are at least `needed`
  /// (on_demand: it is demand-paged). Whether there are pages isn't looked at.
  [[nodiscard]] Result<std::byte*, AccessFault> address_of(const Pd& pd, const Sge& sge,
                                                           Access needed) const;
  [[nodiscard]] Result<Mw*, NicError> alloc_mw(Pd& pd, MwType type);
  /// A window may go at any time, bound or not.
  [[nodiscard]] Result<void, NicError> dealloc_mw(Mw& mw);
  /// `length` in bytes, at least 1, zeroed.
  [[nodiscard]] Result<DeviceMemory*, NicError> alloc_dm(std::uint64_t length);
  [[nodiscard]] Result<void, NicError> free_dm(DeviceMemory& dm);
  /// Registers [offset, offset + length) of device memory; keys name it from 0 on, so `access` must
  /// have zero_based.
  [[nodiscard]] Result<Mr*, NicError> reg_dm_mr(Pd& pd, DeviceMemory& dm, std::uint64_t offset,
                                                std::uint64_t length, Access access);
  [[nodiscard]] Result<Cq*, NicError> create_cq(std::uint32_t cqe, std::uintptr_t cookie);
  /// Nobody may poll the queue at the same time. Refused if more completions wait in it.
  [[nodiscard]] Result<void, NicError> resize_cq(Cq& cq, std::uint32_t cqe);
  [[nodiscard]] Result<void, NicError> destroy_cq(Cq& cq);
  /// Delays notifications, so that one is for many completions: see Cq::moderate().
  [[nodiscard]] Result<void, NicError> moderate_cq(Cq& cq, std::uint32_t count, Duration period);
  /// Asks for one notification at the next (solicited) completion; those in the ring don't count.
  void req_notify_cq(Cq& cq, bool solicited_only);

  // Commands: XRC domains.
  [[nodiscard]] Result<Xrcd*, NicError> alloc_xrcd();
  [[nodiscard]] Result<void, NicError> dealloc_xrcd(Xrcd& xrcd);

  // Commands: shared receive queues.
  [[nodiscard]] Result<Srq*, NicError> create_srq(Pd& pd, const SrqInitAttr& attr);
  /// `limit`: SRQ_LIMIT_REACHED is raised once when fewer requests than that are left.
  [[nodiscard]] Result<void, NicError> modify_srq(Srq& srq, std::optional<std::uint32_t> wr_max,
                                                  std::optional<std::uint32_t> limit);
  [[nodiscard]] SrqAttr query_srq(const Srq& srq) const;
  [[nodiscard]] Result<void, NicError> destroy_srq(Srq& srq);
  [[nodiscard]] Result<void, PostError> post_srq_recv(Srq& srq, const RecvWr& wr);

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
  /// Holds what the send queue sends to a rate, from RTS on and until the next RESET.
  [[nodiscard]] Result<void, NicError> limit_rate(Qp& qp, const RateLimit& limit);
  /// What the QP completed and nobody has polled goes with it: a number that is given again must
  /// not find the completions of its former life. So nobody may be polling its CQs meanwhile.
  [[nodiscard]] Result<void, NicError> destroy_qp(Qp& qp);
  [[nodiscard]] Qp* find_qp(Qpn qpn) const;

  [[nodiscard]] Result<void, PostError> post_send(Time now, Qp& qp, const SendWr& wr);
  [[nodiscard]] Result<void, PostError> post_recv(Time now, Qp& qp, const RecvWr& wr);

  // Commands: streams, of an iWARP device.
  /// INIT to RTS: from now on the queue pair talks over a connection. At most ird_max() READs of
  /// the peer may be agreed on. The queue pair never gives the connection back: it ends with
  /// StreamPort::close_stream(), or when the owner destroys the queue pair and the connection.
  [[nodiscard]] Result<void, NicError> attach_stream(Time now, Qp& qp, const StreamAttr& attr);
  [[nodiscard]] std::uint16_t ird_max() const;

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

  // Commands: for tests of what a consumer does when something fails.
  /// Makes happen what `type` tells of, at `qpn` or, without one, at every queue pair; of the
  /// port's events: the port goes down (its frames are lost, both ways) or comes back. Returns to
  /// how many objects it happened.
  std::uint32_t inject(Time now, AsyncEventType type, std::optional<Qpn> qpn);
  [[nodiscard]] bool is_port_active() const;

  // Events in.
  /// A whole Ethernet frame without FCS. Its bytes are read during the call only. Some ports have
  /// to compute the ICRC themselves (proto/roce/icrc_solve.h); it is checked here unless
  /// `icrc_is_proved`.
  RxVerdict on_frame(Time now, ByteView frame, bool icrc_is_proved = false);
  /// `way` is asked whether what a queue pair waits for can have been lost at all: as long as its
  /// peer hasn't read what was sent, the ACK timer begins anew, at no cost in retries.
  void on_timer(Time now, FrameSink* way = nullptr);
  /// Bytes from the peer of a queue pair with a stream, in order and any pieces; they are used up.
  void on_stream(Time now, Qp& qp, ByteView bytes);
  /// The peer sends no more (FIN).
  void on_stream_end(Time now, Qp& qp);
  /// The connection is closed in both directions, as wanted, or lost.
  void on_stream_closed(Time now, Qp& qp);

  // Effects out.
  /// Sends what is due, round robin over QPs, at most `frames_max` frames.
  TransmitStatus poll_transmit(Time now, FrameSink& sink, std::uint32_t frames_max = 64,
                               TransmitOrder order = TransmitOrder::answers_first);
  /// The same for the streams of an iWARP device, at most `fpdus_max` FPDUs.
  TransmitStatus poll_streams(Time now, StreamPort& port, std::uint32_t fpdus_max = 64);
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
[[nodiscard]] std::uintptr_t cookie_of(const Srq& srq);
/// The number by which peers name the queue; 0 if it is not one for XRC targets.
[[nodiscard]] Srqn number_of(const Srq& srq);
/// The protection domain in which the targets of an XRC domain are created.
[[nodiscard]] Pd& pd_of(Xrcd& xrcd);
/// How many send requests can still be posted.
[[nodiscard]] std::size_t send_room(const Qp& qp);

}  // namespace verbena::nic
