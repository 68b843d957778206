// Whole Ethernet frames of a network interface, through libpcap: what is sent reaches the wire as
// it is, and of what arrives there the kernel gives us RoCE only. Not promiscuous.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/sys.h"
#include "proto/inet/mac_address.h"

struct pcap;

namespace verbena::ports {

class RawSocket {
 public:
  /// `vlan`: frames of that VLAN only; without one, untagged frames. The error is a sentence that
  /// says what to do.
  [[nodiscard]] static Result<RawSocket, std::string> open(const std::string& interface,
                                                           std::optional<std::uint16_t> vlan);

  [[nodiscard]] int fd() const { return fd_; }
  /// Sends a frame without waiting; 0 or -errno.
  [[nodiscard]] int send(ByteView frame) const;
  /// The next frame that arrived, valid until the next call; empty if there is none.
  [[nodiscard]] ByteView receive() const;
  /// Lets frames to a group's Ethernet address through the interface's filter, or doesn't any more.
  [[nodiscard]] int set_group(const inet::MacAddress& mac, bool wanted) const;

  /// The descriptor is still ours; see Doorbell::repair().
  [[nodiscard]] bool is_intact() const;
  /// Gives up what belongs to the descriptor without closing it, for it may be another's. Nothing
  /// is sent or received from then on.
  void abandon();
  /// In a child of fork().
  void close();

 private:
  struct Closer {
    void operator()(::pcap* handle) const;
  };
  using Handle = std::unique_ptr<::pcap, Closer>;

  explicit RawSocket(Handle handle);

  Handle handle_;
  int fd_;
  ino_t inode_;
};

}  // namespace verbena::ports
