// The connections of an iWARP device, as librdmacm.so.1 sees them: the counterpart of cm_device.h.
// The two drop-in libraries are two files: this is the interface between them, virtual functions
// and values only.
//
// A connection is a TCP connection of the operating system. Its port space is the kernel's, so
// bind() binds sockets: uniqueness, ephemeral ports and what others on this host occupy are the
// kernel's business. On a link all of that is our own TCP's, which has a port space for itself.
// Nothing is listened on before listen(), and then on addresses of the device only.
//
//   initiator   bind() ─ connect() ─► established, rejected, unreachable or failed
//   responder   bind() ─ listen() ─► request ─ accept() ─► established
//                                           └─ reject()
//   both        established ─► disconnected
//
// A queue pair that is named to connect() or accept() is in INIT. It is in RTS when the connection
// stands: for the responder when accept() returns, for the initiator when `established` comes. From
// then on the stream belongs to it: the program disconnects with disconnect() or by modifying the
// queue pair (SQD: in order, ERR or RESET: at once), or loses it with Engine::destroy_qp(); the
// connection then ends and `disconnected` comes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "ports/socket_address.h"
#include "proto/gid.h"
#include "proto/iwarp/start_frame.h"

namespace verbena::ports {

/// A port that was bound; 0 is none. Never used again.
enum class IwarpPortId : std::uint64_t {};
/// A connection; 0 is none. Never used again.
enum class IwarpConnectionId : std::uint64_t {};

struct IwarpEvent {
  enum class Kind : std::uint8_t {
    /// Somebody wants to connect to a port that we listen on. Answered by accept() or reject().
    request,
    /// The connection stands.
    established,
    /// To the initiator: the peer's program refused, or nobody listens there.
    rejected,
    /// To the initiator: no answer in time, or no way to there.
    unreachable,
    /// To the initiator: the peer says what we can't agree with, or the queue pair can't be used.
    failed,
    /// An established connection is closed in both directions, or lost.
    disconnected,
  };
  Kind kind = Kind::request;
  IwarpConnectionId id{};
  /// Of the connection; for a request that of the listener.
  std::uintptr_t cookie = 0;
  /// As Linux' iw_cm tells it: 0 or -errno. rejected: -ECONNREFUSED if nobody listens, else
  /// -ECONNRESET; unreachable: -ETIMEDOUT, -EHOSTUNREACH or -ENETUNREACH.
  int status = 0;
  /// Of the TCP connection. Where it never came to be, the remote one is what connect() named, and
  /// the local one what was bound. The local port is another than was bound if the first attempt
  /// was refused, and somebody took the port before the next.
  SocketAddress local;
  SocketAddress remote;
  /// How many READs the peer takes (ird) and wants to have in flight (ord), in its own words;
  /// nothing if it speaks revision 1, which has no words for it unless both were configured to
  /// (MpaSettings::legacy_depths). With request, established and rejected.
  std::optional<iwarp::ReadDepths> peer_depths;
  /// established: what holds in the end, from our point of view.
  iwarp::ReadDepths depths;
  /// The peer's, at most private_data_bytes_max. Valid during the call. With request, established
  /// (initiator only) and rejected.
  ByteView private_data;
};

/// Hears of everything that happens to connections. Called under the device's lock, by the
/// device's thread or by whoever calls a function of the device: be brief, and call nothing of the
/// device, of the engine or of a queue pair.
class IwarpConsumer {
 public:
  virtual ~IwarpConsumer() = default;
  /// For a request, returns the cookie of the connection that is new; 0 rejects it for want of
  /// resources. For the rest the value means nothing.
  virtual std::uintptr_t on_iwarp_event(const IwarpEvent& event) = 0;
};

struct IwarpBindClaim {
  /// An address of the device, or the wildcard of a family (0.0.0.0, ::), which stands for all of
  /// the device's addresses that the family covers. Port 0: an ephemeral one.
  SocketAddress address{};
  /// Others that say so, too, may bind the same as long as nobody listens (SO_REUSEADDR).
  bool reuse = false;
  /// ::, too, covers IPv6 only.
  bool v6_only = false;
};

struct IwarpConnect {
  SocketAddress remote{};
  /// An address of the device. Its port is unused if `bound` is there.
  SocketAddress local{};
  /// A port that was bound and is used up by this.
  IwarpPortId bound{};
  /// In INIT.
  Qpn qpn{};
  iwarp::ReadDepths depths{};
  /// At most private_data_room() bytes; copied.
  ByteView private_data{};
  std::uintptr_t cookie = 0;
};

/// Any thread may call any function. Functions that return an int return 0 or an errno value. In a
/// child of fork() all fail with EIO, those that return nothing do nothing.
class IwarpDevice {
 public:
  virtual ~IwarpDevice() = default;

  /// The one consumer of this process; it must outlive the device.
  virtual void set_consumer(IwarpConsumer& consumer) = 0;
  [[nodiscard]] virtual bool is_dead() const = 0;

  /// The device's IP addresses, IPv4 ones mapped.
  [[nodiscard]] virtual std::span<const Gid> addresses() const = 0;
  /// See DeviceConfig::address_toward().
  [[nodiscard]] virtual std::optional<Gid> address_toward(const Gid& peer) const = 0;
  /// The most that a side may take (ird), and want (ord).
  [[nodiscard]] virtual iwarp::ReadDepths depths_max() const = 0;
  /// Private data of connect(), accept() and reject() in bytes: 512, or less where the settings
  /// make MPA say more itself (revision 2: 508, with legacy depths 504).
  [[nodiscard]] virtual std::size_t private_data_room() const = 0;

  struct Bound {
    IwarpPortId id{};
    std::uint16_t port = 0;
  };
  /// EADDRINUSE, EADDRNOTAVAIL (no address of the device), EACCES (a port below 1024), EMFILE,
  /// EAFNOSUPPORT.
  virtual Result<Bound, int> bind(const IwarpBindClaim& claim) = 0;
  /// From now on requests come with this cookie. `backlog` is how many TCP connections the kernel
  /// keeps that nobody has looked at. EADDRINUSE if somebody else listens, be it on one of several
  /// addresses. When it fails, the port is released.
  virtual int listen(IwarpPortId id, int backlog, std::uintptr_t cookie) = 0;
  /// No more requests; those that nobody has answered stay to be answered. The port is free when
  /// this returns, and so is the ID.
  virtual void release(IwarpPortId id) = 0;

  /// Begins to connect; events say what became of it. EINVAL: no such port, no queue pair in INIT
  /// with that number, too much private data, depths above depths_max(); EADDRNOTAVAIL, EMFILE,
  /// EADDRINUSE from the kernel.
  virtual Result<IwarpConnectionId, int> connect(const IwarpConnect& what) = 0;
  /// The queue pair is in RTS when it returns 0, and `established` is under way, or has come. The
  /// depths are cut to what the peer offers. ECONNRESET: the peer has given up. EINVAL: no such
  /// request, no queue pair in INIT, too much private data, or depths above depths_max(); the
  /// request then still waits for an answer.
  virtual int accept(IwarpConnectionId id, Qpn qpn, const iwarp::ReadDepths& depths,
                     ByteView private_data) = 0;
  /// Tells the peer, and the connection is over. EINVAL: no such request, too much private data.
  virtual int reject(IwarpConnectionId id, ByteView private_data) = 0;
  /// Ends a connection that stands: in order (what was posted is sent first; as a change to SQD),
  /// or at once (as a change to ERR). `disconnected` follows. EINVAL if it doesn't stand (any
  /// more).
  virtual int disconnect(IwarpConnectionId id, bool at_once) = 0;
  /// Forgets a connection in any state; a request is rejected, what is under way is given up, what
  /// stands is ended as by disconnect() in order. When it returns, no event with the connection's
  /// cookie comes any more.
  virtual void destroy(IwarpConnectionId id) = 0;

  /// Remembers why a connection failed, for `verbena doctor`.
  virtual void note_failure(const std::string& sentence) = 0;
};

}  // namespace verbena::ports
