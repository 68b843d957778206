// The TCP of one host on a link: its ports, who listens, which connection a segment belongs to, and
// the resets for what belongs to none. Sans I/O, as the connections are (connection.h).
//
//   on_segment() ──▶ connection of (local, remote) ──▶ ... else who listens at local ──▶ a new one
//                                                  ──▶ ... else a reset
//   transmit()   ◀── segments of all connections, and resets
//
// A socket is bound, and then listens or connects; accept() gives those that came. Who owns one
// hears by its watcher that something has changed, and looks what. A socket that its owner has
// closed goes on by itself until its connection is over, for a limited time.
//
// What strangers can take is limited: connections (Settings::sockets_max), those that nobody has
// accepted yet (the backlog; the oldest that isn't open makes room), resets that wait to be sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/link_address.h"
#include "proto/inet/tcp/connection.h"
#include "proto/inet/tcp/place.h"
#include "proto/inet/tcp/siphash.h"

namespace verbena::inet {

enum class TcpRefusal : std::uint8_t {
  port_in_use,      ///< Somebody has it, or there is no ephemeral port left.
  no_such_address,  ///< None of the host's.
  no_route,         ///< The peer is in no subnet of that address.
  too_many,         ///< Settings::sockets_max.
};

/// Hears that something about a socket has changed: it was connected, bytes or somebody came, there
/// is room again, it is over. Calls nothing of the stack but const functions.
class TcpWatcher {
 public:
  virtual ~TcpWatcher() = default;
  virtual void on_tcp_change() = 0;
};

/// Where segments go, one after the other.
class TcpPacketSink {
 public:
  virtual ~TcpPacketSink() = default;
  /// As TcpSegmentSink::reserve(): room for a segment from one address to another.
  [[nodiscard]] virtual MutableBytes reserve(const Ipv6Address& source,
                                             const Ipv6Address& destination, std::size_t bytes) = 0;
  /// `times`: for the how-manieth time in a row the same segment is sent again.
  virtual void commit(TcpResend why, std::uint8_t times) = 0;
};

class TcpStack {
 public:
  struct Settings {
    /// With their subnets; there are no gateways.
    std::vector<LinkAddress> addresses;
    /// The longest IP packet that the link carries.
    std::uint16_t packet_bytes_max = 1500;
    /// All together, those that nobody owns any more included.
    std::size_t sockets_max = 1024;
    /// Ephemeral ports and the secret of initial sequence numbers: nobody shall guess them
    /// (RFC 6056, RFC 6528).
    std::function<std::uint64_t()> draw{};
  };

  struct Counters {
    /// To ports where nobody listens, or of connections that are over: answered by a reset.
    std::uint64_t strangers = 0;
    /// From or to an address that no connection can have.
    std::uint64_t addresses_refused = 0;
    /// Who wanted to connect and was ignored: the backlog or the table was full.
    std::uint64_t syns_dropped = 0;
    /// The oldest that had not completed its handshake made room.
    std::uint64_t half_open_evicted = 0;
    /// Too many waited to be sent.
    std::uint64_t resets_unsent = 0;
    /// Closed by their owner, and not by the peer within the time for it.
    std::uint64_t orphans_given_up = 0;
  };

  /// Its members are for the stack; owners read `tcp`, `local` and `remote`.
  struct Socket {
    TcpPlace local;
    TcpPlace remote;
    /// From connect(), or from a peer's SYN.
    std::unique_ptr<TcpConnection> tcp;

    TcpWatcher* watcher = nullptr;
    /// Claims its local port against others that bind.
    bool holds_port = false;
    bool shares_port = false;
    /// Of a listener: how many may wait, and who does, the oldest first.
    bool listens = false;
    std::size_t backlog = 0;
    std::deque<Socket*> waiting;
    /// Of one that waits: for whom.
    Socket* listener = nullptr;
    /// Of one that nobody owns.
    Time give_up_at = time_never;
    /// The segment that was sent again last, and how often.
    TcpSeq resent;
    std::uint8_t resent_times = 0;
  };

  explicit TcpStack(Settings settings);

  // Commands.
  /// A socket for `watcher`, which must outlive it; close() gives it back.
  [[nodiscard]] Result<Socket*, TcpRefusal> open(TcpWatcher& watcher);
  /// Port 0: an ephemeral one.
  [[nodiscard]] Result<void, TcpRefusal> bind(Socket& socket, const TcpPlace& local);
  /// `backlog` is cut to backlog_max.
  [[nodiscard]] Result<void, TcpRefusal> listen(Socket& socket, std::size_t backlog);
  /// The oldest connection that stands; nullptr if there is none.
  [[nodiscard]] Socket* accept(Socket& listener, TcpWatcher& watcher);
  [[nodiscard]] bool has_somebody(const Socket& listener) const;
  /// A socket that was bound. What it was connected to before must be over.
  [[nodiscard]] Result<void, TcpRefusal> connect(Socket& socket, const TcpPlace& remote, Time now);
  /// As the connection's own; what they have to send goes with the next transmit().
  std::size_t write(Socket& socket, ByteView bytes);
  [[nodiscard]] bool write_unit(Socket& socket, ByteView bytes);
  void consume(Socket& socket, std::size_t bytes);
  void end_sending(Socket& socket, Time now);
  /// Its owner leaves it: a listener with all who wait; a connection by FIN, or by a reset.
  void close(Socket& socket, Time now, bool reset);

  // Events in.
  struct Outcome {
    TcpVerdict verdict = TcpVerdict::ignored;
    /// The sequence number that the connection waited for.
    std::uint32_t expected = 0;
  };
  /// A segment whose checksum was found right.
  Outcome on_segment(Time now, const Ipv6Address& source, const Ipv6Address& destination,
                     const TcpSegment& segment);
  void on_timer(Time now);

  // Effects out.
  void transmit(Time now, TcpPacketSink& sink);
  /// A command since the last transmit() may have left something to send.
  [[nodiscard]] bool wants_transmit() const { return wants_transmit_; }
  [[nodiscard]] Time next_timeout() const;
  /// All that was written is acknowledged, FINs too.
  [[nodiscard]] bool has_delivered() const;

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t sockets() const { return sockets_.size(); }

  static constexpr std::size_t backlog_max = 128;
  static constexpr std::size_t resets_waiting_max = 64;
  /// RFC 6335, 6: dynamic ports.
  static constexpr std::uint16_t ephemeral_port_min = 49152;
  static constexpr std::uint16_t ephemeral_port_max = 65535;

 private:
  class SegmentSink;
  struct Reset {
    TcpHeader header;
    Ipv6Address source;
    Ipv6Address destination;
  };

  [[nodiscard]] const LinkAddress* own(const Ipv6Address& address) const;
  [[nodiscard]] Socket* find_listener(const TcpPlace& local) const;
  [[nodiscard]] bool is_claimed(const TcpPlace& local, bool shared) const;
  [[nodiscard]] std::uint16_t ephemeral_port(const Ipv6Address& address) const;
  [[nodiscard]] TcpSettings settings_for(const TcpPlace& local, const TcpPlace& remote,
                                         Time now) const;
  /// Where the sequence numbers of the last connection of these two ends stopped, if it is over and
  /// only waits, and this segment begins another one. It is forgotten.
  [[nodiscard]] std::optional<TcpSeq> replace_waiting(Socket& socket, const TcpSegment& segment);
  /// A new connection of somebody who wants one; `not_before`: see replace_waiting().
  Outcome on_listener(Time now, Socket& listener, const TcpPlace& remote, const TcpSegment& segment,
                      std::optional<TcpSeq> not_before);
  [[nodiscard]] bool make_room(Socket& listener);
  void note_progress(Socket& socket);
  void answer_stranger(const Ipv6Address& source, const Ipv6Address& destination,
                       const TcpSegment& segment);
  void send_resets(TcpPacketSink& sink);
  void leave_listener(Socket& socket);
  void forget_connection(Socket& socket);
  void erase(Socket& socket);

  Settings settings_;
  SipKey secret_;
  Counters counters_;
  /// In the order of their beginning.
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::map<std::pair<TcpPlace, TcpPlace>, Socket*> connections_;
  std::vector<Reset> resets_;
  bool wants_transmit_ = false;
};

}  // namespace verbena::inet
