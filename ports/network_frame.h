// Reading whole Ethernet frames that came from other hosts.
#pragma once

#include <optional>

#include "ports/network_port.h"

namespace verbena::ports {

/// The frame, with its route if its ICRC is right; nullopt for one of another protocol than RoCE.
[[nodiscard]] std::optional<NetworkFrame> read_network_frame(ByteView bytes);

}  // namespace verbena::ports
