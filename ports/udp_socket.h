// An ordinary UDP socket that carries RoCE v2 so that hardware accepts it (docs/ARCHITECTURE.md,
// "RoCE v2 over an ordinary UDP socket"). Bound to one address of this host and to port 4791, so
// datagrams come from that port as well: the entropy of a source port for each QP would need a
// socket for each.
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
#include "ports/sys.h"
#include "ports/udp_batch.h"
#include "proto/inet/ip_address.h"

namespace verbena::ports {

/// One or more datagrams of one peer that the kernel joined (UDP_GRO): all of `segment_bytes`, but
/// for a shorter last one.
struct UdpArrival {
  inet::Ipv4Address peer;
  std::uint16_t peer_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::size_t bytes = 0;
  /// Never 0.
  std::size_t segment_bytes = 0;
};

class UdpSocket {
 public:
  /// The error is a sentence that says what to do.
  [[nodiscard]] static Result<UdpSocket, std::string> open(inet::Ipv4Address address);

  [[nodiscard]] inet::Ipv4Address address() const { return address_; }
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
  UdpSocket(inet::Ipv4Address address, sys::Fd socket, ino_t inode)
      : address_(address), socket_(std::move(socket)), inode_(inode) {}

  inet::Ipv4Address address_;
  sys::Fd socket_;
  ino_t inode_;
};

}  // namespace verbena::ports
