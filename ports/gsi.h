// The general services interface of a device in this process: QP1, through which MADs come and go.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nic_model/nic.h"
#include "ports/device_config.h"
#include "ports/engine.h"
#include "proto/ib_bth/cm/agent.h"

namespace verbena::ports {

/// Hears of MADs: between which GIDs, as an answer would go, and its bytes.
class MadHandler {
 public:
  virtual ~MadHandler() = default;
  virtual void on_mad(const ib::cm::Route& route, ByteView mad) = 0;
};

/// Not thread-safe: its owner has a lock. Takes the engine's lock in every function.
class Gsi {
 public:
  Gsi(Engine& engine, const DeviceConfig& config);
  ~Gsi();
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  /// Makes QP1 and what it needs. There may be one in a process and device.
  [[nodiscard]] Result<void, nic::NicError> open();
  /// False if the send queue is full; the MAD is the caller's then, to send later.
  [[nodiscard]] bool send(const ib::cm::Outgoing& outgoing);
  /// All MADs that have come. Whatever comes afterwards makes the receive queue's CQ, whose cookie
  /// is 0, notify.
  void receive_all(MadHandler& handler);

 private:
  /// MADs that may arrive before anybody looks: 64 at once from each of several peers.
  static constexpr std::uint32_t receives_max = 1024;
  static constexpr std::uint32_t sends_max = 256;
  /// A datagram's first 40 bytes are its GRH or IP header.
  static constexpr std::size_t receive_bytes = 40 + ib::cm::mad_bytes;

  [[nodiscard]] Result<void, nic::NicError> create_objects(nic::Nic& nic);
  [[nodiscard]] Result<void, nic::NicError> make_ready(nic::Nic& nic, Time now);
  void post_receive(nic::Nic& nic, Time now, std::uint64_t index);
  void receive(const Completion& completion, MadHandler& handler);

  Engine& engine_;
  std::vector<Gid> gids_;
  nic::Pd* pd_ = nullptr;
  nic::Cq* send_cq_ = nullptr;
  nic::Cq* receive_cq_ = nullptr;
  nic::Mr* mr_ = nullptr;
  nic::Qp* qp_ = nullptr;
  std::uint32_t receives_ = receives_max;
  std::uint32_t sends_ = sends_max;
  std::array<std::byte, receives_max * receive_bytes> memory_{};
};

}  // namespace verbena::ports
