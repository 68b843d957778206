// Two Nics in virtual time, joined by a cable with a delay and as many faults as a test asks for.
//
//     Pair pair;
//     const Connection qps = pair.connect();
//     pair.drop(Side::a, nth(2));
//     pair.post(Side::a, *qps.a, pair.a.write(1, {0, 5000}, pair.b, 0));
//     pair.run_until_idle();
//     CHECK(pair.a.completions() == Lines{"1 write success"});
//
// Nothing happens by itself: time moves only in the calls that say so.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "nic_model/nic.h"
#include "tests/support/connection.h"
#include "tests/support/host.h"
#include "tests/support/wire_packet.h"

namespace verbena::test {

using Lines = std::vector<std::string>;

// Which packets a fault is for.
using Match = std::function<bool(const WirePacket&)>;
[[nodiscard]] Match any_packet();
/// The `index`-th packet of its direction since the Pair was made, from 0.
[[nodiscard]] Match nth(std::uint64_t index);
[[nodiscard]] Match has_psn(std::uint32_t psn);
[[nodiscard]] Match has_opcode(ib::Opcode opcode);

/// What the cable does to a packet. The default is to deliver it.
struct Fate {
  bool drop = false;
  std::uint32_t extra_copies = 0;
  Duration extra_delay{0};
  /// Flips the lowest bit of the frame's last transport byte, so that the ICRC is wrong.
  bool corrupt = false;
};

struct Connection {
  nic::Qp* a = nullptr;
  nic::Qp* b = nullptr;
};

struct PairOptions {
  Duration latency{1'000};
  HostOptions a{};
  HostOptions b{};
  /// Keep every packet for wire(); off in long runs, where only wire_hash() is wanted.
  bool keep_log = true;
};

class Pair {
 public:
  explicit Pair(const PairOptions& options = {});

  Host a;
  Host b;
  [[nodiscard]] Host& host(Side side) { return side == Side::a ? a : b; }
  [[nodiscard]] Time now() const { return now_; }

  /// A new connection, both ends in RTS.
  [[nodiscard]] Connection connect(const EndOptions& end_a = {}, const EndOptions& end_b = {});

  // Posts. Those without a result must succeed.
  void post(Side side, nic::Qp& qp, const Work& work);
  [[nodiscard]] Result<void, PostError> try_post(Side side, nic::Qp& qp, const Work& work);
  void post_recv(Side side, nic::Qp& qp, std::uint64_t id, const std::vector<Piece>& into);

  // Faults. Each is used up after `times` packets of that direction that match.
  static constexpr std::uint32_t always = 0xFFFF'FFFF;
  void drop(Side from, Match match, std::uint32_t times = 1);
  void duplicate(Side from, Match match, std::uint32_t times = 1);
  /// Holds a packet back, so that later ones overtake it.
  void delay(Side from, Match match, Duration extra, std::uint32_t times = 1);
  void corrupt(Side from, Match match, std::uint32_t times = 1);
  /// Decides the fate of every packet that no fault above was for.
  void set_weather(std::function<Fate(const WirePacket&)> weather) {
    weather_ = std::move(weather);
  }
  /// Whether what a side has sent counts as waiting for its receiver (FrameSink::is_unread()).
  void set_unread(Side from, bool unread);
  /// The cable takes that many more frames from a side and then refuses: back-pressure.
  void set_room(Side from, std::uint32_t frames);

  // Time.
  /// Lets both NICs send what they have, then goes on to the next arrival or timer, if there is
  /// one, and lets it happen.
  bool step();
  /// Steps until nothing is under way and no timer runs. Fails the test if that never happens.
  void run_until_idle();
  /// Steps until nothing is under way; timers only run out on the way.
  void settle();
  /// Steps through everything that happens up to `duration` from now, and then it is that late.
  void advance(Duration duration);

  // What went over the cable, lost packets included.
  [[nodiscard]] const std::vector<WirePacket>& log() const { return log_; }
  /// All packets of one direction as text, and all of both with "> " (from a) or "< " in front.
  [[nodiscard]] Lines wire(Side from) const;
  [[nodiscard]] Lines wire() const;
  void clear_log() { log_.clear(); }
  /// Of all frames and their times: equal runs have equal hashes.
  [[nodiscard]] std::uint64_t wire_hash() const { return wire_hash_; }

  /// What the NIC of `side` said about the frames it received, other than "accepted".
  [[nodiscard]] const std::vector<RxVerdict>& verdicts(Side side) const {
    return end(side).verdicts;
  }

 private:
  struct Fault {
    Match match;
    std::uint32_t times;
    Fate fate;
  };

  class Cable final : public FrameSink {
   public:
    Cable(Pair& pair, Side from) : pair_(pair), from_(from) {}
    MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
    void commit(const PacketNote& note) override;
    [[nodiscard]] bool is_unread(const FrameRoute& /*route*/) override { return unread; }
    std::uint32_t room = always;
    bool unread = false;

   private:
    Pair& pair_;
    Side from_;
    std::vector<std::byte> frame_;
  };

  /// A frame on its way.
  struct Flight {
    Time arrival{};
    std::uint64_t order = 0;
    Side to = Side::a;
    std::vector<std::byte> frame;
  };

  struct End {
    Cable cable;
    std::vector<Fault> faults;
    std::uint64_t packets = 0;
    std::vector<RxVerdict> verdicts;
  };

  [[nodiscard]] End& end(Side side) { return side == Side::a ? end_a_ : end_b_; }
  [[nodiscard]] const End& end(Side side) const { return side == Side::a ? end_a_ : end_b_; }
  void transmit();
  void take(WirePacket packet);
  [[nodiscard]] Fate fate_of(const WirePacket& packet);
  void launch(Side to, std::vector<std::byte> frame, Duration delay);
  [[nodiscard]] Time next_event() const;
  void happen(Time until);
  void add_to_hash(const WirePacket& packet);

  const PairOptions options_;
  Time now_{};
  End end_a_;
  End end_b_;
  std::function<Fate(const WirePacket&)> weather_;
  /// Ordered by arrival, then by departure.
  std::deque<Flight> flights_;
  std::uint64_t next_order_ = 0;
  std::vector<WirePacket> log_;
  std::uint64_t wire_hash_ = 0;
};

}  // namespace verbena::test
