// Dissection of iWARP: start frames and FPDUs out of the TCP streams of a capture. An FPDU may lie
// in several frames and a frame may hold several FPDUs, so this needs to see all frames of a
// connection, from the first on.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "cli/dissection.h"

namespace verbena::cli {

class IwarpDissector {
 public:
  /// Connections that are followed at once. Each takes memory, and a capture may be anything.
  static constexpr std::size_t connections_max = 1024;

  IwarpDissector();
  ~IwarpDissector();
  IwarpDissector(IwarpDissector&&) noexcept;
  IwarpDissector& operator=(IwarpDissector&&) noexcept;

  /// Takes the next frame of the capture. If it completes start frames or FPDUs, adds their layers
  /// to `out`, which dissect() made of the frame, and says in its line what they are.
  void add(ByteView frame, Dissection& out);

 private:
  class Connections;
  std::unique_ptr<Connections> connections_;
};

}  // namespace verbena::cli
