#include "tests/unit/verbs/fixture.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace verbena::test {

void use_private_device() {
  static const bool once = [] {
    // The time too: a process of this number that was killed may have left its file behind.
    const std::string fabric =
        "unit-verbs-" + std::to_string(::getpid()) + "-" +
        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    ::unsetenv("VERBENA_CONFIG");
    ::setenv("VERBENA_FABRIC", fabric.c_str(), 1);
    return true;
  }();
  static_cast<void>(once);
}

ContextPtr open_context() {
  use_private_device();
  ibv_device** list = ibv_get_device_list(nullptr);
  REQUIRE(list != nullptr);
  REQUIRE(list[0] != nullptr);
  ContextPtr context(ibv_open_device(list[0]));
  ibv_free_device_list(list);
  REQUIRE(context != nullptr);
  return context;
}

Side::Side()
    : context(open_context()),
      pd(ibv_alloc_pd(context.get())),
      buffer(buffer_bytes),
      mr(ibv_reg_mr(pd.get(), buffer.data(), buffer.size(), access_all)),
      channel(ibv_create_comp_channel(context.get())),
      cq(ibv_create_cq(context.get(), 64, this, channel.get(), 0)) {
  REQUIRE(pd != nullptr);
  REQUIRE(mr != nullptr);
  REQUIRE(channel != nullptr);
  REQUIRE(cq != nullptr);
  ibv_qp_init_attr init = init_attr();
  qp.reset(ibv_create_qp(pd.get(), &init));
  REQUIRE(qp != nullptr);
}

ibv_qp_init_attr Side::init_attr() const {
  ibv_qp_init_attr init{};
  init.send_cq = cq.get();
  init.recv_cq = cq.get();
  init.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 4,
              .max_recv_sge = 4,
              .max_inline_data = 64};
  init.qp_type = IBV_QPT_RC;
  return init;
}

ibv_qp_attr Side::attr_towards(const Side& peer) const {
  ibv_qp_attr attr{};
  attr.qp_access_flags = access_all;
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qp->qp_num;
  attr.rq_psn = peer.qp->qp_num;
  attr.sq_psn = qp->qp_num;
  attr.max_dest_rd_atomic = 4;
  attr.max_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 7;
  REQUIRE(ibv_query_gid(peer.context.get(), 1, 0, &attr.ah_attr.grh.dgid) == 0);
  return attr;
}

void Side::connect_to(const Side& peer) {
  ibv_qp_attr attr = attr_towards(peer);
  attr.qp_state = IBV_QPS_INIT;
  REQUIRE(ibv_modify_qp(qp.get(), &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr.qp_state = IBV_QPS_RTR;
  REQUIRE(ibv_modify_qp(qp.get(), &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr.qp_state = IBV_QPS_RTS;
  REQUIRE(ibv_modify_qp(qp.get(), &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

ibv_sge Side::sge(std::size_t offset, std::size_t length) const {
  return {.addr = reinterpret_cast<std::uintptr_t>(buffer.data() + offset),
          .length = static_cast<std::uint32_t>(length),
          .lkey = mr->lkey};
}

void Side::send(ibv_send_wr wr, std::vector<ibv_sge> sges) {
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  ibv_send_wr* bad = nullptr;
  REQUIRE(ibv_post_send(qp.get(), &wr, &bad) == 0);
}

void Side::receive(std::uint64_t wr_id, std::vector<ibv_sge> sges) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  REQUIRE(ibv_post_recv(qp.get(), &wr, &bad) == 0);
}

ibv_wc Side::wait_for_completion() {
  ibv_wc wc{};
  wait_until([&] {
    const int taken = ibv_poll_cq(cq.get(), 1, &wc);
    REQUIRE(taken >= 0);
    return taken == 1;
  });
  return wc;
}

}  // namespace verbena::test
