// An opened engine with a queue pair or more, and what a verbs program does with it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ports/engine.h"
#include "proto/roce/gid.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports::test {

class CountingListener final : public EngineListener {
 public:
  void on_async_event(const nic::AsyncEvent& event) override {
    const std::lock_guard guard(mutex_);
    events_.push_back(event.type);
  }
  void on_cq_notification(nic::Cq& /*cq*/) override { ++notifications; }
  [[nodiscard]] std::vector<nic::AsyncEventType> events() {
    const std::lock_guard guard(mutex_);
    return events_;
  }

  std::atomic<int> notifications = 0;

 private:
  std::mutex mutex_;
  std::vector<nic::AsyncEventType> events_;
};

inline DeviceConfig config_at(const std::string& fabric_path) {
  DeviceConfig config;
  config.addresses = {roce::gid_from_ipv4({{127, 0, 0, 1}})};
  config.guid = 1;
  config.fabric_path = fabric_path;
  config.ring_bytes = std::size_t{256} << 10;
  return config;
}

inline std::unique_ptr<Engine> open_engine(const DeviceConfig& config, EngineListener& listener) {
  auto engine = Engine::open(config, listener);
  INFO((engine ? "" : engine.error()));
  REQUIRE(engine);
  return std::move(*engine);
}

/// An engine with one RC queue pair, one CQ and one memory region.
struct Node {
  explicit Node(const std::string& fabric_path, std::size_t memory_bytes = 1 << 16)
      : Node(config_at(fabric_path), memory_bytes) {}

  explicit Node(const DeviceConfig& config, std::size_t memory_bytes = 1 << 16)
      : memory(memory_bytes), engine(open_engine(config, listener)) {
    pd = engine->with_nic([](nic::Nic& nic, Time) { return nic.alloc_pd().value(); });
    cq = engine->with_nic([](nic::Nic& nic, Time) { return nic.create_cq(1024, 0).value(); });
    mr = engine->with_nic([&](nic::Nic& nic, Time) {
      const Access access = Access::local_write | Access::remote_write | Access::remote_read;
      return nic
          .reg_mr(*pd, memory.data(), memory.size(),
                  Va{reinterpret_cast<std::uintptr_t>(memory.data())}, access)
          .value();
    });
    qp = engine
             ->create_qp(*pd, {.type = nic::QpType::rc,
                               .send_cq = cq,
                               .recv_cq = cq,
                               .caps = {.send_wr_max = 128,
                                        .recv_wr_max = 128,
                                        .send_sge_max = 4,
                                        .recv_sge_max = 4,
                                        .inline_bytes_max = 64},
                               .signal_all = true,
                               .cookie = 0})
             .value();
  }

  [[nodiscard]] Qpn qpn() const { return nic::qpn_of(*qp); }

  /// Brings the queue pair to RTS, with `peer` at the other end.
  void connect(Qpn peer, std::uint8_t retry_cnt = 7) {
    namespace mask = nic::qp_attr_mask;
    nic::QpAttr attr;
    attr.access_flags = Access::remote_write | Access::remote_read;
    attr.av.dgid = roce::gid_from_ipv4({{127, 0, 0, 1}});
    attr.av.has_grh = true;
    attr.av.hop_limit = 64;
    attr.path_mtu = nic::Mtu::mtu_1024;
    attr.dest_qpn = peer;
    attr.max_rd_atomic = 4;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.timeout = 14;
    attr.retry_cnt = retry_cnt;
    attr.rnr_retry = 7;
    modify(attr, nic::QpState::init,
           mask::state | mask::pkey_index | mask::port | mask::access_flags);
    modify(attr, nic::QpState::rtr,
           mask::state | mask::av | mask::path_mtu | mask::dest_qpn | mask::rq_psn |
               mask::max_dest_rd_atomic | mask::min_rnr_timer);
    modify(attr, nic::QpState::rts,
           mask::state | mask::timeout | mask::retry_cnt | mask::rnr_retry | mask::sq_psn |
               mask::max_qp_rd_atomic);
  }

  void modify(nic::QpAttr attr, nic::QpState state, std::uint32_t mask) {
    attr.state = state;
    engine->with_nic([&](nic::Nic& nic, Time now) {
      const auto result = nic.modify_qp(now, *qp, attr, mask);
      INFO("to " << nic::name_of(state));
      REQUIRE(result);
    });
  }

  [[nodiscard]] Sge sge(std::size_t offset, std::size_t bytes) const {
    return {.addr = Va{reinterpret_cast<std::uintptr_t>(memory.data()) + offset},
            .length = static_cast<std::uint32_t>(bytes),
            .lkey = mr->lkey};
  }

  bool post_send(WrOpcode opcode, std::uint64_t wr_id, const Sge& local, const Node* remote,
                 std::size_t remote_offset = 0) {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.signaled = true;
    wr.sges = {&local, 1};
    if (remote != nullptr) {
      wr.remote_addr = Va{reinterpret_cast<std::uintptr_t>(remote->memory.data()) + remote_offset};
      wr.rkey = remote->mr->rkey;
    }
    return engine->post_send(
        [&](nic::Nic& nic, Time now) { return nic.post_send(now, *qp, wr).has_value(); });
  }

  [[nodiscard]] bool post_recv(std::uint64_t wr_id, const Sge& local) {
    return engine->post_recv([&](nic::Nic& nic, Time now) {
      return nic.post_recv(now, *qp, {.wr_id = wr_id, .sges = {&local, 1}}).has_value();
    });
  }

  /// Call it before looking at memory that a peer's RDMA has written, and after writing what a peer
  /// will READ. That is in order anyhow: the peer's requests and answers come through rings. But
  /// both sides map those at addresses of their own, which hides the order from ThreadSanitizer.
  /// It sees this engine's lock.
  void settle() {
    engine->with_nic([](nic::Nic& /*nic*/, Time /*now*/) {});
  }

  /// Polls as a program does: the CQ, and the NIC when the CQ is empty.
  std::uint32_t poll(std::span<Completion> out) {
    std::uint32_t count = cq->poll(out);
    if (count == 0) {
      engine->try_progress();
      count = cq->poll(out);
    }
    return count;
  }

  /// The next completion. `spin`: by polling the NIC; otherwise only the CQ is looked at, and the
  /// background thread does the work.
  Completion wait(bool spin = true) {
    std::array<Completion, 1> one;
    REQUIRE(eventually([&] { return (spin ? poll(one) : cq->poll(one)) == 1; }));
    return one[0];
  }

  CountingListener listener;
  std::vector<std::byte> memory;
  std::unique_ptr<Engine> engine;
  nic::Pd* pd = nullptr;
  nic::Cq* cq = nullptr;
  nic::Mr* mr = nullptr;
  nic::Qp* qp = nullptr;
};

inline void connect(Node& a, Node& b) {
  a.connect(b.qpn());
  b.connect(a.qpn());
}

}  // namespace verbena::ports::test
