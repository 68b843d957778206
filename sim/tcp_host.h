// What an operating system does for an iWARP device: TCP over IPv4, and the connections of its
// queue pairs from the first SYN over MPA's start frames to the last FIN. In virtual time, with the
// TCP of proto/inet/tcp, so that segments exist, are lost and are seen. Read first:
// proto/iwarp/connector.h.
//
//                       TcpHost
//     Nic ── FPDUs ──► connection: start frames, then FPDUs ──► TCP ──► frames ──► link
//
// An FPDU is put into the stream when all before it was sent, so that it has a segment of its own
// ("FPDU alignment": RFC 5044, 5.1). After a timeout TCP cuts as it likes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/tcp/connection.h"
#include "proto/iwarp/connector.h"
#include "proto/packet_sink.h"
#include "proto/verdict.h"

namespace verbena::sim {

class TcpHost final : public nic::StreamPort {
 public:
  TcpHost(nic::Nic& nic, const inet::Ipv4Address& address);
  ~TcpHost() override;

  /// What a consumer says when it connects, or waits for somebody who does.
  struct Endpoint {
    std::uint16_t local_port = 0;
    /// Of the listener.
    inet::Ipv4Address peer;
    std::uint16_t peer_port = 0;
    inet::TcpSeq initial_sequence;
    /// What a segment carries.
    std::uint16_t mss = 1460;
    iwarp::ReadDepths depths;
    iwarp::MpaSettings mpa;
  };
  // Commands. The queue pair is in INIT and is in RTS once the connection stands. run() follows.
  void listen(nic::Qp& qp, const Endpoint& endpoint);
  void connect(nic::Qp& qp, const Endpoint& endpoint);
  /// Before the queue pair is destroyed: its connections are reset.
  void forget(const nic::Qp& qp);
  /// A connection of the queue pair was begun, and neither stands nor has failed.
  [[nodiscard]] bool is_connecting(const nic::Qp& qp) const;

  // Events in; run() follows.
  RxVerdict on_frame(Time now, ByteView frame);
  void on_timer(Time now);

  /// Moves what there is to move, between the Nic and the connections and into frames.
  void run(Time now, FrameSink& frames);

  [[nodiscard]] Time next_timeout() const;

  // nic::StreamPort.
  iwarp::StreamSink& stream_of(const nic::Qp& qp) override;
  void close_stream(const nic::Qp& qp, Close how) override;

 private:
  struct Connection;
  class SegmentSink;
  struct Reset {
    inet::TcpHeader header;
    inet::Ipv4Address peer;
  };

  Connection& add(nic::Qp& qp, const Endpoint& endpoint, bool is_initiator);
  [[nodiscard]] Connection* find(const nic::Qp& qp) const;
  [[nodiscard]] Connection* find(const inet::Ipv4Address& peer, std::uint16_t peer_port,
                                 std::uint16_t local_port) const;
  /// Each tells whether something moved.
  bool pump(Connection& connection);
  bool open(Connection& connection);
  bool feed(Connection& connection);
  bool transmit(Connection& connection);
  void send_resets();
  void forget_dead();

  nic::Nic& nic_;
  inet::Ipv4Address address_;
  /// In the order of their beginning.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Reset> resets_;
  // During run().
  Time now_{};
  FrameSink* frames_ = nullptr;
};

}  // namespace verbena::sim
