// Datagram queue pairs of the two hosts of a Pair.
#pragma once

#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

inline nic::Qp& ready_ud(Pair& pair, Side side,
                         const EndOptions& options = {.type = nic::QpType::ud}) {
  Host& host = pair.host(side);
  nic::Qp& qp = create_qp(host, options);
  to_init(host, pair.now(), qp, options);
  to_rtr(host, pair.now(), qp, options, {}, {}, {});
  to_rts(host, pair.now(), qp, options);
  return qp;
}

inline nic::Ah& ah_to(Host& host, const Gid& destination) {
  const auto ah = host.nic.create_ah(*host.pd, {.dgid = destination, .has_grh = true});
  REQUIRE(ah);
  return **ah;
}

/// Both ends of an exchange from a to b.
struct Datagrams {
  explicit Datagrams(Pair& pair, const EndOptions& options_of_b = {.type = nic::QpType::ud})
      : a(ready_ud(pair, Side::a)),
        b(ready_ud(pair, Side::b, options_of_b)),
        ah(ah_to(pair.a, pair.b.gid())) {}

  /// Addresses a request of a to b.
  [[nodiscard]] Work to_b(Work work) const {
    work.address = &nic::handle_of(ah);
    work.remote_qpn = nic::qpn_of(b);
    work.remote_qkey = EndOptions{}.qkey;
    return work;
  }

  nic::Qp& a;
  nic::Qp& b;
  nic::Ah& ah;
};

}  // namespace verbena::test
