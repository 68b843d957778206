// Bringing a queue pair up, every attribute open to the test.
#pragma once

#include <cstdint>

#include "nic_model/nic.h"
#include "tests/support/host.h"

namespace verbena::test {

/// One end of a connection. What a test doesn't say is chosen to stay out of its way.
struct EndOptions {
  nic::QpCaps caps{.send_wr_max = 64,
                   .recv_wr_max = 64,
                   .send_sge_max = 32,
                   .recv_sge_max = 32,
                   .inline_bytes_max = 512};
  nic::Srq* srq = nullptr;
  bool signal_all = false;
  nic::Mtu mtu = nic::Mtu::mtu_1024;
  Psn sq_psn{100};
  /// 4.096 us * 2^14 = 67.1 ms.
  std::uint8_t timeout = 14;
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  /// 0.64 ms.
  std::uint8_t min_rnr_timer = 12;
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t max_dest_rd_atomic = 4;
  Access access = all_access;
  nic::QpType type = nic::QpType::rc;
  /// Datagrams only.
  Qkey qkey{0x1111};
  /// Row of the GID table: RoCE v2 over IPv4, over IPv6, then v1 with the same GIDs (host.cpp).
  std::uint8_t sgid_index = 0;
  /// Service level.
  std::uint8_t sl = 0;
};

[[nodiscard]] nic::Qp& create_qp(Host& host, const EndOptions& options);

// The three transitions, each with exactly the attributes that it requires. Datagrams have no peer.
void to_init(Host& host, Time now, nic::Qp& qp, const EndOptions& options);
void to_rtr(Host& host, Time now, nic::Qp& qp, const EndOptions& options, const Gid& peer,
            Qpn peer_qpn, Psn rq_psn);
void to_rts(Host& host, Time now, nic::Qp& qp, const EndOptions& options);

/// A transition that needs nothing but its name: to RESET, ERR, SQD, or back to RTS.
void to_state(Host& host, Time now, nic::Qp& qp, nic::QpState state);

}  // namespace verbena::test
