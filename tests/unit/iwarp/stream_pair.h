// Two stream queue pairs with memory of their own, joined by two byte streams
// that deliver in any pieces and hold any number of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/prng.h"
#include "proto/iwarp/stream_qp.h"
#include "tests/support/plain_memory.h"

namespace verbena::test {

/// Registered memory: regions of bytes at addresses that the test chooses.
class TestMemory final : public PlainMemory {
 public:
  struct Region {
    PdId pd{};
    std::uint64_t address = 0;
    std::vector<std::byte> bytes;
    Access access = Access::none;
  };

  /// The key is local and remote.
  Region& add(std::uint32_t key, std::uint64_t address, std::size_t bytes,
              Access access = Access::local_write | Access::remote_write | Access::remote_read,
              PdId pd = PdId{1});
  void remove(std::uint32_t key) { regions_.erase(key); }
  [[nodiscard]] Region& at(std::uint32_t key) { return regions_.at(key); }

  Result<std::byte*, AccessFault> local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                        Access needed) override;
  Result<std::byte*, AccessFault> remote(const MemoryUser& user, Rkey key, Va va,
                                         std::uint64_t length, Access needed) override;

 private:
  Result<std::byte*, AccessFault> find(PdId pd, std::uint32_t key, std::uint64_t address,
                                       std::uint64_t length, Access needed);
  std::map<std::uint32_t, Region> regions_;
};

class CompletionList final : public CompletionSink {
 public:
  void complete(const Completion& completion, bool solicited) override {
    completions.push_back(completion);
    solicited_events += solicited ? 1 : 0;
  }
  /// The only one there is, which is removed.
  [[nodiscard]] Completion take();

  std::deque<Completion> completions;
  std::size_t solicited_events = 0;
};

/// One direction of a stream, up to `room` bytes of which may be on their way.
class Pipe final : public iwarp::StreamSink {
 public:
  MutableBytes reserve(std::size_t bytes) override;
  void commit() override;

  std::size_t room = std::size_t{1} << 20;
  std::vector<std::byte> bytes;
  /// Everything that ever went through.
  std::vector<std::byte> all;
  std::size_t commits = 0;

 private:
  std::vector<std::byte> reserved_;
};

struct StreamSide {
  explicit StreamSide(const iwarp::StreamQp::Limits& limits, std::uint32_t recv_wr_max = 64,
                      std::uint32_t recv_sge_max = 4);
  [[nodiscard]] iwarp::StreamEnv env() {
    return {.now = Time{}, .memory = memory, .counters = counters};
  }
  Result<void, PostError> send(const SendWr& wr) {
    iwarp::StreamEnv lent = env();
    return qp.post_send(lent, wr);
  }
  Result<void, PostError> receive(std::uint64_t wr_id, std::vector<Sge> sges) {
    iwarp::StreamEnv lent = env();
    return qp.post_recv(lent, {.wr_id = wr_id, .sges = sges});
  }
  /// Everything it has to say goes into `out`.
  void transmit(std::uint32_t fpdus_max = 1000);
  void on_stream(ByteView bytes) {
    iwarp::StreamEnv lent = env();
    qp.on_stream(lent, bytes);
  }

  TestMemory memory;
  Counters counters;
  CompletionList sent;
  CompletionList received;
  iwarp::StreamQp qp;
  Pipe out;
};

inline constexpr iwarp::StreamQp::Limits stream_limits{
    .send = {.wr_max = 64, .sge_max = 4, .inline_bytes_max = 256}, .ird_max = 8};

/// With RFC 7306.
inline constexpr iwarp::StreamQp::Limits extended_limits{
    .send = stream_limits.send, .ird_max = stream_limits.ird_max, .extensions = true};
/// The rights that a consumer gives.
inline constexpr Access all_remote =
    Access::remote_write | Access::remote_read | Access::remote_atomic;

struct StreamPair {
  explicit StreamPair(iwarp::MpaAgreement initiator_agreement = plain_agreement(),
                      std::size_t segment_bytes = 1460);
  /// Of two that may differ in what they have.
  StreamPair(const iwarp::MpaAgreement& initiator_agreement, std::size_t segment_bytes,
             const iwarp::StreamQp::Limits& of_a, const iwarp::StreamQp::Limits& of_b);
  [[nodiscard]] static iwarp::MpaAgreement plain_agreement();

  /// Both say what they have to say and hear it, until nothing moves.
  void run();
  /// The same in pieces of 1 to `piece_bytes_max`.
  void run(Prng& prng, std::size_t piece_bytes_max);

  StreamSide a;
  StreamSide b;
};

}  // namespace verbena::test
