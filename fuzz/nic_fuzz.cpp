// A hostile peer: the input is a list of operations on a Nic with one connected RC queue pair, and
// among them packets with a good ICRC, the right QPN and a PSN nearby, so that they get far.
// Whatever comes: memory outside the granted range stays, and everything posted completes at most
// once, in order.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "nic_model/nic.h"
#include "nic_model/qp_state_table.h"
#include "proto/ib_bth/emit.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena {
namespace {

constexpr std::size_t granted_bytes = 4096;
constexpr std::size_t guard_bytes = 4096;
constexpr std::byte guard{0xA5};
constexpr Va iova{0x1'0000'0000};
constexpr Psn peer_psn{100};
constexpr Psn own_psn{200};
constexpr Access peer_rights =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

/// Takes frames and forgets them; full when the input says so.
class Wire final : public FrameSink {
 public:
  MutableBytes reserve(const FrameRoute&, std::size_t bytes) override {
    if (room == 0) {
      return {};
    }
    --room;
    frame_.resize(bytes);
    return frame_;
  }
  void commit(const PacketNote&) override {}
  std::size_t room = 0;

 private:
  std::vector<std::byte> frame_;
};

class Target {
 public:
  Target();
  void run(FuzzedDataProvider& input);

 private:
  void connect();
  void post_send(FuzzedDataProvider& input);
  void post_recv(FuzzedDataProvider& input);
  void receive(FuzzedDataProvider& input);
  void poll();
  [[nodiscard]] Sge any_sge(FuzzedDataProvider& input) const;

  std::vector<std::byte> memory_ =
      std::vector<std::byte>(guard_bytes + granted_bytes + guard_bytes, guard);
  const Gid own_ = roce::gid_from_ipv4({{10, 0, 0, 1}});
  const Gid peer_ = roce::gid_from_ipv4({{10, 0, 0, 2}});
  nic::Nic nic_{nic::default_profile(), {.gids = {{.gid = own_}}}, 1};
  nic::Pd* pd_ = nic_.alloc_pd().value();
  nic::Cq* cq_ = nic_.create_cq(64, 0).value();
  nic::Mr* mr_ = nullptr;
  nic::Qp* qp_ = nullptr;
  Wire wire_;
  Time now_{};
  // wr_ids count up from 0 in each queue.
  std::uint64_t sends_posted_ = 0;
  std::uint64_t recvs_posted_ = 0;
  std::uint64_t next_send_ = 0;
  std::uint64_t next_recv_ = 0;
};

Target::Target() {
  nic_.add_qpn_block(Qpn{0x11}, 1);
  mr_ = nic_.reg_mr(*pd_, memory_.data() + guard_bytes, granted_bytes, iova, peer_rights).value();
  connect();
}

void Target::connect() {
  const nic::QpCaps caps{.send_wr_max = 16,
                         .recv_wr_max = 16,
                         .send_sge_max = 4,
                         .recv_sge_max = 4,
                         .inline_bytes_max = 64};
  qp_ = nic_.create_qp(*pd_, {.send_cq = cq_, .recv_cq = cq_, .caps = caps, .signal_all = true})
            .value();
  nic::QpAttr attr;
  attr.access_flags = peer_rights;
  attr.av = {.dgid = peer_, .has_grh = true};
  attr.path_mtu = nic::Mtu::mtu_256;
  attr.dest_qpn = Qpn{0x22};
  attr.rq_psn = peer_psn;
  attr.sq_psn = own_psn;
  attr.max_rd_atomic = 2;
  attr.max_dest_rd_atomic = 2;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_cnt = 2;
  attr.rnr_retry = 2;
  for (const nic::QpState state : nic::bring_up_states) {
    attr.state = state;
    VERBENA_CHECK(nic_.modify_qp(now_, *qp_, attr, nic::bring_up_mask(nic::QpType::rc, state)));
  }
}

/// Mostly inside the granted memory, sometimes across its end or with a wrong key.
Sge Target::any_sge(FuzzedDataProvider& input) const {
  const auto length = input.ConsumeIntegralInRange<std::uint32_t>(0, 1200);
  const auto offset = input.ConsumeIntegralInRange<std::uint32_t>(0, granted_bytes);
  const auto wrong_key = input.ConsumeIntegralInRange<std::uint32_t>(0, 15) == 15;
  return {iova + offset, length, wrong_key ? Lkey{7} : mr_->lkey};
}

void Target::post_send(FuzzedDataProvider& input) {
  constexpr std::array opcodes = {WrOpcode::send,
                                  WrOpcode::send_with_imm,
                                  WrOpcode::rdma_write,
                                  WrOpcode::rdma_write_with_imm,
                                  WrOpcode::rdma_read,
                                  WrOpcode::atomic_cmp_and_swp,
                                  WrOpcode::atomic_fetch_and_add};
  const std::array sges = {any_sge(input), any_sge(input)};
  SendWr wr;
  wr.wr_id = sends_posted_;
  wr.opcode = input.PickValueInArray(opcodes);
  wr.solicited = input.ConsumeBool();
  wr.fence = input.ConsumeBool();
  wr.sges = std::span(sges).first(input.ConsumeIntegralInRange<std::size_t>(0, sges.size()));
  wr.remote_addr = Va{0x1000};
  wr.rkey = Rkey{0x1234};
  sends_posted_ += nic_.post_send(now_, *qp_, wr) ? 1 : 0;
}

void Target::post_recv(FuzzedDataProvider& input) {
  const std::array sges = {any_sge(input)};
  const RecvWr wr{.wr_id = recvs_posted_, .sges = sges};
  recvs_posted_ += nic_.post_recv(now_, *qp_, wr) ? 1 : 0;
}

void Target::receive(FuzzedDataProvider& input) {
  ib::PacketFields fields;
  fields.opcode = input.PickValueInArray(ib::opcodes);
  fields.dest_qpn = nic::qpn_of(*qp_);
  fields.ack_request = input.ConsumeBool();
  fields.solicited = input.ConsumeBool();
  fields.psn = (ib::opcode_info(fields.opcode).is_response() ? own_psn : peer_psn) +
               input.ConsumeIntegralInRange<std::int32_t>(-4, 24);
  const Va va = iova + input.ConsumeIntegralInRange<std::uint64_t>(0, granted_bytes + 8);
  const Rkey rkey = input.ConsumeProbability<float>() < 0.1F ? Rkey{9} : mr_->rkey;
  fields.reth = ib::Reth(va, rkey, input.ConsumeIntegralInRange<std::uint32_t>(0, 2000));
  fields.atomic_eth = ib::AtomicEth(va, rkey, 1, 0);
  fields.aeth = ib::Aeth(ib::Syndrome::from_byte(input.ConsumeIntegral<std::uint8_t>()),
                         Msn(input.ConsumeIntegralInRange<std::uint32_t>(0, 8)));
  constexpr std::array<std::size_t, 5> sizes = {0, 1, 8, 255, 256};
  const std::vector<std::byte> payload(input.PickValueInArray(sizes), std::byte{0x5A});

  const roce::Encapsulation wrap({.source = peer_, .destination = own_});
  const std::size_t transport_bytes = ib::transport_size(fields.opcode, payload.size());
  std::vector<std::byte> frame(wrap.frame_bytes(transport_bytes));
  wrap.write_prefix(frame, transport_bytes);
  ib::emit_packet(MutableBytes(frame).subspan(wrap.prefix_bytes()), fields, payload);
  wrap.finish(frame, transport_bytes);
  static_cast<void>(nic_.on_frame(now_, frame));
}

void Target::poll() {
  std::array<Completion, 16> some{};
  while (const std::uint32_t count = cq_->poll(some)) {
    for (const Completion& completion : std::span(some).first(count)) {
      const bool is_recv =
          completion.opcode == WcOpcode::recv || completion.opcode == WcOpcode::recv_rdma_with_imm;
      VERBENA_CHECK(completion.wr_id == (is_recv ? next_recv_++ : next_send_++));
    }
  }
  VERBENA_CHECK(next_send_ <= sends_posted_ && next_recv_ <= recvs_posted_);
  while (nic_.poll_event()) {
  }
}

void Target::run(FuzzedDataProvider& input) {
  constexpr unsigned operations_max = 200;
  for (unsigned i = 0; i < operations_max && input.remaining_bytes() > 0; ++i) {
    switch (input.ConsumeIntegralInRange(0, 5)) {
      case 0:
        post_send(input);
        break;
      case 1:
        post_recv(input);
        break;
      case 2:
      case 3:
        receive(input);
        break;
      case 4:
        wire_.room = input.ConsumeIntegralInRange<std::size_t>(0, 32);
        static_cast<void>(nic_.poll_transmit(now_, wire_));
        break;
      default:
        // To the next deadline, if there is one.
        if (nic_.next_timeout() != time_never) {
          now_ = std::max(now_, nic_.next_timeout());
          nic_.on_timer(now_);
        }
        break;
    }
    poll();
  }
  const auto is_guard = [](std::byte byte) { return byte == guard; };
  VERBENA_CHECK(std::all_of(memory_.begin(), memory_.begin() + guard_bytes, is_guard));
  VERBENA_CHECK(std::all_of(memory_.end() - guard_bytes, memory_.end(), is_guard));
}

}  // namespace
}  // namespace verbena

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  verbena::Target target;
  target.run(input);
  return 0;
}
