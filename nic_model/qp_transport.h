// What the Nic does with a queue pair of any service. Private to nic_model/.
#pragma once

#include <variant>

#include "base/time.h"
#include "nic_model/qp.h"
#include "proto/ib_bth/opcode.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/iwarp/stream_qp.h"
#include "proto/work.h"

namespace verbena::nic {

/// The service that packets of a queue pair have in their opcodes.
[[nodiscard]] ib::Service service_of(QpType type);

// Transitions. The attributes have been applied.
/// INIT to RTR.
void activate_responder(Qp& qp, const NicConfig& config);
/// RTR to RTS.
void activate_requester(Qp& qp, const NicConfig& config);
/// Between RTS and SQD, or within them.
void reconfigure(Qp& qp, const NicConfig& config);
/// SQE to RTS.
void resume_requester(Qp& qp);
void set_draining(Qp& qp, bool draining);
void flush_requester(Qp& qp, ib::TransportEnv& env);
void flush(Qp& qp, ib::TransportEnv& env);
void reset(Qp& qp);

[[nodiscard]] Result<void, PostError> post(Qp& qp, ib::TransportEnv& env, const SendWr& wr);
[[nodiscard]] Result<void, PostError> post(Qp& qp, ib::TransportEnv& env, const RecvWr& wr);

[[nodiscard]] inline bool is_stream(const Qp& qp) {
  return std::holds_alternative<Stream>(qp.transport);
}
[[nodiscard]] inline iwarp::StreamEnv stream_env(const ib::TransportEnv& env) {
  return {.now = env.now, .memory = env.memory, .counters = env.counters};
}

[[nodiscard]] bool is_drained(const Qp& qp);
[[nodiscard]] bool wants_transmit(const Qp& qp);
[[nodiscard]] std::size_t room_to_send(const Qp& qp);
[[nodiscard]] Psn next_send_psn(const Qp& qp);
/// nullopt for datagrams and streams, which have none.
[[nodiscard]] std::optional<Psn> expected_psn(const Qp& qp);
/// time_never for services without acknowledgements.
[[nodiscard]] inline Time next_timeout(const Qp& qp) {
  const auto* rc = std::get_if<RcHalves>(&qp.transport);
  return rc != nullptr ? rc->requester.next_timeout() : time_never;
}

}  // namespace verbena::nic
