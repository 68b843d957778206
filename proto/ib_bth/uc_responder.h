// The responder of an unreliable connection. Read first: IBTA vol 1, 9.8.2.2.
//
// Nothing is answered and nothing comes again, so a packet that is missing, or that a check
// refuses, costs its whole message; the receive request that the message had taken is there for the
// next one.
//
//             First, Only                Middle, Last in sequence
//           ┌─────────────┐                   ┌──────┐
//           │             ▼                   ▼      │
//         idle         in a message ──────────────────
//           ▲             │  Last: completes
//           └─────────────┘  a gap, a First or Only too early, a refused packet: message dropped
//
// When idle, a Middle or Last belongs to a message that is lost already and is dropped as well.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "proto/ib_bth/connection.h"
#include "proto/ib_bth/headers.h"
#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/recv_side.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/memory_access.h"
#include "proto/verdict.h"

namespace verbena::ib {

class UcResponder {
 public:
  UcResponder(Qpn qpn, RecvSource receives, CompletionSink& completions)
      : receive_(qpn, std::move(receives), completions) {}

  [[nodiscard]] const RecvSource& queue() const { return receive_.queue(); }
  [[nodiscard]] Psn expected_psn() const { return expected_psn_; }

  // Commands.
  /// INIT to RTR: from now on requests are executed. `access` is what peers may do: remote_write.
  void activate(const Connection& connection, Psn first_psn, Access access);
  void set_access(Access access) { access_ = access; }
  [[nodiscard]] Result<void, PostError> post(const RecvWr& wr) { return receive_.post(wr); }
  /// The QP is in error: completes everything posted with wr_flush_err.
  void flush(TransportEnv& env);
  /// Reset: forgets everything; nothing completes.
  void reset();

  // Events in.
  struct Outcome {
    RxVerdict verdict;
    QpFailure failure = QpFailure::none;
  };
  [[nodiscard]] Outcome on_request(TransportEnv& env, const PacketView& packet);

 private:
  /// The message that is coming in.
  enum class Inbound : std::uint8_t { idle, send, write };
  using Checked = std::optional<RxVerdict>;

  // The checks, in the order of IBTA vol 1, 9.7.4.1.
  [[nodiscard]] Checked check_sequence(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Checked check_opcode_allowed(const PacketView& packet) const;
  [[nodiscard]] Checked check_resources(const PacketView& packet) const;
  [[nodiscard]] Checked check_length(const PacketView& packet) const;
  [[nodiscard]] Checked check_key(TransportEnv& env, const PacketView& packet) const;
  [[nodiscard]] Checked check_all(TransportEnv& env, const PacketView& packet) const;
  [[nodiscard]] Outcome execute(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] bool place_data(TransportEnv& env, const PacketView& packet);
  void end_message(TransportEnv& env, const PacketView& packet);

  [[nodiscard]] MemoryUser memory_user() const {
    return {.pd = connection_.pd, .qpn = receive_.qpn()};
  }

  RecvSide receive_;
  Connection connection_;
  Access access_ = Access::none;
  bool active_ = false;

  Psn expected_psn_;
  Inbound inbound_ = Inbound::idle;
  /// Payload of the message so far.
  std::uint64_t received_bytes_ = 0;
  /// What the RETH of the WRITE that is coming in says.
  Reth write_;
};

}  // namespace verbena::ib
