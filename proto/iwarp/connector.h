// One end's part in the exchange of start frames, from the first byte of a TCP connection to the
// first FPDU. Sans I/O: bytes and the consumer's decisions come in, bytes go out. Read first:
// proto/iwarp/negotiation.h; RFC 5044, 7.1; RFC 6581.
//
//   initiator   connect() ─► waiting ── reply ──► agreed
//                                  └── refusal ─► refused
//   responder   waiting ── request ──► asked ── accept() ─► agreed
//                      │                   └─── reject() ─► refused
//                      └── no request of this protocol ───► refused
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "proto/iwarp/negotiation.h"
#include "proto/iwarp/start_frame.h"
#include "proto/iwarp/terminate.h"

namespace verbena::iwarp {

class MpaConnector {
 public:
  enum class State : std::uint8_t {
    /// Initiators: connect() wasn't called yet.
    idle,
    waiting,
    /// A request is here: the consumer answers it.
    asked,
    agreed,
    /// output() may have something that tells the peer; then the connection is closed.
    refused,
  };

  [[nodiscard]] static MpaConnector initiator(const MpaSettings& settings) {
    return MpaConnector(settings, true);
  }
  [[nodiscard]] static MpaConnector responder(const MpaSettings& settings) {
    return MpaConnector(settings, false);
  }

  // The peer's private data lies in here.
  MpaConnector(const MpaConnector&) = delete;
  MpaConnector& operator=(const MpaConnector&) = delete;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is_initiator() const { return is_initiator_; }

  // Commands. `private_data` is copied; at most private_data_room() bytes.
  [[nodiscard]] std::size_t private_data_room() const;
  void connect(ReadDepths depths, ByteView private_data);
  void accept(ReadDepths depths, ByteView private_data);
  void reject(ByteView private_data);

  /// Removes from `stream` what belongs to the peer's start frame.
  void on_stream(ByteView& stream);

  /// What is to be written to the stream, and how much of it was.
  [[nodiscard]] ByteView output() const {
    return ByteView(own_).subspan(written_, own_bytes_ - written_);
  }
  void note_written(std::size_t bytes) { written_ += bytes; }

  /// From asked, agreed or a rejection on: what the peer says. Its private data lives as long as
  /// the connector.
  [[nodiscard]] const std::optional<StartFrame>& peer_frame() const { return peer_frame_; }
  /// From agreed on.
  [[nodiscard]] const MpaAgreement& agreement() const { return agreement_; }
  /// Of a refusal, in words.
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  MpaConnector(const MpaSettings& settings, bool is_initiator);

  void take(const StartFrame& frame);
  void say(const StartFrame& frame);
  void refuse(std::string reason);
  void say_terminate(TerminateReason reason, const StartFrame& reply);

  MpaSettings settings_;
  bool is_initiator_;
  State state_;
  StartFrameReader reader_;
  ReadDepths depths_;
  StartFrame own_frame_;
  std::optional<StartFrame> peer_frame_;
  MpaAgreement agreement_;
  std::string reason_;
  std::array<std::byte, start_frame_bytes_max> own_{};
  std::size_t own_bytes_ = 0;
  std::size_t written_ = 0;
};

}  // namespace verbena::iwarp
