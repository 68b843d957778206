#include "proto/inet/tcp/initial_sequence.h"

#include <array>
#include <boost/endian/buffers.hpp>
#include <chrono>
#include <cstddef>

namespace verbena::inet {

namespace {

/// "M is the 4 microsecond timer".
constexpr Duration tick = std::chrono::microseconds(4);

struct Ends {
  Ipv6Address local_address;
  Ipv6Address remote_address;
  boost::endian::big_uint16_buf_t local_port{};
  boost::endian::big_uint16_buf_t remote_port{};
};
constexpr std::size_t ends_bytes = 36;
static_assert(is_wire_struct<Ends, ends_bytes>);

}  // namespace

TcpSeq initial_sequence(const SipKey& secret, Time now, const TcpPlace& local,
                        const TcpPlace& remote) {
  Ends ends{.local_address = local.address, .remote_address = remote.address};
  ends.local_port = local.port;
  ends.remote_port = remote.port;
  std::array<std::byte, ends_bytes> bytes{};
  write_struct(MutableBytes(bytes), ends);
  const auto clock = static_cast<std::uint32_t>(now.time_since_epoch() / tick);
  return TcpSeq(clock + static_cast<std::uint32_t>(siphash(secret, bytes)));
}

}  // namespace verbena::inet
