#include "proto/inet/tcp/verdict.h"

namespace verbena::inet {

RxVerdict verdict_of(TcpVerdict verdict, std::uint32_t expected, std::uint32_t got) {
  RxVerdict result{.check = RxCheck::tcp_sequence, .expected = expected, .got = got};
  switch (verdict) {
    case TcpVerdict::duplicate:
      result.kind = RxVerdict::Kind::duplicate;
      return result;
    case TcpVerdict::early:
      result.kind = RxVerdict::Kind::early;
      return result;
    case TcpVerdict::not_kept:
    case TcpVerdict::outside_window:
    case TcpVerdict::challenged:
    case TcpVerdict::unknown:
      result.kind = RxVerdict::Kind::dropped;
      return result;
    case TcpVerdict::accepted:
    case TcpVerdict::ended:
    case TcpVerdict::ignored:
      break;
  }
  return {};
}

}  // namespace verbena::inet
