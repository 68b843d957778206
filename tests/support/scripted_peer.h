// A peer without a mind of its own: a test tells it packet by packet what to send to a Nic, right
// or wrong, and looks at what the Nic answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nic_model/nic.h"
#include "proto/ib_bth/emit.h"
#include "proto/roce/icrc.h"
#include "tests/support/connection.h"
#include "tests/support/host.h"
#include "tests/support/wire_packet.h"

namespace verbena::test {

class ScriptedPeer {
 public:
  static constexpr Qpn qpn{0x22};
  /// PSN of the peer's first request, unless the constructor is told another.
  static constexpr Psn default_psn{500};

  /// `host` gets a queue pair in RTS that is connected to the peer.
  explicit ScriptedPeer(const EndOptions& end = {}, Psn first_psn = default_psn);

  Host host{1};
  nic::Qp& qp;
  [[nodiscard]] Time now() const { return now_; }

  // The peer sends.
  /// The `n`-th PSN of the peer's requests, from 0.
  [[nodiscard]] Psn psn(std::int32_t n) const { return first_psn_ + n; }
  /// Headers of a request to `qp`: that PSN, AckReq set, a RETH or AtomicETH that names the first
  /// `bytes` of the host's memory.
  [[nodiscard]] ib::PacketFields request(ib::Opcode opcode, std::int32_t n,
                                         std::uint32_t bytes = 0) const;
  /// Headers of a response with a PSN of the host's own requests.
  [[nodiscard]] ib::PacketFields response(ib::Opcode opcode, Psn psn,
                                          ib::Syndrome syndrome = ib::Syndrome::ack(),
                                          std::uint32_t msn = 0) const;
  /// Sends a packet in a correct frame, with `payload_bytes` of payload (each byte is 0x5A).
  RxVerdict send(const ib::PacketFields& fields, std::size_t payload_bytes = 0);
  RxVerdict send(const ib::PacketFields& fields, ByteView payload);
  RxVerdict send_frame(ByteView frame);
  enum class Address : std::uint8_t { peer_to_host, stranger_to_host, peer_to_stranger };
  /// The frame around any transport bytes, ICRC right (of less than a BTH there is none: zero).
  [[nodiscard]] std::vector<std::byte> frame_around(
      ByteView transport, Address address = Address::peer_to_host,
      roce::Version version = roce::Version::v2_ipv4) const;

  // The host acts.
  void post(const Work& work);
  void post_recv(std::uint64_t id, const std::vector<Piece>& into);
  /// Time passes; timers run out on the way, and what is due is sent.
  void advance(Duration duration);

  /// What the host sent since the last call, as text and decoded.
  std::vector<std::string> answers();
  std::vector<WirePacket> packets();

 private:
  class Capture final : public FrameSink {
   public:
    explicit Capture(ScriptedPeer& peer) : peer_(peer) {}
    MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
    void commit(const PacketNote& note) override;

   private:
    ScriptedPeer& peer_;
    std::vector<std::byte> frame_;
  };

  void transmit();

  Psn first_psn_;
  Time now_{};
  Capture capture_{*this};
  std::vector<WirePacket> sent_;
};

}  // namespace verbena::test
