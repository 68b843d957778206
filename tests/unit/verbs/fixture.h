// Two users of one device, as programs see them: contexts, queue pairs, registered buffers.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "verbs/abi.h"

namespace verbena::test {

/// A device of its own for this process: a fabric that no other process uses, and no configuration
/// file. Call it before anything else.
void use_private_device();

template <class T, int (*destroy)(T*)>
struct Destroyer {
  void operator()(T* object) const { CHECK(destroy(object) == 0); }
};
using ContextPtr = std::unique_ptr<ibv_context, Destroyer<ibv_context, ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Destroyer<ibv_pd, ibv_dealloc_pd>>;
using MrPtr = std::unique_ptr<ibv_mr, Destroyer<ibv_mr, ibv_dereg_mr>>;
using ChannelPtr =
    std::unique_ptr<ibv_comp_channel, Destroyer<ibv_comp_channel, ibv_destroy_comp_channel>>;
using CqPtr = std::unique_ptr<ibv_cq, Destroyer<ibv_cq, ibv_destroy_cq>>;
using QpPtr = std::unique_ptr<ibv_qp, Destroyer<ibv_qp, ibv_destroy_qp>>;

/// Opens the first device.
[[nodiscard]] ContextPtr open_context();

/// Everything that one side of a connection needs.
class Side {
 public:
  static constexpr std::size_t buffer_bytes = 8192;
  static constexpr int access_all =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

  Side();

  [[nodiscard]] ibv_qp_init_attr init_attr() const;
  /// Reset to RTS, towards `peer`.
  void connect_to(const Side& peer);
  /// All attributes that connect_to() sets on the way to RTR and RTS.
  [[nodiscard]] ibv_qp_attr attr_towards(const Side& peer) const;

  [[nodiscard]] ibv_sge sge(std::size_t offset, std::size_t length) const;
  /// Posts and expects success.
  void send(ibv_send_wr wr, std::vector<ibv_sge> sges);
  void receive(std::uint64_t wr_id, std::vector<ibv_sge> sges);
  /// The next completion; fails the test if none comes.
  ibv_wc wait_for_completion();

  ContextPtr context;
  PdPtr pd;
  std::vector<std::byte> buffer;
  MrPtr mr;
  ChannelPtr channel;
  CqPtr cq;
  QpPtr qp;
};

struct Pair {
  Pair() {
    a.connect_to(b);
    b.connect_to(a);
  }
  Side a;
  Side b;
};

/// Far above what anything takes on a busy machine: only a hang takes that long.
inline constexpr std::chrono::milliseconds patience = std::chrono::seconds(100);

/// Repeats `step` until it returns true; fails the test when patience is over.
template <class Step>
void wait_until(Step&& step) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!step()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
}

}  // namespace verbena::test
