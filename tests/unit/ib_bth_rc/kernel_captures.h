// What the captures of Linux's rdma_rxe show (tests/data/captures): the work that the client
// posted, what the server had posted, what both were told, and where the kernel departs from the
// specification. From that a capture can be replayed into either half of our transport.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/opcode.h"
#include "proto/work.h"

namespace verbena::test {

/// A packet of a capture, from BTH to pad.
struct CapturedPacket {
  Time time{};
  bool from_client = false;
  std::vector<std::byte> transport;
};

/// The packets of one service in a capture, in order. The client is host B (10.9.0.2, fd09::2).
[[nodiscard]] std::vector<CapturedPacket> read_packets(ib::Service service,
                                                       const std::string& capture);
[[nodiscard]] inline std::vector<CapturedPacket> read_rc_packets(const std::string& capture) {
  return read_packets(ib::Service::rc, capture);
}

/// A request that the client posted; `remote_offset` counts from the start of the server's buffer.
struct ClientWork {
  WrOpcode opcode{};
  std::uint32_t bytes = 0;
  std::uint64_t remote_offset = 0;
  std::uint32_t imm = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  WcStatus status = WcStatus::success;
};

struct ServerReceive {
  std::uint32_t bytes = 0;
  std::uint64_t offset = 0;
  /// Posted after the last RNR NAK of the capture, not before the first request.
  bool late = false;
};

/// Where Linux's rxe departs from the specification, in what it sends. Each is a row of
/// docs/kernel-differences.md.
enum class Departure : std::uint8_t {
  /// A SEND longer than its receive is answered by NAK 0x63 instead of 0x61 (IBTA vol 1, 9.9.3).
  too_long_send_is_operational_error,
  /// A READ that is asked again from the middle is answered beginning with Middle instead of First
  /// (9.4.4: a response begins with First or Only).
  repeated_read_begins_with_middle,
};

struct KernelScenario {
  const char* capture;
  std::vector<ClientWork> works;
  std::vector<ServerReceive> receives{};
  /// The client posts its next work when the one before is completed; or all at once.
  bool all_at_once = false;
  /// The R_Key in the requests is not the one of the server's memory.
  bool wrong_rkey = false;
  /// Requests or answers were lost on their way to the recorder, which sat at the server.
  bool requests_lost = false;
  bool answers_lost = false;
  /// The requests were for a queue pair that does not exist: nobody was there to answer.
  bool server_absent = false;
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t timeout = 14;
  std::uint8_t min_rnr_timer = 12;
  std::optional<Departure> departure{};
};

/// All RC captures with requests from the client alone. (Those of rping, with requests from both
/// ends, and of NVMe serve the codecs' tests only; rxe_cm_inv needs SEND with Invalidate.)
[[nodiscard]] std::span<const KernelScenario> kernel_scenarios();

/// Bytes of the buffer that client and server registered, and what is in it.
inline constexpr std::size_t kernel_buffer_bytes = 65536;
[[nodiscard]] std::vector<std::byte> client_buffer();
[[nodiscard]] std::vector<std::byte> server_buffer();

}  // namespace verbena::test
