// Hostile frames for a host on a link: those of the input, each behind its length, with time going
// by. Whatever comes, its tables stay bounded, and what it sends is its own and well formed.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "proto/inet/link_host.h"

namespace verbena::inet {
namespace {

constexpr MacAddress own_mac{{0x02, 0, 0, 0, 0, 0x01}};

/// Looks at what the host sends.
class CheckedSink final : public EthernetSink {
 public:
  MutableBytes reserve(std::size_t bytes) override {
    frame_.assign(bytes, std::byte{0});
    return frame_;
  }
  void commit() override {
    const auto ethernet = parse_ethernet(frame_);
    VERBENA_CHECK(ethernet && ethernet->header.source == own_mac);
    switch (ethernet->ethertype) {
      case ethertype_arp:
        VERBENA_CHECK(parse_arp(ethernet->payload).has_value());
        break;
      case ethertype_ipv4:
        VERBENA_CHECK(parse_ipv4(ethernet->payload).has_value());
        break;
      default:
        VERBENA_CHECK(parse_ipv6(ethernet->payload).has_value());
    }
  }

 private:
  std::vector<std::byte> frame_;
};

void check_frames(ByteView input) {
  LinkHost host(own_mac,
                {*LinkAddress::from_text("10.7.0.1/24"), *LinkAddress::from_text("fd00::1/64")});
  CheckedSink sink;
  Time now{};
  constexpr std::size_t head_bytes = 3;
  while (input.size() >= head_bytes) {
    const auto size = std::to_integer<std::size_t>(input[0]);
    const auto ticks = std::to_integer<int>(input[1]);
    Ipv6Address wanted = mapped({{10, 7, 0, std::to_integer<std::uint8_t>(input[2])}});
    input = input.subspan(head_bytes);
    const ByteView frame = input.first(std::min(size, input.size()));
    input = input.subspan(frame.size());
    now += std::chrono::milliseconds(100 * ticks);
    static_cast<void>(host.on_frame(frame, now, sink));
    static_cast<void>(host.resolve(wanted, now));
    host.transmit(now, sink);
    VERBENA_CHECK(host.neighbours().size() <= neighbours_max);
    VERBENA_CHECK(host.next_timeout() > now);
  }
}

}  // namespace
}  // namespace verbena::inet

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbena::inet::check_frames(std::as_bytes(std::span(data, size)));
  return 0;
}
