// The inside of the Nic, shared by the files that implement it:
//
//   nic.cpp           construction, getters, resources, events
//   nic_memory.cpp    regions, windows, device memory
//   nic_qp.cpp        creating, modifying and destroying queue pairs; their errors
//   nic_migration.cpp the ways of a connection to its peer
//   nic_address.cpp   address handles, multicast groups, who takes what has no owner
//   nic_inject.cpp    failures on demand
//   nic_srq.cpp       shared receive queues, XRC domains
//   nic_receive.cpp   a frame's way in: the checks before a queue pair's own
//   nic_stream.cpp    queue pairs over byte streams
//   nic_transmit.cpp  posts, the scheduler, a packet's way out
#pragma once

#include <boost/intrusive/list.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "nic_model/address.h"
#include "nic_model/memory_table.h"
#include "nic_model/multicast.h"
#include "nic_model/nic.h"
#include "nic_model/qp.h"
#include "nic_model/qp_table.h"
#include "nic_model/qp_transport.h"
#include "nic_model/srq.h"
#include "nic_model/timer_queue.h"
#include "nic_model/xrcd.h"
#include "proto/roce/decap.h"

namespace verbena::nic {

/// Asynchronous events that wait to be fetched; more are lost and counted.
inline constexpr std::size_t async_events_max = 4096;

/// Packets or FPDUs that a queue pair may send before the next one has its turn.
inline constexpr std::uint32_t quantum_packets = 16;

// nic_migration.cpp
/// Lays out the headers of every packet to the peer of a connection.
void set_path(Qp& qp, const NicConfig& config);
void set_alternate_path(Qp& qp, const NicConfig& config);
/// Whether what `mask` names of the alternate way and the migration state can be set.
[[nodiscard]] bool path_attributes_are_valid(const NicConfig& config, const Qp& qp,
                                             const QpAttr& attr, std::uint32_t mask);

struct Nic::Impl {
  Impl(const DeviceProfile& device_profile, NicConfig nic_config, std::uint64_t seed)
      : profile(device_profile),
        config(std::move(nic_config)),
        memory(device_profile, config.pager, config.persistent_store, seed) {}
  ~Impl() { ready.clear(); }

  /// What the transport of `qp` does is counted for the queue pair and for the port.
  [[nodiscard]] ib::TransportEnv env(Time now, Qp& qp) {
    return {.now = now, .memory = memory, .counters = qp.counters};
  }

  void raise(const AsyncEvent& event);

  // nic_qp.cpp
  void set_state(Time now, Qp& qp, QpState to);
  /// `failure` is what the transport made of the event for which `env` was lent to it.
  void fail(const ib::TransportEnv& env, Qp& qp, ib::QpFailure failure);
  void tell_observer(const Qp& qp, QpState from, QpChange::Cause cause,
                     WcStatus status = WcStatus::success) const;
  void enter_error(Time now, Qp& qp);
  void enter_send_queue_error(Time now, Qp& qp);
  void check_drained(Qp& qp);
  void fail_users_of_overflowed_cqs(Time now);

  // nic_migration.cpp
  void set_path_mig_state(Qp& qp, PathMigState to);
  [[nodiscard]] bool check_path(Qp& qp, const roce::RoceFrame& frame, bool peer_has_migrated);
  void migrate(Qp& qp);
  void migrate_if_asked(Qp& qp);

  // nic_address.cpp
  void tell_gsi_addresses(bool joined);
  void leave_group(const Gid& group, Qp& qp);
  // nic_inject.cpp
  void inject_at(Time now, AsyncEventType type, Qp& qp);
  std::uint32_t overflow_cqs(Time now);

  // nic_srq.cpp
  void check_limit(Srq& srq);
  void release_held_requests(Srq& srq);

  // nic_receive.cpp
  RxVerdict receive(Time now, ByteView frame, bool icrc_is_proved);
  RxVerdict dispatch(Time now, const roce::RoceFrame& frame, const ib::PacketView& packet);
  RxVerdict dispatch_to_group(Time now, const roce::RoceFrame& frame, const ib::PacketView& packet);
  RxVerdict deliver(Time now, Qp& qp, const roce::RoceFrame& frame, const ib::PacketView& packet);
  RxVerdict deliver_request(Time now, Qp& qp, const roce::RoceFrame& frame,
                            const ib::PacketView& packet);

  // nic_stream.cpp
  Result<void, NicError> modify_stream_qp(Time now, Qp& qp, const QpAttr& attr, std::uint32_t mask);
  void follow_stream(Time now, Qp& qp);
  void tell_end_of_stream(Qp& qp, QpState from, const iwarp::StreamQp& stream);
  ib::TransmitResult transmit_stream(Time now, Qp& qp, StreamPort& port, std::uint32_t& fpdus_max);

  // nic_transmit.cpp
  void mark_ready(Qp& qp);
  void unmark_ready(Qp& qp);
  /// Round robin: each ready queue pair has its turn, then goes to the end of the list. One whose
  /// way is blocked waits for the next call, the others go on.
  template <class Turn>
  TransmitStatus take_turns(const std::uint32_t& budget, Turn turn);
  [[nodiscard]] bool may_send_request(Time now, Qp& qp);
  ib::TransmitResult transmit_one(Time now, Qp& qp, FrameSink& sink, std::uint32_t& frames_max,
                                  TransmitOrder order);
  void update_timer(Qp& qp) { timers.schedule(qp, nic::next_timeout(qp)); }

  const DeviceProfile profile;
  const NicConfig config;
  Counters counters;
  MemoryTable memory;
  std::vector<std::unique_ptr<Pd>> pds;
  std::uint32_t next_pd = 1;
  std::vector<std::unique_ptr<DeviceMemory>> device_memories;
  std::uint64_t device_memory_bytes = 0;
  std::uint32_t next_device_memory = 1;
  Cq::Signals cq_signals;
  std::vector<std::unique_ptr<Cq>> cqs;
  std::vector<boost::intrusive_ptr<Ah>> ahs;
  std::vector<std::unique_ptr<Xrcd>> xrcds;
  std::vector<std::unique_ptr<Srq>> srqs;
  std::uint32_t next_srqn = 1;
  QpTable qps;
  /// Whose the frame is that is being received, once that is known.
  Qp* addressee = nullptr;
  MulticastTable multicast;
  TimerQueue timers;
  using ReadyList = boost::intrusive::list<
      Qp, boost::intrusive::member_hook<Qp, boost::intrusive::list_member_hook<>, &Qp::ready_hook>>;
  ReadyList ready;
  std::deque<AsyncEvent> events;
  bool port_is_active = true;
  NicObserver* observer = nullptr;
  std::deque<Membership> memberships;
};

template <class Turn>
TransmitStatus Nic::Impl::take_turns(const std::uint32_t& budget, Turn turn) {
  ReadyList blocked;
  while (!ready.empty() && budget > 0) {
    Qp& qp = ready.front();
    ready.pop_front();
    switch (turn(qp)) {
      case ib::TransmitResult::idle:
        break;
      case ib::TransmitResult::more:
        ready.push_back(qp);
        break;
      case ib::TransmitResult::blocked:
        blocked.push_back(qp);
        break;
    }
  }
  const bool more = !ready.empty();
  const bool is_blocked = !blocked.empty();
  ready.splice(ready.end(), blocked);
  return more ? TransmitStatus::more : is_blocked ? TransmitStatus::blocked : TransmitStatus::idle;
}

}  // namespace verbena::nic
