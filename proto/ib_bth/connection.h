// What both halves of a connected queue pair need to know of their peer.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/opcode.h"

namespace verbena::ib {

struct Connection {
  Service service = Service::rc;
  Qpn dest_qpn{};
  Pkey pkey = pkey_default;
  PdId pd{};
  /// Path MTU.
  std::uint32_t mtu_bytes = 1024;

  /// The fields of a packet to the peer, before anything that only its opcode needs.
  [[nodiscard]] PacketFields fields_of(Opcode opcode, Psn psn) const {
    PacketFields fields;
    fields.opcode = opcode;
    fields.pkey = pkey;
    fields.dest_qpn = dest_qpn;
    fields.psn = psn;
    return fields;
  }
};

}  // namespace verbena::ib
