// Two or more ports in a fabric of their own, and a handler that remembers what it received.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ports/fabric_port.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports::test {

class RecordingHandler final : public FrameHandler {
 public:
  RxVerdict on_frame(ByteView frame) override {
    frames.emplace_back(frame.begin(), frame.end());
    return verdict;
  }

  std::vector<std::vector<std::byte>> frames;
  RxVerdict verdict;
};

struct PortWithQpns {
  std::unique_ptr<FabricPort> port;
  Qpn first{};

  Port* operator->() const { return port.get(); }
};

inline std::unique_ptr<Fabric> join_fabric(const std::string& path,
                                           std::size_t ring_bytes = std::size_t{64} << 10) {
  auto fabric = Fabric::join({.path = path, .device_name = "verbena0", .ring_bytes = ring_bytes});
  INFO((fabric ? "" : fabric.error()));
  REQUIRE(fabric);
  return std::move(*fabric);
}

inline PortWithQpns open_port(const std::string& path,
                              std::size_t ring_bytes = std::size_t{64} << 10) {
  PortWithQpns result{.port = std::make_unique<FabricPort>(join_fabric(path, ring_bytes))};
  result.first = result.port->fabric().take_qpn_block().value();
  return result;
}

/// Sends frame `number`; false if there is no room.
inline bool send(Port& port, const FrameRoute& route, std::size_t bytes, std::uint64_t number) {
  const MutableBytes frame = port.reserve(route, bytes);
  if (frame.empty()) {
    return false;
  }
  REQUIRE(frame.size() == bytes);
  fill_pattern(frame, number);
  port.commit({});
  return true;
}

inline bool send(Port& port, Qpn destination, std::size_t bytes, std::uint64_t number) {
  return send(port, {.source = {}, .destination = {}, .destination_qpn = destination}, bytes,
              number);
}

}  // namespace verbena::ports::test
