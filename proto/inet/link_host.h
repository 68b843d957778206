// A host on an Ethernet link, as far as a NIC without a kernel needs one: it answers who asks for
// its addresses (ARP, neighbour discovery) and whether it is there (echo), and finds out the
// Ethernet addresses of others. All else that arrives is somebody else's.
//
//   frames ──▶ on_frame() ──▶ answers into the sink, or "not mine": RoCE, TCP, ...
//   resolve() ──▶ known, pending or unreachable;  transmit() sends the questions that are due
//
// Not spoken: fragments, IPv4 options, IPv6 extension headers, router discovery, IGMP and MLD.
// There are no gateways: what is in none of the subnets is unreachable.
//
// Read first: RFC 826 (ARP), RFC 1122 section 3.2.2.6 (echo), RFC 4861 section 7, RFC 4443 section
// 4.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "proto/inet/arp.h"
#include "proto/inet/ethernet_sink.h"
#include "proto/inet/icmp.h"
#include "proto/inet/link_address.h"
#include "proto/inet/neighbour_table.h"
#include "proto/inet/parse.h"

namespace verbena::inet {

class LinkHost {
 public:
  enum class Verdict : std::uint8_t {
    /// Of a protocol that is not this host's to speak.
    not_mine,
    answered,
    /// Learned from it, or needs no answer.
    noted,
    /// For another host, or a kind of message that nobody here speaks.
    ignored,
    /// Headers that contradict each other, a wrong checksum.
    refused,
  };

  struct Counters {
    std::uint64_t answered = 0;
    /// The sink had no room for an answer or a question.
    std::uint64_t unsent = 0;
    std::uint64_t questions = 0;
    /// Frames of others that claim an address of this host.
    std::uint64_t conflicts = 0;
  };

  /// `addresses`: with their subnets, IPv4 mapped. The link-local address that belongs to `mac` is
  /// the host's, too.
  LinkHost(const MacAddress& mac, std::vector<LinkAddress> addresses);

  /// Looks at a frame and answers it.
  Verdict on_frame(ByteView frame, Time now, EthernetSink& sink);

  /// Who gets frames to `address`, which is no group and none of the host's own.
  [[nodiscard]] NeighbourAnswer resolve(const Ipv6Address& address, Time now);
  /// The host's address from which `address` is reached; nullopt if it is in none of the subnets.
  [[nodiscard]] std::optional<Ipv6Address> source_toward(const Ipv6Address& address) const;
  /// Sends what is due.
  void transmit(Time now, EthernetSink& sink);
  /// When transmit() has something to do.
  [[nodiscard]] Time next_timeout() const { return neighbours_.next_timeout(); }

  /// The link was out and is back: whoever didn't answer may do so now.
  void on_link_up() { neighbours_.forget_failures(); }

  [[nodiscard]] const MacAddress& mac() const { return mac_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const NeighbourTable& neighbours() const { return neighbours_; }

 private:
  [[nodiscard]] bool is_own(const Ipv6Address& address) const;

  Verdict on_arp(ByteView bytes, Time now, EthernetSink& sink);
  Verdict on_icmp(const EthernetHeader& ethernet, const Ipv4Packet& packet, EthernetSink& sink);
  Verdict on_icmpv6(const EthernetHeader& ethernet, const Ipv6Packet& packet, Time now,
                    EthernetSink& sink);
  Verdict on_neighbour_message(const EthernetHeader& ethernet, const Ipv6Packet& packet, Time now,
                               EthernetSink& sink);

  [[nodiscard]] Verdict echo(const EthernetHeader& ethernet, const Ipv6Packet& packet,
                             EthernetSink& sink);
  [[nodiscard]] Verdict advertise(const EthernetHeader& ethernet, const Ipv6Packet& packet,
                                  const NeighbourNotice& notice, EthernetSink& sink);
  void ask(const NeighbourTable::Question& question, EthernetSink& sink);
  void ask_by_arp(Ipv4Address own, Ipv4Address target, const std::optional<MacAddress>& mac,
                  EthernetSink& sink);
  void solicit(const Ipv6Address& own, const Ipv6Address& target,
               const std::optional<MacAddress>& mac, EthernetSink& sink);

  /// Room for a frame with its Ethernet header written; empty, and counted, if there is none.
  [[nodiscard]] MutableBytes begin_frame(const MacAddress& to, std::uint16_t ethertype,
                                         std::size_t payload_bytes, EthernetSink& sink);

  MacAddress mac_;
  std::vector<LinkAddress> addresses_;
  NeighbourTable neighbours_;
  Counters counters_;
};

}  // namespace verbena::inet
