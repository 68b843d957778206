// TCP connections out of the captures of Linux's siw (tests/data/captures/siw), put back into two
// byte streams each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace verbena::test {

struct CapturedConnection {
  /// Bytes that one side sent at once, as far as the capture tells; in the order of the capture.
  struct Piece {
    bool from_client = false;
    std::vector<std::byte> bytes;
  };
  /// The capture has its beginning.
  bool has_handshake = false;
  std::vector<Piece> pieces;

  [[nodiscard]] std::vector<std::byte> stream(bool from_client) const;
};

/// Names without folder and ".pcap", sorted.
[[nodiscard]] std::vector<std::string> siw_captures();

/// The connections of a capture that carried data, in the order of their first packets. The client
/// is who connects, or who speaks first.
[[nodiscard]] std::vector<CapturedConnection> siw_connections(const std::string& name);
/// The same of any capture of the project.
[[nodiscard]] std::vector<CapturedConnection> connections_of(const std::string& file);

}  // namespace verbena::test
