// The messages of the communication manager: values, and their layouts.
// Read first: IBTA vol 1, 12.6 (message contents), 16.7 (they are MADs).
//
// A member is in host order and holds what the wire can carry: the widths are in the tables of
// fields, next to their places. Timeouts are codes: 4.096 us * 2^code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "proto/gid.h"
#include "proto/ib_bth/cm/field.h"
#include "proto/ib_bth/cm/mad.h"

namespace verbena::ib::cm {

/// Which message a MAD is (16.7.2). `Attribute` in MAD terms.
enum class AttributeId : std::uint16_t {
  req = 0x10,
  mra = 0x11,
  rej = 0x12,
  rep = 0x13,
  rtu = 0x14,
  dreq = 0x15,
  drep = 0x16,
  sidr_req = 0x17,
  sidr_rep = 0x18,
  lap = 0x19,
  apr = 0x1A,
};

/// The name that IBTA vol 1, 16.7.2 and Wireshark give a message, "ConnectRequest"; nullptr for a
/// number that is none.
[[nodiscard]] const char* name_of(AttributeId id) noexcept;

/// Names one end of a connection, chosen by that end (12.3). Of a SIDR exchange: the request.
enum class CommId : std::uint32_t {};
/// What a listener listens on (12.3, annex A3).
enum class ServiceId : std::uint64_t {};

/// 4.096 us * 2^code, code <= 31.
[[nodiscard]] constexpr Duration timeout_of(std::uint8_t code) {
  return Duration(std::int64_t{4096} << (code & 31U));
}

template <std::size_t bytes>
using PrivateData = std::array<std::byte, bytes>;

/// The message that a MRA or REJ answers (12.6.6, 12.6.7).
enum class Answered : std::uint8_t { req = 0, rep = 1, other = 2 };

/// Transport of the connection (12.6.5).
enum class TransportType : std::uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };
/// What Req::extended_transport says of an extended one (annex A14). There is no other.
inline constexpr std::uint8_t extended_transport_xrc = 1;

/// A path as a REQ describes it, seen from its sender.
struct ReqPath {
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label = 0;
  std::uint8_t packet_rate = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t sl = 0;
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;

  static constexpr auto fields() {
    return std::tuple{
        field("local_lid", &ReqPath::local_lid, 0, 16),
        field("remote_lid", &ReqPath::remote_lid, 2, 16),
        block("local_gid", &ReqPath::local_gid, 4),
        block("remote_gid", &ReqPath::remote_gid, 20),
        field("flow_label", &ReqPath::flow_label, 36, 20),
        field_at_bit("packet_rate", &ReqPath::packet_rate, 39, 2, 6),
        field("traffic_class", &ReqPath::traffic_class, 40, 8),
        field("hop_limit", &ReqPath::hop_limit, 41, 8),
        field("sl", &ReqPath::sl, 42, 4),
        field_at_bit("subnet_local", &ReqPath::subnet_local, 42, 4, 1),
        field("local_ack_timeout", &ReqPath::local_ack_timeout, 43, 5),
    };
  }
};

/// Request for communication (12.6.5, table 106).
struct Req {
  static constexpr AttributeId attribute = AttributeId::req;
  CommId local_comm_id{};
  ServiceId service_id{};
  std::uint64_t local_ca_guid = 0;
  Qkey local_qkey{};
  Qpn local_qpn{};
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;
  std::uint8_t remote_cm_response_timeout = 0;
  TransportType transport = TransportType::rc;
  bool end_to_end_flow_control = false;
  /// With which whoever gets this message begins to send.
  Psn starting_psn{};
  std::uint8_t local_cm_response_timeout = 0;
  std::uint8_t retry_count = 0;
  Pkey pkey{};
  std::uint8_t path_mtu = 0;
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t max_cm_retries = 0;
  bool srq = false;
  std::uint8_t extended_transport = 0;
  ReqPath primary{};
  ReqPath alternate{};
  PrivateData<92> private_data{};

  /// An XRC initiator asks for an XRC target.
  [[nodiscard]] constexpr bool is_xrc() const {
    return transport == TransportType::extended && extended_transport == extended_transport_xrc;
  }

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Req::local_comm_id, 0, 32),
        field("service_id", &Req::service_id, 8, 64),
        field("local_ca_guid", &Req::local_ca_guid, 16, 64),
        field("local_qkey", &Req::local_qkey, 28, 32),
        field("local_qpn", &Req::local_qpn, 32, 24),
        field("responder_resources", &Req::responder_resources, 35, 8),
        field("local_eecn", &Req::local_eecn, 36, 24),
        field("initiator_depth", &Req::initiator_depth, 39, 8),
        field("remote_eecn", &Req::remote_eecn, 40, 24),
        field("remote_cm_response_timeout", &Req::remote_cm_response_timeout, 43, 5),
        field_at_bit("transport", &Req::transport, 43, 5, 2),
        field_at_bit("end_to_end_flow_control", &Req::end_to_end_flow_control, 43, 7, 1),
        field("starting_psn", &Req::starting_psn, 44, 24),
        field("local_cm_response_timeout", &Req::local_cm_response_timeout, 47, 5),
        field_at_bit("retry_count", &Req::retry_count, 47, 5, 3),
        field("pkey", &Req::pkey, 48, 16),
        field("path_mtu", &Req::path_mtu, 50, 4),
        field_at_bit("rdc_exists", &Req::rdc_exists, 50, 4, 1),
        field_at_bit("rnr_retry_count", &Req::rnr_retry_count, 50, 5, 3),
        field("max_cm_retries", &Req::max_cm_retries, 51, 4),
        field_at_bit("srq", &Req::srq, 51, 4, 1),
        field_at_bit("extended_transport", &Req::extended_transport, 51, 5, 3),
        block("primary", &Req::primary, 52),
        block("alternate", &Req::alternate, 96),
        block("private_data", &Req::private_data, 140),
    };
  }
};

/// Message receipt acknowledgement (12.6.6, table 107).
struct Mra {
  static constexpr AttributeId attribute = AttributeId::mra;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Answered answered = Answered::req;
  std::uint8_t service_timeout = 0;
  PrivateData<222> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Mra::local_comm_id, 0, 32),
        field("remote_comm_id", &Mra::remote_comm_id, 4, 32),
        field("message_mraed", &Mra::answered, 8, 2),
        field("service_timeout", &Mra::service_timeout, 9, 5),
        block("private_data", &Mra::private_data, 10),
    };
  }
};

/// Why a REJ rejects (12.6.7.2, table 109): reject_reason.h has the words.
enum class RejectReason : std::uint16_t;

/// Reject (12.6.7, table 108).
struct Rej {
  static constexpr AttributeId attribute = AttributeId::rej;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Answered answered = Answered::req;
  /// Bytes of `info` that count.
  std::uint8_t info_bytes = 0;
  RejectReason reason{};
  PrivateData<72> info{};
  PrivateData<148> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Rej::local_comm_id, 0, 32),
        field("remote_comm_id", &Rej::remote_comm_id, 4, 32),
        field("message_rejected", &Rej::answered, 8, 2),
        field("info_bytes", &Rej::info_bytes, 9, 7),
        field("reason", &Rej::reason, 10, 16),
        block("info", &Rej::info, 12),
        block("private_data", &Rej::private_data, 84),
    };
  }
};

/// Reply to a request for communication (12.6.8, table 110).
struct Rep {
  static constexpr AttributeId attribute = AttributeId::rep;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Qkey local_qkey{};
  Qpn local_qpn{};
  std::uint32_t local_eecn = 0;
  /// With which whoever gets this message begins to send.
  Psn starting_psn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;
  std::uint8_t failover_accepted = 0;
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  PrivateData<196> private_data{};

  /// The replier's queue pair. An XRC target names its own where others name an end-to-end context
  /// (annex A14), and leaves the usual place empty.
  [[nodiscard]] constexpr Qpn queue_pair() const {
    return local_qpn != Qpn{} ? local_qpn : Qpn{local_eecn};
  }

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Rep::local_comm_id, 0, 32),
        field("remote_comm_id", &Rep::remote_comm_id, 4, 32),
        field("local_qkey", &Rep::local_qkey, 8, 32),
        field("local_qpn", &Rep::local_qpn, 12, 24),
        field("local_eecn", &Rep::local_eecn, 16, 24),
        field("starting_psn", &Rep::starting_psn, 20, 24),
        field("responder_resources", &Rep::responder_resources, 24, 8),
        field("initiator_depth", &Rep::initiator_depth, 25, 8),
        field("target_ack_delay", &Rep::target_ack_delay, 26, 5),
        field_at_bit("failover_accepted", &Rep::failover_accepted, 26, 5, 2),
        field_at_bit("end_to_end_flow_control", &Rep::end_to_end_flow_control, 26, 7, 1),
        field("rnr_retry_count", &Rep::rnr_retry_count, 27, 3),
        field_at_bit("srq", &Rep::srq, 27, 3, 1),
        field("local_ca_guid", &Rep::local_ca_guid, 28, 64),
        block("private_data", &Rep::private_data, 36),
    };
  }
};

/// Ready to use (12.6.9, table 111).
struct Rtu {
  static constexpr AttributeId attribute = AttributeId::rtu;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  PrivateData<224> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Rtu::local_comm_id, 0, 32),
        field("remote_comm_id", &Rtu::remote_comm_id, 4, 32),
        block("private_data", &Rtu::private_data, 8),
    };
  }
};

/// Request for communication release (12.6.10, table 112).
struct Dreq {
  static constexpr AttributeId attribute = AttributeId::dreq;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Qpn remote_qpn{};
  PrivateData<220> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Dreq::local_comm_id, 0, 32),
        field("remote_comm_id", &Dreq::remote_comm_id, 4, 32),
        field("remote_qpn", &Dreq::remote_qpn, 8, 24),
        block("private_data", &Dreq::private_data, 12),
    };
  }
};

/// Reply to a request for communication release (12.6.11, table 113).
struct Drep {
  static constexpr AttributeId attribute = AttributeId::drep;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  PrivateData<224> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Drep::local_comm_id, 0, 32),
        field("remote_comm_id", &Drep::remote_comm_id, 4, 32),
        block("private_data", &Drep::private_data, 8),
    };
  }
};

/// The alternate path that a LAP wants loaded; not laid out as in a REQ.
struct LapPath {
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t packet_rate = 0;
  std::uint8_t sl = 0;
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;

  static constexpr auto fields() {
    return std::tuple{
        field("local_lid", &LapPath::local_lid, 0, 16),
        field("remote_lid", &LapPath::remote_lid, 2, 16),
        block("local_gid", &LapPath::local_gid, 4),
        block("remote_gid", &LapPath::remote_gid, 20),
        field("flow_label", &LapPath::flow_label, 36, 20),
        field("traffic_class", &LapPath::traffic_class, 39, 8),
        field("hop_limit", &LapPath::hop_limit, 40, 8),
        field_at_bit("packet_rate", &LapPath::packet_rate, 41, 2, 6),
        field("sl", &LapPath::sl, 42, 4),
        field_at_bit("subnet_local", &LapPath::subnet_local, 42, 4, 1),
        field("local_ack_timeout", &LapPath::local_ack_timeout, 43, 5),
    };
  }
};

/// Load alternate path (12.8.1, table 115).
struct Lap {
  static constexpr AttributeId attribute = AttributeId::lap;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  Qpn remote_qpn{};
  std::uint8_t remote_cm_response_timeout = 0;
  LapPath alternate{};
  PrivateData<168> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Lap::local_comm_id, 0, 32),
        field("remote_comm_id", &Lap::remote_comm_id, 4, 32),
        field("remote_qpn", &Lap::remote_qpn, 12, 24),
        field("remote_cm_response_timeout", &Lap::remote_cm_response_timeout, 15, 5),
        block("alternate", &Lap::alternate, 20),
        block("private_data", &Lap::private_data, 64),
    };
  }
};

/// What became of a LAP (12.8.2): those that we say.
enum class AprStatus : std::uint8_t { accepted = 0, invalid_comm_id = 1, not_supported = 2 };

/// Alternate path response (12.8.2, table 116).
struct Apr {
  static constexpr AttributeId attribute = AttributeId::apr;
  CommId local_comm_id{};
  CommId remote_comm_id{};
  std::uint8_t info_bytes = 0;
  AprStatus status = AprStatus::accepted;
  PrivateData<72> info{};
  PrivateData<148> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("local_comm_id", &Apr::local_comm_id, 0, 32),
        field("remote_comm_id", &Apr::remote_comm_id, 4, 32),
        field("info_bytes", &Apr::info_bytes, 8, 8),
        field("status", &Apr::status, 9, 8),
        block("info", &Apr::info, 12),
        block("private_data", &Apr::private_data, 84),
    };
  }
};

/// Service ID resolution request: asks for the UD queue pair behind a service (12.11.1, table 119).
struct SidrReq {
  static constexpr AttributeId attribute = AttributeId::sidr_req;
  CommId request_id{};
  Pkey pkey{};
  ServiceId service_id{};
  PrivateData<216> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("request_id", &SidrReq::request_id, 0, 32),
        field("pkey", &SidrReq::pkey, 4, 16),
        field("service_id", &SidrReq::service_id, 8, 64),
        block("private_data", &SidrReq::private_data, 16),
    };
  }
};

/// What a SIDR_REP says (12.11.2.1).
enum class SidrStatus : std::uint8_t {
  valid = 0,
  unsupported = 1,
  rejected = 2,
  no_qp = 3,
  redirected = 4,
  unsupported_version = 5,
};

/// Service ID resolution response (12.11.2, table 120).
struct SidrRep {
  static constexpr AttributeId attribute = AttributeId::sidr_rep;
  CommId request_id{};
  SidrStatus status = SidrStatus::valid;
  std::uint8_t info_bytes = 0;
  Qpn qpn{};
  ServiceId service_id{};
  Qkey qkey{};
  PrivateData<72> info{};
  PrivateData<136> private_data{};

  static constexpr auto fields() {
    return std::tuple{
        field("request_id", &SidrRep::request_id, 0, 32),
        field("status", &SidrRep::status, 4, 8),
        field("info_bytes", &SidrRep::info_bytes, 5, 8),
        field("qpn", &SidrRep::qpn, 8, 24),
        field("service_id", &SidrRep::service_id, 12, 64),
        field("qkey", &SidrRep::qkey, 20, 32),
        block("info", &SidrRep::info, 24),
        block("private_data", &SidrRep::private_data, 96),
    };
  }
};

using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

[[nodiscard]] AttributeId attribute_of(const Message& message);

/// A message and what its MAD header adds.
struct Envelope {
  std::uint64_t transaction_id = 0;
  /// 0, or a vendor's negotiation of enhanced connection establishment.
  std::uint32_t attribute_modifier = 0;
  Message message;
};

/// Why bytes are not a message of the communication manager. Such a MAD is dropped.
enum class MadError : std::uint8_t {
  truncated,
  not_communication_management,
  version,
  method,
  unknown_attribute,
};

[[nodiscard]] const char* describe(MadError error) noexcept;

[[nodiscard]] Result<Envelope, MadError> parse(ByteView mad);

using Mad = std::array<std::byte, mad_bytes>;
[[nodiscard]] Mad emit(const Envelope& envelope);

}  // namespace verbena::ib::cm
