// Reading a transport packet: PacketView. Checked once when it is parsed; after that no accessor
// can fail. Read first: IBTA vol 1, 9.6.1 (packet header validation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "base/result.h"
#include "proto/ib_bth/headers.h"
#include "proto/ib_bth/opcode.h"

namespace verbena::ib {

/// Why bytes are not a transport packet. Such a packet is silently dropped (IBTA vol 1, 9.6.1.1).
struct ParseError {
  enum class Kind : std::uint8_t {
    bth_truncated,        ///< Fewer bytes than a BTH. expected/got: bytes.
    transport_version,    ///< TVer isn't 0 (9.6.1.1.2). expected/got: versions.
    opcode_reserved,      ///< No such opcode (9.6.1.1.3). got: the opcode.
    length_not_in_words,  ///< Not a multiple of four bytes (9.2.5). got: bytes.
    headers_truncated,    ///< Fewer bytes than the opcode's headers. expected/got: bytes.
    pad_exceeds_payload,  ///< PadCnt is larger than what follows. expected (most)/got: bytes.
  };
  Kind kind{};
  /// The opcode byte, where there is one.
  Opcode opcode{};
  std::size_t expected = 0;
  std::size_t got = 0;

  friend constexpr bool operator==(const ParseError&, const ParseError&) = default;
};

/// The error in words: "RC SEND Only needs 12 bytes of headers, got 11".
[[nodiscard]] std::string describe(const ParseError& error);

/// A transport packet, from the BTH up to the end of the pad, in bytes that belong to someone else
/// and must outlive the view. parse() is the only way to get one.
///
/// What parse() guarantees: the opcode is known, TVer is 0, all headers of the opcode are there,
/// the pad fits into what follows them, and the length is a multiple of four. It does not look at
/// the length of the payload: that depends on the path MTU (payload_limits()).
class PacketView {
 public:
  /// `transport` begins with the BTH and ends before the ICRC.
  [[nodiscard]] static Result<PacketView, ParseError> parse(ByteView transport);

  [[nodiscard]] const OpcodeInfo& info() const { return *info_; }
  [[nodiscard]] bool has(ExtHeader header) const { return info_->has(header); }

  [[nodiscard]] const Bth& bth() const { return bth_; }
  [[nodiscard]] Opcode opcode() const { return bth_.opcode(); }
  [[nodiscard]] Psn psn() const { return bth_.psn(); }
  [[nodiscard]] Qpn dest_qpn() const { return bth_.dest_qpn(); }

  // Each may be called only if has() says that the opcode carries that header.
  [[nodiscard]] Reth reth() const { return read<Reth>(ExtHeader::reth); }
  [[nodiscard]] Aeth aeth() const { return read<Aeth>(ExtHeader::aeth); }
  [[nodiscard]] AtomicEth atomic_eth() const { return read<AtomicEth>(ExtHeader::atomic_eth); }
  [[nodiscard]] AtomicAckEth atomic_ack_eth() const {
    return read<AtomicAckEth>(ExtHeader::atomic_ack_eth);
  }
  [[nodiscard]] ImmDt imm() const { return read<ImmDt>(ExtHeader::imm_dt); }
  [[nodiscard]] Ieth ieth() const { return read<Ieth>(ExtHeader::ieth); }
  [[nodiscard]] Deth deth() const { return read<Deth>(ExtHeader::deth); }
  [[nodiscard]] Rdeth rdeth() const { return read<Rdeth>(ExtHeader::rdeth); }
  [[nodiscard]] XrcEth xrceth() const { return read<XrcEth>(ExtHeader::xrceth); }
  [[nodiscard]] Feth feth() const { return read<Feth>(ExtHeader::feth); }

  /// What follows the headers, without the pad.
  [[nodiscard]] ByteView payload() const {
    return transport_.subspan(info_->header_bytes,
                              transport_.size() - info_->header_bytes - bth_.pad_count());
  }
  [[nodiscard]] ByteView pad() const { return transport_.last(bth_.pad_count()); }
  /// All of it: headers, payload and pad.
  [[nodiscard]] ByteView transport() const { return transport_; }

 private:
  PacketView(ByteView transport, const Bth& bth, const OpcodeInfo& info)
      : transport_(transport), info_(&info), bth_(bth) {}

  template <class Header>
  [[nodiscard]] Header read(ExtHeader header) const {
    VERBENA_CHECK(info_->has(header));
    return read_struct<Header>(transport_.subspan(info_->offset_of(header)));
  }

  ByteView transport_;
  const OpcodeInfo* info_;
  Bth bth_;
};

}  // namespace verbena::ib
