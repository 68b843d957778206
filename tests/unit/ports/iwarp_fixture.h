// iWARP engines with their connection managers, and a peer that is a plain socket.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ports/iwarp_service.h"
#include "ports/sys_tcp.h"
#include "proto/iwarp/start_frame.h"
#include "tests/unit/ports/engine_fixture.h"

namespace verbena::ports::test {

/// The address 127.0.0.1, or another of this host.
inline SocketAddress local_host(std::uint16_t port = 0) {
  return socket_address(roce::gid_from_ipv4({{127, 0, 0, 1}}), port, 0);
}

struct SeenEvent {
  IwarpEvent event;
  std::vector<std::byte> private_data;
};

/// Keeps what it hears.
class Listener final : public IwarpConsumer {
 public:
  static constexpr std::uintptr_t request_cookie = 1000;

  std::uintptr_t on_iwarp_event(const IwarpEvent& event) override {
    ++calls;
    const std::lock_guard guard(mutex_);
    seen_.push_back({event, {event.private_data.begin(), event.private_data.end()}});
    return refuses ? 0 : request_cookie + seen_.size();
  }
  [[nodiscard]] std::optional<SeenEvent> take() {
    const std::lock_guard guard(mutex_);
    if (seen_.empty()) {
      return std::nullopt;
    }
    SeenEvent first = seen_.front();
    seen_.pop_front();
    return first;
  }

  /// As long as the lock lives, the device waits in its call.
  [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }

  std::atomic<bool> refuses = false;
  /// That have begun.
  std::atomic<int> calls = 0;

 private:
  std::mutex mutex_;
  std::deque<SeenEvent> seen_;
};

inline DeviceConfig iwarp_config_at(const std::string& fabric_path) {
  DeviceConfig config = config_at(fabric_path);
  config.technology = nic::Technology::iwarp;
  return config;
}

struct IwarpNode : Node {
  explicit IwarpNode(const DeviceConfig& config, const IwarpLimits& limits = {},
                     std::size_t memory_bytes = 1 << 16)
      : Node(config, memory_bytes) {
    auto opened = IwarpService::open(*engine, config, limits);
    INFO((opened ? "" : opened.error()));
    REQUIRE(opened);
    service = std::move(*opened);
    service->set_consumer(events);
    to_init();
  }

  void to_init() {
    namespace mask = nic::qp_attr_mask;
    nic::QpAttr attr;
    attr.access_flags = Access::remote_write | Access::remote_read;
    modify(attr, nic::QpState::init,
           mask::state | mask::pkey_index | mask::port | mask::access_flags);
  }

  [[nodiscard]] nic::QpState state() {
    return engine->with_nic([&](nic::Nic&, Time) { return nic::state_of(*qp); });
  }

  /// Listens on an ephemeral port and returns it.
  std::uint16_t listen(std::uintptr_t cookie = 1) {
    const auto bound = service->bind({.address = local_host()});
    REQUIRE(bound);
    REQUIRE(service->listen(bound->id, 16, cookie) == 0);
    listening = bound->id;
    return bound->port;
  }

  IwarpConnectionId begin(std::uint16_t port, ByteView private_data = {},
                          iwarp::ReadDepths depths = {.ird = 4, .ord = 4}) {
    const auto begun = service->connect({.remote = local_host(port),
                                         .local = local_host(),
                                         .qpn = qpn(),
                                         .depths = depths,
                                         .private_data = private_data,
                                         .cookie = 2});
    INFO((begun ? 0 : begun.error()));
    REQUIRE(begun);
    return *begun;
  }

  /// The next event, which is of that kind.
  SeenEvent next(IwarpEvent::Kind kind) {
    std::optional<SeenEvent> seen;
    REQUIRE(eventually([&] {
      engine->try_progress();
      seen = events.take();
      return seen.has_value();
    }));
    REQUIRE(static_cast<int>(seen->event.kind) == static_cast<int>(kind));
    return *seen;
  }

  Listener events;
  std::unique_ptr<IwarpService> service;
  IwarpPortId listening{};
};

/// Two of them, and a connection.
struct IwarpPair {
  explicit IwarpPair(std::size_t memory_bytes = 1 << 16, const iwarp::MpaSettings& mpa = {})
      : config(make_config(mpa)), a(config, {}, memory_bytes), b(config, {}, memory_bytes) {
    a_id = a.begin(b.listen());
    b_id = b.next(IwarpEvent::Kind::request).event.id;
    REQUIRE(b.service->accept(b_id, b.qpn(), {.ird = 4, .ord = 4}, {}) == 0);
    b.next(IwarpEvent::Kind::established);
    a.next(IwarpEvent::Kind::established);
  }

  [[nodiscard]] DeviceConfig make_config(const iwarp::MpaSettings& mpa) const {
    DeviceConfig made = iwarp_config_at(directory / "a.fabric");
    made.mpa = mpa;
    return made;
  }

  TemporaryDirectory directory;
  DeviceConfig config;
  IwarpNode a;
  IwarpNode b;
  IwarpConnectionId a_id{};
  IwarpConnectionId b_id{};
};

/// A peer of no device: a socket that waits.
class PlainPeer {
 public:
  explicit PlainPeer(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    SocketAddress to = local_host(port);
    REQUIRE(::connect(fd_.get(), to.get(), to.bytes) == 0);
  }
  /// Over a connection that stands.
  explicit PlainPeer(sys::Fd fd) : fd_(std::move(fd)) {}

  bool send(ByteView bytes) const {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<long>(bytes.size());
  }
  /// What comes next, at most; nothing at the end.
  [[nodiscard]] std::vector<std::byte> receive(std::size_t bytes_max = 4096) const {
    std::vector<std::byte> bytes(bytes_max);
    const long received = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(received > 0 ? static_cast<std::size_t>(received) : 0);
    return bytes;
  }
  /// Something can be read, or the end.
  [[nodiscard]] bool has_input() const {
    pollfd wanted{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&wanted, 1, 0) != 0;
  }
  /// The other end closes or resets the connection, and says nothing more.
  [[nodiscard]] bool sees_end() const { return receive().empty(); }
  void reset() {
    static_cast<void>(sys::reset_on_close(fd_.get()));
    fd_.reset();
  }
  /// FIN. What comes is still read.
  void end() { static_cast<void>(sys::end_sending(fd_.get())); }

 private:
  sys::Fd fd_;
};

/// A host to connect to, of no device: sockets that wait.
class PlainHost {
 public:
  PlainHost() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress at = local_host();
    REQUIRE(::bind(fd_.get(), at.get(), at.bytes) == 0);
  }
  /// TCP segments to this host carry that much at most, TCP's options included.
  void offer_segments_of(int bytes) const {
    REQUIRE(::setsockopt(fd_.get(), IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof(bytes)) == 0);
  }
  /// Until then whoever connects is refused.
  void listen() const { REQUIRE(::listen(fd_.get(), 16) == 0); }
  [[nodiscard]] std::uint16_t port() const { return port_of(sys::local_address(fd_.get())); }
  [[nodiscard]] PlainPeer accept() const {
    sys::Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(fd.get() >= 0);
    return PlainPeer(std::move(fd));
  }

 private:
  sys::Fd fd_;
};

[[nodiscard]] inline std::vector<std::byte> start_frame(const iwarp::StartFrame& frame) {
  std::vector<std::byte> bytes(iwarp::start_frame_bytes(frame).value());
  iwarp::emit_start_frame(bytes, frame);
  return bytes;
}

/// A request as siw makes one, without CRC.
[[nodiscard]] inline std::vector<std::byte> request_frame() {
  return start_frame({.kind = iwarp::StartKind::request,
                      .enhanced = iwarp::EnhancedParameters{.depths = {.ird = 3, .ord = 2}}});
}

inline std::vector<std::byte> bytes_from(std::string_view text) {
  const ByteView bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline PortStatistics statistics_of(IwarpNode& node) { return node.engine->port_statistics(); }

}  // namespace verbena::ports::test
