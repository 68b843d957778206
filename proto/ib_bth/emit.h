// Writing a transport packet: PacketFields is what a packet means, emit_headers() lays it on bytes.
// parse_fields() is the inverse.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "proto/ib_bth/headers.h"
#include "proto/ib_bth/opcode.h"
#include "proto/ib_bth/packet.h"

namespace verbena::ib {

/// The meaning of a packet's headers. Of the extension headers only those are used that the opcode
/// carries. Reserved bits of the BTH are sent as zero (IBTA vol 1, 9.2).
struct PacketFields {
  Opcode opcode{};
  bool solicited = false;
  /// MigReq. Hardware sends 1 and some refuses 0.
  bool migrated = true;
  bool ack_request = false;
  bool fecn = false;
  bool becn = false;
  Pkey pkey = pkey_default;
  Qpn dest_qpn{};
  Psn psn{};

  Reth reth{};
  Aeth aeth{};
  AtomicEth atomic_eth{};
  AtomicAckEth atomic_ack_eth{};
  ImmDt imm{};
  Ieth ieth{};
  Deth deth{};
  Rdeth rdeth{};
  XrcEth xrceth{};
  Feth feth{};
};

/// Bytes of pad behind a payload of that length (IBTA vol 1, 9.2.5). In [0, 3].
[[nodiscard]] constexpr std::size_t pad_count(std::size_t payload_bytes) {
  return (0 - payload_bytes) & 3;
}

/// Size of a packet from the BTH to the end of the pad: what precedes the ICRC.
[[nodiscard]] constexpr std::size_t transport_size(Opcode opcode, std::size_t payload_bytes) {
  return opcode_info(opcode).header_bytes + payload_bytes + pad_count(payload_bytes);
}

/// Writes BTH and extension headers of a packet with `payload_bytes` of payload (they set PadCnt)
/// to the start of `transport`, and returns their size, opcode_info(opcode).header_bytes. The
/// caller puts the payload right behind and then calls emit_pad(). The opcode must be known and
/// `transport` long enough.
std::size_t emit_headers(MutableBytes transport, const PacketFields& fields,
                         std::size_t payload_bytes);

/// Zeroes the pad behind a payload of `payload_bytes`; `after_payload` begins where it ends.
/// Returns pad_count(payload_bytes).
std::size_t emit_pad(MutableBytes after_payload, std::size_t payload_bytes);

/// Writes a whole packet, headers, payload and pad, and returns transport_size().
std::size_t emit_packet(MutableBytes transport, const PacketFields& fields, ByteView payload);

/// What the headers of a packet mean. Extension headers that the opcode lacks are zero.
[[nodiscard]] PacketFields parse_fields(const PacketView& packet);

}  // namespace verbena::ib
