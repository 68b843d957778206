// The communication manager of a port: makes and ends connections by exchanging MADs, and resolves
// service IDs to UD queue pairs. Sans I/O: messages, commands and time come in, messages and
// events go out.
// Read first: IBTA vol 1, 12.9 (state transitions), 12.11 (SIDR), 12.6 (messages).
//
//      active                                       passive
//
//   connect()                                              REQ for a listener
//      │ ▷REQ                                                    │ request
//      ▼                                                         ▼
//   req_sent ──────────REJ, or no answer────▶ closed      req_received ──reject()▷REJ──▶ closed
//      │ REP                                                     │ accept() ▷REP
//      ▼ reply                                                   ▼
//   rep_received ──────reject()▷REJ, REJ────▶ closed        rep_sent ──REJ, or no answer─▶ closed
//      │ ready() ▷RTU                                            │ RTU, or establish()
//      └──────────────▶ established ◀────────────────────────────┘ established
//                         │       │
//         disconnect()▷DREQ       DREQ: disconnected
//                         ▼       ▼
//                  dreq_sent     dreq_received
//       DREP, DREQ▷DREP,  │       │ disconnect() ▷DREP
//          or no answer:  ▼       ▼
//          disconnected  timewait ──time──▶ closed: timewait_exit
//
// ▷ marks what is sent. What was sent and is not answered in time is sent again, until the retries
// are used up. A duplicate is answered as its first copy was, or with a MRA while the consumer
// makes up its mind.
//
// An end in `timewait` keeps its communication ID, so that late duplicates of a DREQ find someone
// who answers. A REQ from a queue pair that we believe connected is a stale connection: it is
// rejected (REJ 10), and the old connection ends (12.9.8.3.1). A queue pair in timewait doesn't
// count: its owner knows best when it may be used again, and ours are used again soon where packets
// can't linger.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/time.h"
#include "proto/gid.h"
#include "proto/ib_bth/cm/messages.h"
#include "proto/ib_bth/cm/reject_reason.h"

namespace verbena::ib::cm {

struct Connection;

/// How MADs get to the peer's QP1.
struct Route {
  Gid local;
  Gid remote;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t sl = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// What the consumer hears.
struct Event {
  enum class Kind : std::uint8_t {
    /// A REQ for a listener: `id` is the new connection, `cookie` the listener's. Answer with
    /// accept() or reject(); `message` is the REQ.
    request,
    /// The REP to our REQ; answer with ready() or reject().
    reply,
    /// RTU came, or establish() was called. `message` is the RTU, if it was that.
    established,
    /// `message` is the REJ.
    rejected,
    /// No answer, after all retries.
    unreachable,
    /// The peer has sent a DREQ (`message`), or our own was answered or given up.
    disconnected,
    timewait_exit,
    /// A SIDR_REQ for a listener; answer with answer().
    sidr_request,
    /// The SIDR_REP to our SIDR_REQ.
    sidr_reply,
  };
  Kind kind{};
  CommId id{};
  /// The consumer's name of the connection, of the listener for requests.
  std::uintptr_t cookie = 0;
  /// Of requests: where they came from.
  Route route;
  std::optional<Message> message;
};

/// A MAD on its way to the peer's QP1.
struct Outgoing {
  Route route;
  Mad mad;
};

/// What became of a MAD.
enum class MadVerdict : std::uint8_t {
  accepted,
  /// Seen before; answered again if that helps.
  duplicate,
  /// Out of place, or for a connection that no longer exists here; answered where the specification
  /// wants that.
  unexpected,
  /// Names a communication ID that isn't of this agent: somebody else behind this address may know
  /// it.
  not_ours,
  /// A request for a service that nobody here listens on. If nobody else behind this address does,
  /// refuse() it.
  no_listener,
  malformed,
};

struct AgentConfig {
  std::uint64_t ca_guid = 0;
  /// Communication IDs of this agent have this upper byte: several agents behind one address share
  /// the 32 bits, and each knows what is not its own.
  std::uint8_t id_prefix = 0;
  /// Whoever doesn't answer is given up after so long, where the parameters of the connection would
  /// have us wait longer; it is asked as often as they say.
  Duration patience_max = Duration::max();
};

class Agent {
 public:
  /// `seed`: where communication IDs begin.
  Agent(const AgentConfig& config, std::uint64_t seed);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Listening.

  /// Requests for `service` go to the consumer as events with this cookie. With an address, only
  /// those to that GID: such a listener comes before one without.
  void listen(std::uintptr_t cookie, ServiceId service, const std::optional<Gid>& address);
  void unlisten(std::uintptr_t cookie);

  // Commands. Those that return bool do nothing and return false in a wrong state.

  /// Sends a REQ. The agent fills in its own communication ID and GUID.
  CommId connect(Time now, const Route& route, Req req, std::uintptr_t cookie);
  /// A request's connection gets its own cookie, in the place of the listener's.
  void set_cookie(CommId id, std::uintptr_t cookie);
  /// Answers a request. The agent fills in the communication IDs and its GUID.
  bool accept(Time now, CommId id, Rep rep);
  /// The answer to a reply.
  bool ready(Time now, CommId id, const PrivateData<224>& private_data);
  bool reject(Time now, CommId id, RejectReason reason, ByteView info, ByteView private_data);
  /// The peer's first packet came before its RTU: as if the RTU had come (12.9.7.1).
  bool establish(Time now, CommId id);
  /// Begins to disconnect, or agrees to the peer's wish.
  bool disconnect(Time now, CommId id, ByteView private_data);
  /// Asks for the UD queue pair of a service. `answer_time` and `retries_max` as in a REQ.
  CommId resolve(Time now, const Route& route, SidrReq req, Duration answer_time,
                 std::uint8_t retries_max, std::uintptr_t cookie);
  /// Answers a SIDR_REQ; that ends it.
  bool answer(Time now, CommId id, SidrRep rep);
  /// Ends whatever is under way, properly, and forgets the cookie: no event comes any more.
  void destroy(Time now, CommId id);
  /// The same for everything that there is.
  void destroy_all(Time now);
  /// The peer is known to have died: its connection ends now, not after all retries.
  void lose_peer(Time now, CommId id);

  // Events in.

  /// A MAD that arrived at QP1, over `route` as an answer to it would go.
  MadVerdict on_mad(Time now, const Route& route, ByteView mad);
  /// Tells the sender of a request that nobody listens: REJ 8, or SIDR status 1.
  void refuse(const Route& route, ByteView mad);
  void on_timer(Time now);

  // Effects out.

  [[nodiscard]] std::optional<Outgoing> poll_transmit();
  [[nodiscard]] std::optional<Event> poll_event();
  [[nodiscard]] Time next_timeout() const;

  // For reports and leak checks.

  struct Peer {
    CommId id{};
    CommId remote_id{};
    Gid remote;
  };
  /// The connections whose peer has named itself.
  [[nodiscard]] std::vector<Peer> peers() const;
  /// Everything that is not over, timewait included.
  [[nodiscard]] std::size_t count() const;

 private:
  /// Which of a peer's connections, or SIDR requests, a message belongs to.
  using RemoteKey = std::tuple<Gid, std::uint64_t, CommId>;
  using RemoteQp = std::tuple<Gid, std::uint64_t, Qpn>;
  struct Listener {
    std::uintptr_t cookie;
    ServiceId service;
    std::optional<Gid> address;
  };

  Connection& create(const Route& route);
  [[nodiscard]] Connection* find(CommId id);
  /// As find(), if the message is of the connection's peer.
  [[nodiscard]] Connection* find(CommId id, CommId remote_id);
  void erase(Connection& connection);
  void set_deadline(Connection& connection, Time deadline);
  void raise(const Connection& connection, Event::Kind kind,
             const std::optional<Message>& message = std::nullopt);
  [[nodiscard]] const Listener* listener_for(ServiceId service, const Gid& address) const;
  [[nodiscard]] bool is_own(CommId id) const;
  [[nodiscard]] std::uint64_t new_transaction(CommId id);

  void send(const Route& route, std::uint64_t transaction_id, const Message& message);
  /// Sends, and again until answered.
  void send_until_answered(Time now, Connection& connection, const Message& message);
  void send_again(Connection& connection);
  void send_drep(const Connection& connection, ByteView private_data);
  void send_mra(const Connection& connection, Answered answered);
  /// `answered`: which of the peer's messages it rejects.
  void send_rej(const Route& route, std::uint64_t transaction_id, CommId id, CommId remote_id,
                Answered answered, RejectReason reason);

  /// The exchange is over: nothing is sent again, no duplicates are expected.
  void close(Connection& connection);
  void enter_timewait(Time now, Connection& connection);
  void begin_disconnect(Time now, Connection& connection, ByteView private_data);
  void on_timeout(Time now, Connection& connection);
  /// Remembers the peer's queue pair; or returns the connection that has it already, and so is
  /// stale.
  [[nodiscard]] Connection* claim_remote_qp(Connection& connection, std::uint64_t guid, Qpn qpn);
  void end_stale(Time now, Connection& stale);
  void forget_remote_qp(Connection& connection);

  // agent_receive.cpp
  MadVerdict on_req(Time now, const Route& route, const Envelope& envelope, const Req& req);
  MadVerdict on_duplicate_req(Connection& connection);
  MadVerdict on_mra(Time now, const Mra& mra);
  MadVerdict on_rej(Time now, const Route& route, const Rej& rej);
  MadVerdict on_rep(Time now, const Route& route, const Envelope& envelope, const Rep& rep);
  MadVerdict on_rtu(Time now, const Rtu& rtu);
  MadVerdict on_dreq(Time now, const Route& route, const Envelope& envelope, const Dreq& dreq);
  MadVerdict on_drep(Time now, const Drep& drep);
  MadVerdict on_lap(const Route& route, const Envelope& envelope, const Lap& lap);
  MadVerdict on_sidr_req(Time now, const Route& route, const Envelope& envelope,
                         const SidrReq& req);
  MadVerdict on_sidr_rep(Time now, const SidrRep& rep);

  AgentConfig config_;
  Prng prng_;
  std::uint32_t next_id_;
  std::map<CommId, Connection> connections_;
  std::map<RemoteKey, CommId> by_remote_;
  std::map<RemoteQp, CommId> by_remote_qp_;
  std::set<std::pair<Time, CommId>> deadlines_;
  std::vector<Listener> listeners_;
  std::deque<Outgoing> outgoing_;
  std::deque<Event> events_;
};

}  // namespace verbena::ib::cm
