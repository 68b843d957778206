// RoCE v2 frames for tests of the UDP port.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <vector>

#include "proto/ib_bth/emit.h"
#include "proto/packet_sink.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::ports::test {

inline Gid address(const char* text) { return *roce::gid_from_text(text); }

/// Loopback addresses, `number` in [0, 3], that no other process uses: tests run side by side, and
/// RoCE v2 has one port for all.
inline Gid own_address(unsigned number) {
  const auto id = (static_cast<unsigned>(getpid()) << 2) | number;
  return roce::gid_from_ipv4({{127, static_cast<std::uint8_t>(id >> 16),
                               static_cast<std::uint8_t>(id >> 8), static_cast<std::uint8_t>(id)}});
}

/// A way from one address to another.
struct Way {
  Gid from = own_address(1);
  Gid to = own_address(2);
  std::uint8_t traffic_class = 0;
  Qpn qpn{0x123};

  [[nodiscard]] FrameRoute route() const {
    return {.source = from,
            .destination = to,
            .destination_qpn = qpn,
            .traffic_class = traffic_class,
            .hop_limit = 64};
  }
  [[nodiscard]] roce::Encapsulation encapsulation() const {
    const bool is_ipv4 = roce::ipv4_from_gid(to).has_value();
    return roce::Encapsulation(
        {.version = is_ipv4 ? roce::Version::v2_ipv4 : roce::Version::v2_ipv6,
         .source = from,
         .destination = to,
         .traffic_class = traffic_class});
  }
};

/// Writes a SEND with `data_bytes` (a multiple of 4) of a pattern into a frame that was reserved.
inline void write_send(const Way& way, MutableBytes frame, std::size_t data_bytes,
                       const WayFields& fields, std::uint32_t psn = 0) {
  const auto encapsulation = way.encapsulation();
  const std::size_t transport_bytes = ib::bth_bytes + data_bytes;
  const MutableBytes transport = frame.subspan(encapsulation.prefix_bytes(), transport_bytes);
  ib::emit_headers(transport,
                   {.opcode = ib::Opcode::rc_send_only, .dest_qpn = way.qpn, .psn = Psn(psn)}, 0);
  for (std::size_t i = 0; i < data_bytes; ++i) {
    transport[ib::bth_bytes + i] = static_cast<std::byte>(i * 7 + psn);
  }
  encapsulation.write_prefix(frame, transport_bytes, fields);
  encapsulation.finish(frame, transport_bytes);
}

inline std::size_t send_frame_bytes(std::size_t data_bytes, const Way& way = {}) {
  return way.encapsulation().frame_bytes(ib::bth_bytes + data_bytes);
}

/// The same in memory of its own.
inline std::vector<std::byte> send_frame(const Way& way, std::size_t data_bytes,
                                         std::uint32_t psn = 0) {
  std::vector<std::byte> frame(send_frame_bytes(data_bytes, way));
  write_send(way, frame, data_bytes, {}, psn);
  return frame;
}

}  // namespace verbena::ports::test
