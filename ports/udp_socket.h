// An ordinary UDP socket that carries RoCE v2 so that hardware accepts it (docs/ARCHITECTURE.md,
// "RoCE v2 over an ordinary UDP socket"). Bound to one address of this host and to port 4791, so
// datagrams come from that port as well: the entropy of a source port for each QP would need a
// socket for each.
//
// A multicast group has a socket of its own for each interface, which only receives: sockets of an
// address don't hear what is sent to groups.
//
// Processes of one user may share an address (SO_REUSEPORT); the kernel chooses by the peer's
// address which of them receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/interfaces.h"
#include "ports/sys.h"
#include "ports/udp_batch.h"
#include "proto/gid.h"

namespace verbena::ports {

/// One or more datagrams of one peer that the kernel joined (UDP_GRO): all of `segment_bytes`, but
/// for a shorter last one.
struct UdpArrival {
  Gid peer;
  std::uint16_t peer_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  /// IPv6 only.
  std::uint32_t flow_label = 0;
  std::size_t bytes = 0;
  /// Never 0.
  std::size_t segment_bytes = 0;
};

class UdpSocket {
 public:
  /// The error is a sentence that says what to do.
  [[nodiscard]] static Result<UdpSocket, std::string> open(const InterfaceAddress& place);
  /// For what is sent to `group` on the interface of `place`. Each process that has one gets a
  /// copy.
  [[nodiscard]] static Result<UdpSocket, std::string> open_group(const InterfaceAddress& place,
                                                                 const Gid& group);

  /// Where datagrams go that it receives: its own address, or the group.
  [[nodiscard]] const Gid& address() const { return group_ ? *group_ : place_.address; }
  [[nodiscard]] bool is_group() const { return group_.has_value(); }
  [[nodiscard]] const InterfaceAddress& place() const { return place_; }
  [[nodiscard]] int fd() const { return socket_.get(); }

  /// Sends a batch in one call; 0 or -errno.
  [[nodiscard]] int send(const UdpBatch& batch) const;
  /// Receives into `buffer` without waiting. Errors count as nothing received.
  [[nodiscard]] std::optional<UdpArrival> receive(MutableBytes buffer) const;

  /// See Doorbell::repair(). True if the descriptor was lost; the socket is bound anew, if that can
  /// be.
  bool repair();
  void close() { socket_.reset(); }

 private:
  [[nodiscard]] int send(const UdpBatch& batch, const UdpDestination& destination) const;
  UdpSocket(InterfaceAddress place, const std::optional<Gid>& group, sys::Fd socket);
  [[nodiscard]] static Result<UdpSocket, std::string> open(const InterfaceAddress& place,
                                                           const std::optional<Gid>& group);

  InterfaceAddress place_;
  std::optional<Gid> group_;
  sys::Fd socket_;
  ino_t inode_;
};

}  // namespace verbena::ports
