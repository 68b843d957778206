#include "bench/core/two_nics.h"

#include <array>

#include "base/check.h"
#include "nic_model/qp_state_table.h"
#include "proto/roce/gid.h"

namespace verbena::bench {

namespace {

constexpr std::size_t memory_bytes = 65536;
constexpr Time now{};

}  // namespace

/// Frames on their way, in slots that are used again.
class TwoNics::Wire final : public FrameSink {
 public:
  MutableBytes reserve(const FrameRoute&, std::size_t bytes) override {
    if (count_ == slots_.size()) {
      return {};
    }
    VERBENA_CHECK(bytes <= slot_bytes);
    slots_[count_].bytes = bytes;
    return {slots_[count_].frame.data(), bytes};
  }
  void commit(const PacketNote&) override { ++count_; }

  void deliver(nic::Nic& to) {
    for (std::size_t i = 0; i < count_; ++i) {
      to.on_frame(now, {slots_[i].frame.data(), slots_[i].bytes});
    }
    count_ = 0;
  }

 private:
  static constexpr std::size_t slot_bytes = 4352;
  struct Slot {
    std::array<std::byte, slot_bytes> frame;
    std::size_t bytes;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::size_t count_ = 0;
};

struct TwoNics::End {
  explicit End(std::uint8_t number)
      : gid(roce::gid_from_ipv4({{10, 0, 0, number}})),
        memory(memory_bytes),
        nic(nic::default_profile(), config(), number) {
    nic.add_qpn_block(Qpn{16}, 1);
    pd = nic.alloc_pd().value();
    cq = nic.create_cq(64, 0).value();
    const Access access = Access::local_write | Access::remote_write | Access::remote_read;
    mr = nic.reg_mr(*pd, memory.data(), memory.size(), Va{0x1000}, access).value();
    qp = nic.create_qp(*pd, {.send_cq = cq,
                             .recv_cq = cq,
                             .caps = {.send_wr_max = 16,
                                      .recv_wr_max = 16,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1}})
             .value();
  }

  void connect(const End& peer) {
    nic::QpAttr attr;
    attr.access_flags = Access::remote_write | Access::remote_read;
    attr.av = {.dgid = peer.gid, .has_grh = true};
    attr.path_mtu = nic::Mtu::mtu_4096;
    attr.dest_qpn = nic::qpn_of(*peer.qp);
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
    attr.timeout = 14;
    for (const nic::QpState state : nic::bring_up_states) {
      attr.state = state;
      VERBENA_CHECK(nic.modify_qp(now, *qp, attr, nic::bring_up_mask(nic::QpType::rc, state)));
    }
  }

  void poll() {
    std::array<Completion, 4> completions;
    const std::uint32_t count = cq->poll(completions);
    for (std::uint32_t i = 0; i < count; ++i) {
      VERBENA_CHECK(completions[i].status == WcStatus::success);
    }
    VERBENA_CHECK(count == 1);
  }

  Gid gid;
  std::vector<std::byte> memory;
  nic::Nic nic;
  nic::Pd* pd = nullptr;
  nic::Cq* cq = nullptr;
  nic::Mr* mr = nullptr;
  nic::Qp* qp = nullptr;

 private:
  [[nodiscard]] nic::NicConfig config() const {
    nic::NicConfig config;
    config.gids = {{.gid = gid}};
    return config;
  }
};

TwoNics::TwoNics()
    : a_(std::make_unique<End>(std::uint8_t{1})),
      b_(std::make_unique<End>(std::uint8_t{2})),
      wire_(std::make_unique<Wire>()) {
  a_->connect(*b_);
  b_->connect(*a_);
}

TwoNics::~TwoNics() = default;

void TwoNics::exchange(WrOpcode opcode, std::uint32_t bytes) {
  const Sge from{a_->mr->iova, bytes, a_->mr->lkey};
  const bool takes_receive = opcode == WrOpcode::send;
  if (takes_receive) {
    const Sge into{b_->mr->iova, bytes, b_->mr->lkey};
    VERBENA_CHECK(b_->nic.post_recv(now, *b_->qp, {.wr_id = 1, .sges = {&into, 1}}));
  }
  SendWr wr;
  wr.opcode = opcode;
  wr.signaled = true;
  wr.sges = {&from, 1};
  wr.remote_addr = b_->mr->iova;
  wr.rkey = b_->mr->rkey;
  VERBENA_CHECK(a_->nic.post_send(now, *a_->qp, wr));
  carry(*a_, *b_);
  carry(*b_, *a_);
  a_->poll();
  if (takes_receive) {
    b_->poll();
  }
}

void TwoNics::carry(End& from, End& to) {
  VERBENA_CHECK(from.nic.poll_transmit(now, *wire_) == nic::TransmitStatus::idle);
  wire_->deliver(to.nic);
}

}  // namespace verbena::bench
