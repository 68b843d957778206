// The requester of an unreliable connection: SENDs and WRITEs, cut into packets like those of a
// reliable one, and never sent again. Read first: unacked_requester.h; IBTA vol 1, 9.8.2.
#pragma once

#include "proto/ib_bth/connection.h"
#include "proto/ib_bth/unacked_requester.h"

namespace verbena::ib {

class UcRequester : public UnackedRequester {
 public:
  using UnackedRequester::UnackedRequester;

  /// RTR to RTS: from now on requests are sent.
  void activate(const Connection& connection, Psn first_psn);
  [[nodiscard]] Result<void, PostError> post(const SendWr& wr);
  /// Sends up to `packets_max` packets and takes what it sent off `packets_max`.
  [[nodiscard]] Transmitted poll_transmit(TransportEnv& env, PacketSink& sink,
                                          std::uint32_t& packets_max);

 private:
  [[nodiscard]] WcStatus check(TransportEnv& env) const;
  [[nodiscard]] Emitted emit(TransportEnv& env, PacketSink& sink);

  Connection connection_;
};

}  // namespace verbena::ib
