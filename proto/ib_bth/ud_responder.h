// The responder of unreliable datagrams. Read first: IBTA vol 1, 9.8.3.2 and 11.4.1.2 (where the
// GRH goes). A datagram goes through named checks; one that fails is dropped in silence:
//
//     Q_Key ─ length ─ resources (a receive request, room in it) ─ execute ─► complete
//
// The first 40 bytes of the receive buffer are for the network header: an IPv6 header or a GRH
// whole, an IPv4 header in the last 20 (IBTA vol 1, annex A17.4.5.2), the first 20 then stay as
// they were.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/recv_side.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/verdict.h"

namespace verbena::ib {

/// In front of the data of every datagram received.
inline constexpr std::uint32_t grh_area_bytes = 40;

struct UdResponderConfig {
  PdId pd{};
  Qkey qkey{};
  /// MTU of the port, the longest datagram.
  std::uint32_t mtu_bytes = 1024;
};

class UdResponder {
 public:
  UdResponder(Qpn qpn, RecvSource receives, CompletionSink& completions)
      : receive_(qpn, std::move(receives), completions) {}

  [[nodiscard]] const RecvSource& queue() const { return receive_.queue(); }

  // Commands.
  /// INIT to RTR: from now on datagrams are received.
  void activate(const UdResponderConfig& config);
  void set_qkey(Qkey qkey) { config_.qkey = qkey; }
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
  /// `network_header` is the IP header or GRH of the frame, 20 or 40 bytes; `priority` that of its
  /// VLAN tag.
  [[nodiscard]] Outcome on_datagram(TransportEnv& env, const PacketView& packet,
                                    ByteView network_header, std::uint8_t priority);

 private:
  [[nodiscard]] std::optional<RxVerdict> check(const PacketView& packet) const;

  RecvSide receive_;
  UdResponderConfig config_;
  bool active_ = false;
};

}  // namespace verbena::ib
