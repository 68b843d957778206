// A link: whole Ethernet frames to and from whoever is at its other end, by no network interface of
// this host of which its kernel knows. What a link is called, `qemu:PATH`,
// `qemu-dgram:LOCAL,REMOTE` or `tap:NAME`, says what it is (qemu_stream.h, qemu_datagram.h,
// tap_link.h).
//
// One process at a time has a link; the frames of a wire have no place for who of several is meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "proto/inet/ethernet_sink.h"

namespace verbena::ports {

/// The longest frame: what QEMU can send (NET_BUFSIZE of QEMU's include/net/net.h).
inline constexpr std::size_t link_frame_bytes_max = std::size_t{4096} + 65536;

struct LinkPlace {
  enum class Kind : std::uint8_t { qemu_stream, qemu_datagram, tap };
  Kind kind = Kind::qemu_stream;
  /// Absolute paths of UNIX sockets; of a TAP interface its name. `remote` is that of the other
  /// end, for datagrams only.
  std::string path;
  std::string remote;

  /// The error is a sentence that says what may be written.
  [[nodiscard]] static Result<LinkPlace, std::string> from_text(std::string_view text);
  /// As from_text() reads it.
  [[nodiscard]] std::string to_text() const;
};

class Link : public inet::EthernetSink {
 public:
  /// `device` is for messages. The error is a sentence that says what to do.
  [[nodiscard]] static Result<std::unique_ptr<Link>, std::string> open(const std::string& device,
                                                                       const LinkPlace& place);

  // reserve(), commit(): frames of at most link_frame_bytes_max bytes; flush() sends them.
  virtual void flush() = 0;
  /// The next frame, valid until the next call; nullopt if there is none now. It may have any
  /// length.
  [[nodiscard]] virtual std::optional<ByteView> receive() = 0;
  /// A whole frame has been read from the socket and not been handed out.
  [[nodiscard]] virtual bool pending() const = 0;

  virtual void begin_batch(Time now) = 0;
  /// When to try again what nobody will tell of.
  [[nodiscard]] virtual Time next_deadline() const = 0;
  /// Somebody is at the other end, as far as can be known.
  [[nodiscard]] virtual bool is_up() const = 0;
  /// What happened to whoever was there last; empty if nobody was.
  [[nodiscard]] const std::string& why_down() const { return why_down_; }
  /// Frames wait until the descriptor is writable.
  [[nodiscard]] virtual bool waits_for_room() const = 0;
  /// Readable when there is something to receive, or somebody to accept. May change in any call.
  [[nodiscard]] virtual std::span<const int> descriptors() const = 0;

  /// See NetworkPort.
  virtual bool repair() = 0;
  virtual void close() = 0;

  struct Counters {
    /// Committed, and nobody got them.
    std::uint64_t frames_lost = 0;
    std::uint64_t times_blocked = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 protected:
  Counters counters_;
  std::string why_down_;
};

}  // namespace verbena::ports
