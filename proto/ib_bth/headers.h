// The headers of the InfiniBand transport, as structs that can be laid on the figures of the
// specification. Fields are big-endian by type, alignment is 1. Read with read_struct(), write with
// write_struct(). Read first: IBTA vol 1, 9.2 (BTH) and 9.3 (extension headers), 8.3 (GRH).
//
// A setter changes its field and nothing else; numbers wider than the field lose their upper bits.
// A default-constructed header is all zeros.
#pragma once

#include <array>
#include <boost/endian/buffers.hpp>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "proto/gid.h"
#include "proto/ib_bth/aeth.h"
#include "proto/ib_bth/opcode.h"

namespace verbena::ib {

namespace detail {

/// Replaces the bits of `byte` that `mask` selects.
constexpr void set_bits(std::uint8_t& byte, std::uint8_t mask, unsigned value) {
  byte = static_cast<std::uint8_t>((byte & ~mask) | (value & mask));
}

}  // namespace detail

/// Base transport header (IBTA vol 1, 9.2): in every packet.
///
///     |    opcode     |S|M|Pad| TVer  |             P_Key             |
///     |F|B| reserved  |             destination QP number             |
///     |A|  reserved   |            packet sequence number             |
class Bth {
 public:
  [[nodiscard]] Opcode opcode() const { return Opcode{opcode_}; }
  void set_opcode(Opcode opcode) { opcode_ = static_cast<std::uint8_t>(opcode); }

  /// SE: asks the responder for a completion event (9.2.3).
  [[nodiscard]] bool solicited() const { return (flags_ & solicited_mask) != 0; }
  void set_solicited(bool on) { detail::set_bits(flags_, solicited_mask, on ? 0xFF : 0); }

  /// MigReq: set in the migrated state, which is the normal one (9.2.4, 17.2.8.1.2).
  [[nodiscard]] bool migrated() const { return (flags_ & migrated_mask) != 0; }
  void set_migrated(bool on) { detail::set_bits(flags_, migrated_mask, on ? 0xFF : 0); }

  /// PadCnt: bytes that fill the payload up to a multiple of four (9.2.5). In [0, 3].
  [[nodiscard]] unsigned pad_count() const { return (flags_ & pad_mask) >> pad_shift; }
  void set_pad_count(unsigned count) { detail::set_bits(flags_, pad_mask, count << pad_shift); }

  /// TVer: version of the transport header, 0 (9.2.6).
  [[nodiscard]] unsigned transport_version() const { return flags_ & version_mask; }
  void set_transport_version(unsigned version) { detail::set_bits(flags_, version_mask, version); }

  [[nodiscard]] Pkey pkey() const { return Pkey{pkey_.value()}; }
  void set_pkey(Pkey pkey) { pkey_ = to_value(pkey); }

  /// FECN: the packet met congestion (annex A17 leaves it to the IP header's ECN in RoCE v2).
  [[nodiscard]] bool fecn() const { return (congestion_ & fecn_mask) != 0; }
  void set_fecn(bool on) { detail::set_bits(congestion_, fecn_mask, on ? 0xFF : 0); }
  /// BECN: packets in the other direction met congestion; set in a CNP.
  [[nodiscard]] bool becn() const { return (congestion_ & becn_mask) != 0; }
  void set_becn(bool on) { detail::set_bits(congestion_, becn_mask, on ? 0xFF : 0); }

  [[nodiscard]] Qpn dest_qpn() const { return Qpn{dest_qpn_.value()}; }
  void set_dest_qpn(Qpn qpn) { dest_qpn_ = to_value(qpn) & qpn_mask; }

  /// A: the requester wants an acknowledgement (9.2.9).
  [[nodiscard]] bool ack_request() const { return (ack_request_ & ack_request_mask) != 0; }
  void set_ack_request(bool on) { detail::set_bits(ack_request_, ack_request_mask, on ? 0xFF : 0); }

  [[nodiscard]] Psn psn() const { return Psn(psn_.value()); }
  void set_psn(Psn psn) { psn_ = psn.value(); }

 private:
  static constexpr std::uint8_t solicited_mask = 0x80;
  static constexpr std::uint8_t migrated_mask = 0x40;
  static constexpr std::uint8_t pad_mask = 0x30;
  static constexpr unsigned pad_shift = 4;
  static constexpr std::uint8_t version_mask = 0x0F;
  static constexpr std::uint8_t fecn_mask = 0x80;
  static constexpr std::uint8_t becn_mask = 0x40;
  static constexpr std::uint8_t ack_request_mask = 0x80;

  std::uint8_t opcode_ = 0;
  std::uint8_t flags_ = 0;
  boost::endian::big_uint16_buf_t pkey_{};
  std::uint8_t congestion_ = 0;
  boost::endian::big_uint24_buf_t dest_qpn_{};
  std::uint8_t ack_request_ = 0;
  boost::endian::big_uint24_buf_t psn_{};
};
static_assert(is_wire_struct<Bth, bth_bytes>);

/// RDMA extended transport header (9.3.3): where a WRITE or READ goes.
class Reth {
 public:
  Reth() = default;
  Reth(Va va, Rkey rkey, std::uint32_t length_bytes) {
    set_va(va);
    set_rkey(rkey);
    set_length_bytes(length_bytes);
  }
  [[nodiscard]] Va va() const { return Va{va_.value()}; }
  void set_va(Va va) { va_ = to_value(va); }
  [[nodiscard]] Rkey rkey() const { return Rkey{rkey_.value()}; }
  void set_rkey(Rkey rkey) { rkey_ = to_value(rkey); }
  /// Length of the whole message, in bytes.
  [[nodiscard]] std::uint32_t length_bytes() const { return length_.value(); }
  void set_length_bytes(std::uint32_t bytes) { length_ = bytes; }

 private:
  boost::endian::big_uint64_buf_t va_{};
  boost::endian::big_uint32_buf_t rkey_{};
  boost::endian::big_uint32_buf_t length_{};
};
static_assert(is_wire_struct<Reth, 16>);

/// ACK extended transport header (9.3.5).
class Aeth {
 public:
  Aeth() = default;
  Aeth(Syndrome syndrome, Msn msn) {
    set_syndrome(syndrome);
    set_msn(msn);
  }
  [[nodiscard]] Syndrome syndrome() const { return Syndrome::from_byte(syndrome_); }
  void set_syndrome(Syndrome syndrome) { syndrome_ = syndrome.to_byte(); }
  [[nodiscard]] Msn msn() const { return Msn(msn_.value()); }
  void set_msn(Msn msn) { msn_ = msn.value(); }

 private:
  std::uint8_t syndrome_ = 0;
  boost::endian::big_uint24_buf_t msn_{};
};
static_assert(is_wire_struct<Aeth, 4>);

/// Atomic extended transport header (9.3.4): CmpSwap and FetchAdd on eight bytes.
class AtomicEth {
 public:
  AtomicEth() = default;
  AtomicEth(Va va, Rkey rkey, std::uint64_t swap_or_add, std::uint64_t compare) {
    set_va(va);
    set_rkey(rkey);
    set_swap_or_add(swap_or_add);
    set_compare(compare);
  }
  [[nodiscard]] Va va() const { return Va{va_.value()}; }
  void set_va(Va va) { va_ = to_value(va); }
  [[nodiscard]] Rkey rkey() const { return Rkey{rkey_.value()}; }
  void set_rkey(Rkey rkey) { rkey_ = to_value(rkey); }
  /// The value to swap in, or to add.
  [[nodiscard]] std::uint64_t swap_or_add() const { return swap_or_add_.value(); }
  void set_swap_or_add(std::uint64_t value) { swap_or_add_ = value; }
  /// The value to compare with. Without meaning in a FetchAdd.
  [[nodiscard]] std::uint64_t compare() const { return compare_.value(); }
  void set_compare(std::uint64_t value) { compare_ = value; }

 private:
  boost::endian::big_uint64_buf_t va_{};
  boost::endian::big_uint32_buf_t rkey_{};
  boost::endian::big_uint64_buf_t swap_or_add_{};
  boost::endian::big_uint64_buf_t compare_{};
};
static_assert(is_wire_struct<AtomicEth, 28>);

/// Atomic ACK extended transport header (9.3.5.3): the value before the operation.
class AtomicAckEth {
 public:
  AtomicAckEth() = default;
  explicit AtomicAckEth(std::uint64_t original) { set_original(original); }
  [[nodiscard]] std::uint64_t original() const { return original_.value(); }
  void set_original(std::uint64_t value) { original_ = value; }

 private:
  boost::endian::big_uint64_buf_t original_{};
};
static_assert(is_wire_struct<AtomicAckEth, 8>);

/// Immediate data (9.3.6). Four bytes that the transport doesn't interpret; as a number they are
/// most significant byte first, which is how verbs' `__be32 imm_data` lies in memory.
class ImmDt {
 public:
  ImmDt() = default;
  explicit ImmDt(std::uint32_t value) { set_value(value); }
  [[nodiscard]] std::uint32_t value() const { return value_.value(); }
  void set_value(std::uint32_t value) { value_ = value; }

 private:
  boost::endian::big_uint32_buf_t value_{};
};
static_assert(is_wire_struct<ImmDt, 4>);

/// Invalidate extended transport header (9.3.7): the key that a SEND takes back.
class Ieth {
 public:
  Ieth() = default;
  explicit Ieth(Rkey rkey) { set_rkey(rkey); }
  [[nodiscard]] Rkey rkey() const { return Rkey{rkey_.value()}; }
  void set_rkey(Rkey rkey) { rkey_ = to_value(rkey); }

 private:
  boost::endian::big_uint32_buf_t rkey_{};
};
static_assert(is_wire_struct<Ieth, 4>);

/// Datagram extended transport header (9.3.2): UD and RD.
class Deth {
 public:
  Deth() = default;
  Deth(Qkey qkey, Qpn source_qpn) {
    set_qkey(qkey);
    set_source_qpn(source_qpn);
  }
  [[nodiscard]] Qkey qkey() const { return Qkey{qkey_.value()}; }
  void set_qkey(Qkey qkey) { qkey_ = to_value(qkey); }
  [[nodiscard]] Qpn source_qpn() const { return Qpn{source_qpn_.value()}; }
  void set_source_qpn(Qpn qpn) { source_qpn_ = to_value(qpn) & qpn_mask; }

 private:
  boost::endian::big_uint32_buf_t qkey_{};
  [[maybe_unused]] std::uint8_t reserved_ = 0;
  boost::endian::big_uint24_buf_t source_qpn_{};
};
static_assert(is_wire_struct<Deth, 8>);

/// Reliable datagram extended transport header (9.3.1): the end-to-end context, 24 bits.
class Rdeth {
 public:
  Rdeth() = default;
  explicit Rdeth(std::uint32_t ee_context) { set_ee_context(ee_context); }
  [[nodiscard]] std::uint32_t ee_context() const { return ee_context_.value(); }
  void set_ee_context(std::uint32_t context) { ee_context_ = context & 0xFF'FFFF; }

 private:
  [[maybe_unused]] std::uint8_t reserved_ = 0;
  boost::endian::big_uint24_buf_t ee_context_{};
};
static_assert(is_wire_struct<Rdeth, 4>);

/// XRC extended transport header (annex A14): the shared receive queue, 24 bits.
class XrcEth {
 public:
  XrcEth() = default;
  explicit XrcEth(std::uint32_t srq_number) { set_srq_number(srq_number); }
  [[nodiscard]] std::uint32_t srq_number() const { return srq_number_.value(); }
  void set_srq_number(std::uint32_t number) { srq_number_ = number & 0xFF'FFFF; }

 private:
  [[maybe_unused]] std::uint8_t reserved_ = 0;
  boost::endian::big_uint24_buf_t srq_number_{};
};
static_assert(is_wire_struct<XrcEth, 4>);

/// FLUSH extended transport header (annex A19.4): 26 reserved bits, then SEL and PLT.
class Feth {
 public:
  /// Placement types, which may be combined (annex A19.4.1.1).
  static constexpr unsigned global_visibility = 1;
  static constexpr unsigned persistence = 2;
  /// Selectivity levels (annex A19.4.1.2).
  static constexpr unsigned range = 0;
  static constexpr unsigned whole_region = 1;

  Feth() = default;
  Feth(unsigned placement_type, unsigned selectivity) {
    set_placement_type(placement_type);
    set_selectivity(selectivity);
  }
  /// PLT, 4 bits.
  [[nodiscard]] unsigned placement_type() const { return selectors_ & 0x0FU; }
  void set_placement_type(unsigned type) { detail::set_bits(selectors_, 0x0F, type); }
  /// SEL, 2 bits.
  [[nodiscard]] unsigned selectivity() const { return (selectors_ & 0x30U) >> 4; }
  void set_selectivity(unsigned level) { detail::set_bits(selectors_, 0x30, level << 4); }

 private:
  [[maybe_unused]] std::array<std::uint8_t, 3> reserved_{};
  std::uint8_t selectors_ = 0;
};
static_assert(is_wire_struct<Feth, 4>);

/// Global route header (8.3). It looks like an IPv6 header and precedes the BTH in RoCE v1.
class Grh {
 public:
  static constexpr unsigned ip_version_wanted = 6;
  /// NxtHdr: an IBA transport follows (8.3.5).
  static constexpr std::uint8_t next_header_ib = 0x1B;

  /// IPVer, 4 bits.
  [[nodiscard]] unsigned ip_version() const { return version_class_flow_.value() >> 28; }
  void set_ip_version(unsigned version) { set_word(28, 0xF, version); }
  /// TClass, 8 bits: DSCP and ECN, as in an IPv6 header.
  [[nodiscard]] std::uint8_t traffic_class() const {
    return static_cast<std::uint8_t>(version_class_flow_.value() >> 20);
  }
  void set_traffic_class(std::uint8_t traffic_class) { set_word(20, 0xFF, traffic_class); }
  /// 20 bits.
  [[nodiscard]] std::uint32_t flow_label() const { return version_class_flow_.value() & 0xF'FFFF; }
  void set_flow_label(std::uint32_t label) { set_word(0, 0xF'FFFF, label); }
  /// PayLen: bytes from the end of the GRH up to and including the ICRC.
  [[nodiscard]] std::uint16_t payload_bytes() const { return payload_bytes_.value(); }
  void set_payload_bytes(std::uint16_t bytes) { payload_bytes_ = bytes; }
  [[nodiscard]] std::uint8_t next_header() const { return next_header_; }
  void set_next_header(std::uint8_t header) { next_header_ = header; }
  [[nodiscard]] std::uint8_t hop_limit() const { return hop_limit_; }
  void set_hop_limit(std::uint8_t limit) { hop_limit_ = limit; }
  [[nodiscard]] const Gid& source() const { return source_; }
  void set_source(const Gid& gid) { source_ = gid; }
  [[nodiscard]] const Gid& destination() const { return destination_; }
  void set_destination(const Gid& gid) { destination_ = gid; }

 private:
  void set_word(unsigned shift, std::uint32_t mask, std::uint32_t value) {
    version_class_flow_ =
        (version_class_flow_.value() & ~(mask << shift)) | ((value & mask) << shift);
  }

  boost::endian::big_uint32_buf_t version_class_flow_{};
  boost::endian::big_uint16_buf_t payload_bytes_{};
  std::uint8_t next_header_ = 0;
  std::uint8_t hop_limit_ = 0;
  Gid source_{};
  Gid destination_{};
};
inline constexpr std::size_t grh_bytes = 40;
static_assert(is_wire_struct<Grh, grh_bytes>);

}  // namespace verbena::ib
