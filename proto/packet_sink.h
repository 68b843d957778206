// Where packets are built. The transport asks for room, writes headers and payload straight into
// it and commits: there is no packet object and no second copy (docs/ARCHITECTURE.md, "One copy
// out, one copy in").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "proto/address_handle.h"
#include "proto/gid.h"

namespace verbena {

/// Why a packet is sent, beyond its bytes: for comments in captures and for traces.
struct PacketNote {
  enum class Kind : std::uint8_t {
    plain,
    /// A request sent again: `attempt` tells for the how-manieth time, `cause` why.
    retransmission,
    /// An answer to a duplicate request.
    replay,
    rnr_nak,
    nak,
  };
  /// duplicate_acks: of TCP, fast retransmit.
  enum class Cause : std::uint8_t { none, timeout, nak_sequence, implied_nak, rnr, duplicate_acks };

  Kind kind = Kind::plain;
  Cause cause = Cause::none;
  std::uint8_t attempt = 0;
};

/// Takes transport packets: from the BTH to the end of the pad, without ICRC.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// Exactly `bytes` of room, or an empty span if there is none now: then nothing is lost, the
  /// caller keeps its state and is polled again later. A reservation that is not committed is
  /// forgotten by the next reserve().
  [[nodiscard]] virtual MutableBytes reserve(std::size_t bytes) = 0;
  /// Sends what was written to the last reservation, all of it.
  virtual void commit(const PacketNote& note) = 0;
};

/// The same for datagrams, each of which goes its own way.
class DatagramSink {
 public:
  virtual ~DatagramSink() = default;
  /// As PacketSink::reserve(). `to` is one that the owner of the sink made.
  [[nodiscard]] virtual MutableBytes reserve(const AddressHandle& to, Qpn destination_qpn,
                                             std::size_t bytes) = 0;
  virtual void commit(const PacketNote& note) = 0;
};

/// Where a frame goes, told beside its bytes so that a port need not parse them.
struct FrameRoute {
  Gid source;
  Gid destination;
  Qpn destination_qpn{};
  /// For ways whose IP header somebody else writes: IPv4 type of service, time to live, and the
  /// flow label of IPv6.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  /// Nobody will miss it for long: a way that stays blocked may lose it. Frames of a reliable
  /// service wait, their sender has a timer.
  bool may_be_lost = false;
};

/// Header fields that the way itself fills in, whatever the sender put there. The ICRC covers the
/// first two, so the sender has to know them before; the others are for captures to be true.
struct WayFields {
  /// Of an Ethernet frame; all zeros leaves the sender's.
  using EthernetAddress = std::array<std::uint8_t, 6>;

  /// IPv4 identification; 0 leaves the sender's.
  std::uint16_t identification = 0;
  /// 0 leaves the sender's.
  std::uint16_t udp_source_port = 0;
  EthernetAddress destination_mac{};
  EthernetAddress source_mac{};
};

/// Takes whole Ethernet frames without FCS. Ports and links implement it.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// As PacketSink::reserve(). A destination that does not exist is no reason to refuse: such a
  /// frame is taken and lost, as a network loses it.
  [[nodiscard]] virtual MutableBytes reserve(const FrameRoute& route, std::size_t bytes) = 0;
  /// What the frame that was reserved last will carry.
  [[nodiscard]] virtual WayFields way_fields() const { return {}; }
  virtual void commit(const PacketNote& note) = 0;
  /// Whether frames that were sent this way still wait for a receiver that is alive: an
  /// acknowledgement that is late may be theirs, and nothing is lost. Networks can't know, and say
  /// no.
  [[nodiscard]] virtual bool is_unread(const FrameRoute& /*route*/) { return false; }
};

}  // namespace verbena
