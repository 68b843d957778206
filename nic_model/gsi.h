// The general services interface of a Nic: QP1, through which MADs come and go.
// Read first: IBTA vol 1, 13.5 (management datagrams), 3.9.4 (QP1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "proto/ib_bth/cm/agent.h"

namespace verbena::nic {

/// Hears of MADs: between which GIDs, as an answer would go, and its bytes.
class MadHandler {
 public:
  virtual ~MadHandler() = default;
  virtual void on_mad(const ib::cm::Route& route, ByteView mad) = 0;
};

/// One for a Nic. Functions that take the Nic want the one that open() got.
class Gsi {
 public:
  Gsi() = default;
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  /// Makes QP1 and what it needs. After a failure, close().
  [[nodiscard]] Result<void, NicError> open(Nic& nic, Time now);
  /// Destroys what open() made. Without it, the Nic must not outlive the Gsi.
  void close(Nic& nic);

  /// False if the send queue is full; the MAD is the caller's then, to send later.
  [[nodiscard]] bool send(Nic& nic, Time now, const ib::cm::Outgoing& outgoing);

  // Receiving: arm() so that what comes later makes the receive queue's CQ, whose cookie is 0,
  // notify; then in turn receive(), which doesn't touch the Nic, and replenish(), until nothing
  // has come.

  void arm(Nic& nic);
  /// Hands over some of the MADs that have come. False if there were none.
  bool receive(MadHandler& handler);
  /// Gives the room of those that were handed over back to the receive queue.
  void replenish(Nic& nic, Time now);

 private:
  /// MADs that may arrive before anybody looks: 64 at once from each of several peers.
  static constexpr std::uint32_t receives_max = 1024;
  static constexpr std::uint32_t sends_max = 256;
  /// A datagram's first 40 bytes are its GRH or IP header.
  static constexpr std::size_t receive_bytes = 40 + ib::cm::mad_bytes;

  [[nodiscard]] Result<void, NicError> create_objects(Nic& nic);
  [[nodiscard]] Result<void, NicError> make_ready(Nic& nic, Time now);
  void post_receive(Nic& nic, Time now, std::uint64_t index);
  void hand_over(const Completion& completion, MadHandler& handler) const;

  Pd* pd_ = nullptr;
  Cq* send_cq_ = nullptr;
  Cq* receive_cq_ = nullptr;
  Mr* mr_ = nullptr;
  Qp* qp_ = nullptr;
  /// What receive() took from the CQ last.
  std::array<Completion, 32> taken_{};
  std::uint32_t taken_count_ = 0;
  std::uint32_t receives_ = receives_max;
  std::uint32_t sends_ = sends_max;
  std::array<std::byte, receives_max * receive_bytes> memory_{};
};

}  // namespace verbena::nic
