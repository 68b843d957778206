// The requester of unreliable datagrams: each request is one packet, to a peer of its own. Read
// first: unacked_requester.h; IBTA vol 1, 9.8.3.
#pragma once

#include <memory>

#include "proto/address_handle.h"
#include "proto/ib_bth/unacked_requester.h"

namespace verbena::ib {

struct UdRequesterConfig {
  Psn first_psn;
  PdId pd{};
  Pkey pkey = pkey_default;
  /// Goes out with requests that don't name a Q_Key of their own.
  Qkey qkey{};
  /// MTU of the port, the longest datagram.
  std::uint32_t mtu_bytes = 1024;
};

class UdRequester : public UnackedRequester {
 public:
  UdRequester(Qpn qpn, const SendQueueLimits& limits, bool signal_all, CompletionSink& completions);

  /// RTR to RTS: from now on requests are sent.
  void activate(const UdRequesterConfig& config);
  void set_qkey(Qkey qkey) { config_.qkey = qkey; }
  [[nodiscard]] Result<void, PostError> post(const SendWr& wr);
  /// Sends up to `packets_max` packets and takes what it sent off `packets_max`.
  [[nodiscard]] Transmitted poll_transmit(TransportEnv& env, DatagramSink& sink,
                                          std::uint32_t& packets_max);

 private:
  struct Destination {
    AddressHandlePtr address;
    Qpn qpn{};
    Qkey qkey{};
  };
  [[nodiscard]] Destination& destination_of(std::uint64_t index) {
    return destinations_[static_cast<std::size_t>(index) % queue_.limits().wr_max];
  }
  [[nodiscard]] WcStatus check(TransportEnv& env) const;
  [[nodiscard]] Emitted emit(TransportEnv& env, DatagramSink& sink);

  UdRequesterConfig config_;
  /// One for each slot of the queue.
  std::unique_ptr<Destination[]> destinations_;
};

}  // namespace verbena::ib
