// A TCP connection in a capture. The kernel carries its bytes, so its segments aren't seen: those
// in the capture are made up from the bytes that were sent and received, so that Wireshark finds
// the stream, its start frames and its FPDUs. What is true of them: the addresses, the bytes, their
// order, both ways, and how the connection begins and ends. What is made up: how the stream is cut
// into segments (at each of our calls to the kernel), initial sequence numbers, windows, pure
// acknowledgements (one for each acknowledged_every_bytes that go one way) and Ethernet addresses.
// Each interface of a capture says so in its description.
//
// The initial sequence numbers follow from the addresses: if both ends capture, they agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "pcap/record.h"
#include "ports/capture_file.h"
#include "ports/socket_address.h"
#include "proto/gid.h"

namespace verbena::ports {

/// A capture file as the connections of one device write to it. Any thread.
class StreamRecorder {
 public:
  /// `name` and `description` are the interface's in the capture.
  StreamRecorder(std::shared_ptr<CaptureFile> file, std::string_view name,
                 std::string_view description);
  ~StreamRecorder() { file_->flush(); }

  void record(ByteView frame, pcap::Direction direction);
  void flush() { file_->flush(); }
  /// For the child of a fork(): the file belongs to the parent.
  void abandon() { file_->abandon(); }

 private:
  std::shared_ptr<CaptureFile> file_;
  pcap::InterfaceId interface_;
};

class StreamCapture {
 public:
  static constexpr std::size_t acknowledged_every_bytes = std::size_t{1} << 20;

  StreamCapture(std::shared_ptr<StreamRecorder> recorder, const SocketAddress& local,
                const SocketAddress& remote);

  /// TCP's handshake; `is_initiator`: we began.
  void opened(bool is_initiator);
  /// A connection that was refused: SYN, and a reset in return.
  void refused();
  void sent(ByteView bytes) { data(ours_, theirs_, bytes); }
  void received(ByteView bytes) { data(theirs_, ours_, bytes); }
  /// FIN.
  void ended() { flag(ours_, theirs_, true); }
  void peer_ended() { flag(theirs_, ours_, true); }
  /// RST.
  void reset() { flag(ours_, theirs_, false); }
  void peer_reset() { flag(theirs_, ours_, false); }

 private:
  /// What one end sends.
  struct Way {
    Gid from;
    std::uint16_t port = 0;
    pcap::Direction direction = pcap::Direction::unknown;
    /// Of the next byte.
    std::uint32_t sequence = 0;
    /// Up to where the other end has acknowledged in the capture.
    std::uint32_t acknowledged = 0;
  };

  [[nodiscard]] static Way way(const SocketAddress& from, const SocketAddress& to,
                               pcap::Direction direction);
  void data(Way& from, Way& to, ByteView bytes);
  void flag(Way& from, Way& to, bool fin);
  /// Writes a segment and moves `from` on.
  void segment(Way& from, Way& to, std::uint8_t flags, ByteView options, ByteView payload);

  std::shared_ptr<StreamRecorder> recorder_;
  bool is_ipv4_;
  Way ours_;
  Way theirs_;
  /// The frame that is being made.
  std::vector<std::byte> frame_;
};

}  // namespace verbena::ports
