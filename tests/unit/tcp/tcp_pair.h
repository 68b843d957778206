// Two TCP connections and the network between them, in virtual time. The test decides what becomes
// of each segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proto/inet/tcp/connection.h"

namespace verbena::test {

using Bytes = std::vector<std::byte>;
using Lines = std::vector<std::string>;

/// Bytes that don't repeat soon.
[[nodiscard]] Bytes pattern(std::size_t bytes, unsigned seed = 1);

/// A segment as it was sent, with numbers counted from the initial ones.
struct Sent {
  bool from_a = false;
  inet::TcpHeader header;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgement = 0;
  std::size_t payload_bytes = 0;
  inet::TcpResend why = inet::TcpResend::none;
  Time at;
  Bytes bytes;

  [[nodiscard]] bool has(std::uint8_t flag) const { return header.has(flag); }
};
/// "a SYN 0", "b SYN 0 ACK 1", "a 1+1460 ACK 1", "a FIN 11 ACK 1 (timeout)".
[[nodiscard]] std::string describe(const Sent& sent);

class TcpPair {
 public:
  static constexpr Duration delay = std::chrono::milliseconds(10);
  static constexpr std::uint32_t initial_a = 0xFFFF'FF00;  // Wraps soon.
  static constexpr std::uint32_t initial_b = 0x7FFF'FFF0;

  /// How long each copy of a segment takes; none: it is lost.
  using Fate = std::vector<Duration>;
  using Network = std::function<Fate(const Sent& sent)>;

  explicit TcpPair(inet::TcpSettings a = settings_of_a(), inet::TcpSettings b = settings_of_b());
  [[nodiscard]] static inet::TcpSettings settings_of_a();
  [[nodiscard]] static inet::TcpSettings settings_of_b();
  /// b listens, a connects, all is well.
  void open();

  /// Until `done`, or nothing is left to happen, or `limit` is over. True if `done`.
  bool run(const std::function<bool()>& done, Duration limit = std::chrono::hours(1));
  /// Until nothing is under way; timers that are due later don't run.
  void settle();
  void advance(Duration time);
  /// Sends all that `side` has to send now.
  void transmit();
  inet::TcpVerdict deliver(bool to_a, ByteView segment);

  /// Everything that can be read, which is taken away.
  static Bytes read(inet::TcpConnection& side);
  /// A segment as the peer of that side could send it; numbers counted from the initial ones.
  [[nodiscard]] Bytes forged(bool to_a, std::uint8_t flags, std::int64_t sequence,
                             std::int64_t acknowledgement, ByteView payload = {},
                             std::uint16_t window = 1000) const;

  [[nodiscard]] Lines lines() const;

  inet::TcpConnection a;
  inet::TcpConnection b;
  Time now{};
  Network network = [](const Sent&) { return Fate{delay}; };
  std::vector<Sent> log;

 private:
  struct Arrival {
    bool to_a = false;
    Bytes bytes;
  };
  void transmit(bool is_a);
  /// The next thing to happen; false if nothing is left, or not before `limit`.
  bool step(Time limit, bool with_timers);

  std::multimap<Time, Arrival> under_way_;
};

}  // namespace verbena::test
