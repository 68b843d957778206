#include "tests/support/connection.h"

#include <catch2/catch.hpp>

namespace verbena::test {

namespace m = nic::qp_attr_mask;

nic::Qp& create_qp(Host& host, const EndOptions& options) {
  const auto qp = host.nic.create_qp(*host.pd, {.type = options.type,
                                                .send_cq = host.cq,
                                                .recv_cq = host.cq,
                                                .srq = options.srq,
                                                .caps = options.caps,
                                                .signal_all = options.signal_all});
  REQUIRE(qp);
  return **qp;
}

void to_init(Host& host, Time now, nic::Qp& qp, const EndOptions& options) {
  nic::QpAttr attr;
  attr.state = nic::QpState::init;
  attr.access_flags = options.access;
  attr.qkey = options.qkey;
  const std::uint32_t of_type = nic::is_datagram(options.type) ? m::qkey : m::access_flags;
  REQUIRE(host.nic.modify_qp(now, qp, attr, m::state | m::pkey_index | m::port | of_type));
}

void to_rtr(Host& host, Time now, nic::Qp& qp, const EndOptions& options, const Gid& peer,
            Qpn peer_qpn, Psn rq_psn) {
  nic::QpAttr attr;
  attr.state = nic::QpState::rtr;
  attr.av = {.dgid = peer, .sgid_index = options.sgid_index, .sl = options.sl, .has_grh = true};
  attr.path_mtu = options.mtu;
  attr.dest_qpn = peer_qpn;
  attr.rq_psn = rq_psn;
  attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  std::uint32_t mask = m::state;
  if (!nic::is_datagram(options.type)) {
    mask |= m::av | m::path_mtu | m::dest_qpn | m::rq_psn;
  }
  if (options.type == nic::QpType::rc) {
    mask |= m::max_dest_rd_atomic | m::min_rnr_timer;
  }
  REQUIRE(host.nic.modify_qp(now, qp, attr, mask));
}

void to_rts(Host& host, Time now, nic::Qp& qp, const EndOptions& options) {
  nic::QpAttr attr;
  attr.state = nic::QpState::rts;
  attr.sq_psn = options.sq_psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = options.max_rd_atomic;
  const std::uint32_t of_type = options.type == nic::QpType::rc
                                    ? m::timeout | m::retry_cnt | m::rnr_retry | m::max_qp_rd_atomic
                                    : 0;
  REQUIRE(host.nic.modify_qp(now, qp, attr, m::state | m::sq_psn | of_type));
}

void to_state(Host& host, Time now, nic::Qp& qp, nic::QpState state) {
  nic::QpAttr attr;
  attr.state = state;
  REQUIRE(host.nic.modify_qp(now, qp, attr, m::state));
}

}  // namespace verbena::test
