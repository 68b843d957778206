// Queue pairs: creation, states, queries. Posting is in post.cpp.

#include "verbs/qp.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "nic_model/own_multicast.h"
#include "ports/log.h"
#include "verbs/ah.h"
#include "verbs/cq.h"
#include "verbs/errors.h"
#include "verbs/pd.h"
#include "verbs/reach.h"
#include "verbs/real_verbs.h"
#include "verbs/srq.h"
#include "verbs/xrcd.h"

namespace verbena::verbs {

QueuePair::QueuePair(Context& context, const ibv_qp_init_attr& attr, ibv_pd* pd)
    : ibv_qp_ex{}, engine(context.engine()), signal_all(attr.sq_sig_all != 0) {
  qp_base.context = &context.context;
  qp_base.qp_context = attr.qp_context;
  qp_base.pd = pd;
  qp_base.send_cq = attr.send_cq;
  qp_base.recv_cq = attr.recv_cq;
  qp_base.srq = attr.srq;
  qp_base.state = IBV_QPS_RESET;
  qp_base.qp_type = attr.qp_type;
  pthread_mutex_init(&qp_base.mutex, nullptr);
  pthread_cond_init(&qp_base.cond, nullptr);
}

QueuePair::~QueuePair() {
  pthread_cond_destroy(&qp_base.cond);
  pthread_mutex_destroy(&qp_base.mutex);
}

void QueuePair::leave_groups() {
  engine.with_nic([&](nic::Nic& nic, Time) { nic.detach_multicast(*nic_qp); });
}

Result<void, nic::NicError> QueuePair::release() {
  const PollersHeld held(qp_base.send_cq, qp_base.recv_cq);
  auto released = engine.destroy_qp(*nic_qp);
  if (released) {
    nic_qp = nullptr;
  }
  return released;
}

void QueuePair::acknowledge_async_event() {
  pthread_mutex_lock(&qp_base.mutex);
  ++qp_base.events_completed;
  pthread_cond_signal(&qp_base.cond);
  pthread_mutex_unlock(&qp_base.mutex);
}

void QueuePair::wait_for_acknowledgements() {
  const std::uint32_t events = owner().async.forget(&async_events_delivered);
  pthread_mutex_lock(&qp_base.mutex);
  while (qp_base.events_completed != events) {
    pthread_cond_wait(&qp_base.cond, &qp_base.mutex);
  }
  pthread_mutex_unlock(&qp_base.mutex);
}

namespace {

// States, path MTUs and masks have the numbers of the ABI.
static_assert(static_cast<int>(nic::QpState::reset) == IBV_QPS_RESET);
static_assert(static_cast<int>(nic::QpState::rts) == IBV_QPS_RTS);
static_assert(static_cast<int>(nic::QpState::err) == IBV_QPS_ERR);
static_assert(static_cast<int>(nic::QpType::rc) == IBV_QPT_RC);
static_assert(static_cast<int>(nic::QpType::uc) == IBV_QPT_UC);
static_assert(static_cast<int>(nic::QpType::ud) == IBV_QPT_UD);
static_assert(static_cast<int>(nic::QpType::xrc_initiator) == IBV_QPT_XRC_SEND);
static_assert(static_cast<int>(nic::QpType::xrc_target) == IBV_QPT_XRC_RECV);
static_assert(static_cast<int>(nic::Mtu::mtu_256) == IBV_MTU_256);
static_assert(static_cast<int>(nic::Mtu::mtu_4096) == IBV_MTU_4096);
static_assert(static_cast<int>(nic::PathMigState::rearm) == IBV_MIG_REARM);
static_assert(static_cast<int>(nic::PathMigState::armed) == IBV_MIG_ARMED);
static_assert(nic::qp_attr_mask::state == IBV_QP_STATE);
static_assert(nic::qp_attr_mask::av == IBV_QP_AV);
static_assert(nic::qp_attr_mask::alt_path == IBV_QP_ALT_PATH);
static_assert(nic::qp_attr_mask::min_rnr_timer == IBV_QP_MIN_RNR_TIMER);
static_assert(nic::qp_attr_mask::dest_qpn == IBV_QP_DEST_QPN);
static_assert(nic::qp_attr_mask::rate_limit == IBV_QP_RATE_LIMIT);

nic::QpCaps caps_from(const ibv_qp_cap& cap) {
  return {.send_wr_max = cap.max_send_wr,
          .recv_wr_max = cap.max_recv_wr,
          .send_sge_max = cap.max_send_sge,
          .recv_sge_max = cap.max_recv_sge,
          .inline_bytes_max = cap.max_inline_data};
}

/// Drivers put inline data where a request's SGEs would be, and so have room for some that nobody
/// asked for (rxe: for as many bytes as the SGEs take). Programs rely on it: rdma_xclient asks for
/// none and sends 16 bytes inline.
std::uint32_t inline_bytes_for_free(const ibv_qp_cap& cap, Context& context) {
  const auto sge_bytes = std::uint64_t{cap.max_send_sge} * sizeof(ibv_sge);
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(sge_bytes, context.engine().peek().profile().inline_bytes_max));
}

ibv_qp_cap caps_to(const nic::QpCaps& caps) {
  return {.max_send_wr = caps.send_wr_max,
          .max_recv_wr = caps.recv_wr_max,
          .max_send_sge = caps.send_sge_max,
          .max_recv_sge = caps.recv_sge_max,
          .max_inline_data = caps.inline_bytes_max};
}

bool is_offered(unsigned type) {
  return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
         type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/// The operations of the extended way to post that such a queue pair of this device has.
std::uint64_t offered_send_ops(Context& context, ibv_qp_type type) {
  const nic::DeviceProfile& profile = context.engine().peek().profile();
  std::uint64_t ops = send_ops_of(type);
  if (context.opened.config.technology == nic::Technology::iwarp) {
    // RFC 7306 has immediate data behind WRITEs only.
    ops &= ~std::uint64_t{IBV_QP_EX_WITH_SEND_WITH_IMM};
    if (!profile.has_rdmap_extensions) {
      ops &= ~std::uint64_t{IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM};
    }
  }
  if (profile.atomic_cap == nic::AtomicCap::none) {
    ops &= ~std::uint64_t{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
  }
  if (!profile.has_placement_extensions) {
    ops &= ~std::uint64_t{IBV_QP_EX_WITH_ATOMIC_WRITE};
  }
  if (profile.mw_max == 0) {
    ops &= ~std::uint64_t{IBV_QP_EX_WITH_BIND_MW};
  }
  return ops;
}

/// What an extended creation asks for beyond ibv_qp_init_attr.
struct Extension {
  /// The operations for the extended way to post, if it is wanted.
  std::optional<std::uint64_t> send_ops;
  bool blocks_own_multicast = false;
};

Created<ibv_qp> create_qp(ibv_pd* base_pd, ibv_qp_init_attr& attr, const Extension& extension) {
  const auto& send_ops = extension.send_ops;
  const auto& pd = ProtectionDomain::of(base_pd);
  Context& context = pd.owner();
  if (context.is_dead()) {
    return failed(EIO);
  }
  if (!is_offered(number_in(attr.qp_type)) ||
      (send_ops.value_or(0) & ~offered_send_ops(context, attr.qp_type)) != 0) {
    return failed(EOPNOTSUPP);
  }
  const auto is_ours = [&](ibv_cq* cq) {
    return cq != nullptr && CompletionQueue::of(cq).context == &context.context;
  };
  // An XRC initiator only sends.
  const bool receives = attr.qp_type != IBV_QPT_XRC_SEND;
  if (attr.qp_type == IBV_QPT_XRC_RECV || !is_ours(attr.send_cq) ||
      (receives && !is_ours(attr.recv_cq))) {
    return failed(EINVAL);
  }
  auto qp = create_in<QueuePair>(base_pd, context, attr, base_pd);
  if (send_ops) {
    install_wr_functions(*qp, *send_ops);
  }
  nic::Srq* srq = nullptr;
  if (attr.srq != nullptr) {
    if (attr.srq->context != &context.context) {
      return failed(EINVAL);
    }
    srq = SharedReceiveQueue::of(attr.srq).nic_srq;
  }
  nic::QpCaps caps = caps_from(attr.cap);
  caps.inline_bytes_max = std::max(caps.inline_bytes_max, inline_bytes_for_free(attr.cap, context));
  if ((send_ops.value_or(0) & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
    caps.inline_bytes_max = std::max(caps.inline_bytes_max, atomic_write_bytes);
  }
  const auto created = context.engine().create_qp(
      *pd.nic_pd, {.type = static_cast<nic::QpType>(attr.qp_type),
                   .send_cq = CompletionQueue::of(attr.send_cq).nic_cq,
                   .recv_cq = receives ? CompletionQueue::of(attr.recv_cq).nic_cq : nullptr,
                   .srq = srq,
                   .caps = caps,
                   .signal_all = qp->signal_all,
                   .cookie = qp->cookie()});
  if (!created) {
    return failed(errno_of(created));
  }
  qp->nic_qp = *created;
  if (extension.blocks_own_multicast) {
    context.engine().with_nic([&](nic::Nic&, Time) { nic::block_own_multicast(*qp->nic_qp); });
  }
  qp->qp_base.qp_num = to_value(nic::qpn_of(**created));
  qp->qp_base.handle = qp->qp_base.qp_num;
  attr.cap = caps_to(nic::qp_caps(**created));
  context.track(context.qps, *qp);
  return &qp.release()->qp_base;
}

/// Fields whose bit is not in the mask may hold anything: they are translated all the same, and
/// not looked at by the Nic.
nic::QpAttr attr_from(const ibv_qp_attr& from) {
  nic::QpAttr to;
  to.state = static_cast<nic::QpState>(number_in(from.qp_state));
  to.cur_state = static_cast<nic::QpState>(number_in(from.cur_qp_state));
  to.en_sqd_async_notify = from.en_sqd_async_notify != 0;
  to.access_flags = Access{from.qp_access_flags};
  to.pkey_index = from.pkey_index;
  to.port = from.port_num;
  to.qkey = Qkey{from.qkey};
  to.av = address_vector_from(from.ah_attr);
  to.path_mtu = static_cast<nic::Mtu>(number_in(from.path_mtu));
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.rq_psn = Psn(from.rq_psn);
  to.sq_psn = Psn(from.sq_psn);
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.dest_qpn = Qpn{from.dest_qp_num & qpn_mask};
  to.alt_av = address_vector_from(from.alt_ah_attr);
  to.alt_pkey_index = from.alt_pkey_index;
  to.alt_port = from.alt_port_num;
  to.alt_timeout = from.alt_timeout;
  to.path_mig_state = static_cast<nic::PathMigState>(number_in(from.path_mig_state));
  return to;
}

ibv_qp_attr attr_to(const nic::QpAttr& from) {
  ibv_qp_attr to{};
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = static_cast<ibv_qp_state>(from.state);
  to.en_sqd_async_notify = from.en_sqd_async_notify ? 1 : 0;
  to.qp_access_flags = to_value(from.access_flags);
  to.pkey_index = from.pkey_index;
  to.port_num = from.port;
  to.qkey = to_value(from.qkey);
  to.ah_attr = address_vector_to(from.av);
  to.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(from.path_mig_state);
  to.alt_ah_attr = address_vector_to(from.alt_av);
  to.alt_pkey_index = from.alt_pkey_index;
  to.alt_port_num = from.alt_port;
  to.alt_timeout = from.alt_timeout;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.rq_psn = from.rq_psn.value();
  to.sq_psn = from.sq_psn.value();
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.dest_qp_num = to_value(from.dest_qpn);
  return to;
}

/// What the casts of attr_from() can't carry over.
bool enumerators_exist(const ibv_qp_attr& attr, unsigned mask) {
  const bool state_exists = number_in(attr.qp_state) <= IBV_QPS_ERR;
  const bool current_exists = number_in(attr.cur_qp_state) <= IBV_QPS_ERR;
  const auto mtu = number_in(attr.path_mtu);
  const bool mtu_exists = mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096;
  return ((mask & IBV_QP_STATE) == 0 || state_exists) &&
         ((mask & IBV_QP_CUR_STATE) == 0 || current_exists) &&
         ((mask & IBV_QP_PATH_MTU) == 0 || mtu_exists) &&
         ((mask & IBV_QP_PATH_MIG_STATE) == 0 || number_in(attr.path_mig_state) <= IBV_MIG_ARMED);
}

/// What a half of an XRC connection doesn't have is ignored, as the kernel does it: programs give
/// both halves the attributes of a reliable connection.
unsigned mask_for(ibv_qp_type type, unsigned mask) {
  constexpr unsigned responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  constexpr unsigned requester = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  switch (type) {
    case IBV_QPT_XRC_SEND:
      return mask & ~responder;
    case IBV_QPT_XRC_RECV:
      return mask & ~requester;
    default:
      return mask;
  }
}

/// IBTA vol 1, 9.11: no packet leaves faster than the way of a connection takes them. A device that
/// doesn't limit rates keeps what it was told, and that is all.
void apply_static_rate(QueuePair& qp) {
  const int mbps = qp.static_rate <= IBV_RATE_1200_GBPS
                       ? ibv_rate_to_mbps(static_cast<ibv_rate>(qp.static_rate))
                       : 0;
  if (mbps <= 0) {
    return;
  }
  constexpr std::uint32_t kbps_per_mbps = 1000;
  qp.engine.with_nic([&](nic::Nic& nic, Time) {
    static_cast<void>(
        nic.limit_rate(*qp.nic_qp, {.kbps = static_cast<std::uint32_t>(mbps) * kbps_per_mbps}));
  });
}

/// Programs that connect queue pairs by themselves can't do it on an iWARP device, and few of them
/// say why they end.
void explain_refused_connection(QueuePair& qp, unsigned mask) {
  const ports::DeviceConfig& device = qp.owner().opened.config;
  if (device.technology == nic::Technology::iwarp && (mask & IBV_QP_AV) != 0) {
    ports::report(device.name +
                  ": queue pairs of an iWARP device are connected by librdmacm only; the program "
                  "has to use it (perftest: -R), or a RoCE device");
  }
}

Errno modify_qp(QueuePair& qp, const ibv_qp_attr& attr, unsigned mask) {
  if (qp.engine.is_dead()) {
    return EIO;
  }
  if (!enumerators_exist(attr, mask)) {
    return EINVAL;
  }
  const nic::QpAttr translated = attr_from(attr);
  if ((mask & IBV_QP_AV) != 0) {
    // What the kernel answers when no route leads to the peer. Later, it would be a silent timeout.
    const ports::DeviceConfig& device = qp.owner().opened.config;
    if (const auto reason = why_unreachable(device, translated.av)) {
      ports::report(device.name + ": " + *reason);
      return ENETUNREACH;
    }
  }
  std::optional<PollersHeld> held;
  if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET) {
    held.emplace(qp.qp_base.send_cq, qp.qp_base.recv_cq);
  }
  const auto modified = qp.engine.with_nic(
      [&](nic::Nic& nic, Time now) { return nic.modify_qp(now, *qp.nic_qp, translated, mask); });
  if (!modified) {
    explain_refused_connection(qp, mask);
    return errno_of(modified);
  }
  if ((mask & IBV_QP_AV) != 0) {
    qp.static_rate = attr.ah_attr.static_rate;
  }
  if ((mask & IBV_QP_STATE) != 0) {
    qp.qp_base.state = attr.qp_state;
    if (attr.qp_state == IBV_QPS_RTS) {
      apply_static_rate(qp);
    }
  }
  return 0;
}

void query_qp(QueuePair& qp, ibv_qp_attr& attr, ibv_qp_init_attr& init) {
  const nic::QpAttr current =
      qp.engine.with_nic([&](nic::Nic& nic, Time) { return nic.query_qp(*qp.nic_qp); });
  const ibv_qp_cap cap = caps_to(nic::qp_caps(*qp.nic_qp));
  attr = attr_to(current);
  attr.ah_attr.static_rate = qp.static_rate;
  attr.cap = cap;
  init = {};
  init.qp_context = qp.qp_base.qp_context;
  init.send_cq = qp.qp_base.send_cq;
  init.recv_cq = qp.qp_base.recv_cq;
  init.srq = qp.qp_base.srq;
  init.cap = cap;
  init.qp_type = qp.qp_base.qp_type;
  init.sq_sig_all = qp.signal_all ? 1 : 0;
  qp.qp_base.state = attr.qp_state;
}

/// What an extended creation may ask for beyond ibv_qp_init_attr.
constexpr std::uint32_t supported_init_attrs = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                               IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                               IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// An XRC target belongs to its domain alone: it has no protection domain and no CQs.
Created<ibv_qp> create_target(Context& context, ibv_qp_init_attr_ex& attr) {
  if (context.is_dead()) {
    return failed(EIO);
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr.xrcd->context != &context.context) {
    return failed(EINVAL);
  }
  auto& plain = reinterpret_cast<ibv_qp_init_attr&>(attr);
  plain.send_cq = plain.recv_cq = nullptr;
  plain.srq = nullptr;
  plain.cap = {};
  auto qp = std::make_unique<QueuePair>(context, plain, nullptr);
  nic::Xrcd& xrcd = *XrcDomain::of(attr.xrcd).nic_xrcd;
  const auto created = context.engine().create_qp(
      nic::pd_of(xrcd), {.type = nic::QpType::xrc_target, .xrcd = &xrcd, .cookie = qp->cookie()});
  if (!created) {
    return failed(errno_of(created));
  }
  qp->nic_qp = *created;
  qp->qp_base.qp_num = to_value(nic::qpn_of(**created));
  qp->qp_base.handle = qp->qp_base.qp_num;
  context.track(context.qps, *qp);
  return &qp.release()->qp_base;
}

/// Of ibv_qp_create_flags.
std::uint32_t offered_create_flags(Context& context, ibv_qp_type type) {
  // What the kernel calls IB_DEVICE_BLOCK_MULTICAST_LOOPBACK. The program isn't told of it: its
  // headers don't name it.
  constexpr std::uint32_t block_multicast_loopback = 1U << 22;
  const bool blocks = (context.engine().peek().profile().cap_flags & block_multicast_loopback) != 0;
  return blocks && type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

Created<ibv_qp> create_extended(ibv_context* context, ibv_qp_init_attr_ex& attr) {
  const auto asks_for = [&](std::uint32_t bit) { return (attr.comp_mask & bit) != 0; };
  Extension extension;
  if (asks_for(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
    extension.send_ops = attr.send_ops_flags;
  }
  const std::uint32_t flags = asks_for(IBV_QP_INIT_ATTR_CREATE_FLAGS) ? attr.create_flags : 0;
  if ((attr.comp_mask & ~supported_init_attrs) != 0 ||
      (flags & ~offered_create_flags(Context::of(context), attr.qp_type)) != 0) {
    return failed(EOPNOTSUPP);
  }
  extension.blocks_own_multicast = (flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0;
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    return create_target(Context::of(context), attr);
  }
  if (!asks_for(IBV_QP_INIT_ATTR_PD) || attr.pd->context != context) {
    return failed(EINVAL);
  }
  // The extended struct begins with the members of the plain one.
  return create_qp(attr.pd, reinterpret_cast<ibv_qp_init_attr&>(attr), extension);
}

}  // namespace

/// The typical size of packets is advice that a pacer which counts their bytes doesn't need.
int modify_qp_rate_limit(ibv_qp* base, ibv_qp_rate_limit_attr* attr) noexcept {
  auto& qp = QueuePair::of(base);
  if (qp.engine.is_dead()) {
    return EIO;
  }
  if (attr->comp_mask != 0) {
    return EINVAL;
  }
  return errno_of(qp.engine.with_nic([&](nic::Nic& nic, Time) {
    return nic.limit_rate(*qp.nic_qp,
                          {.kbps = attr->rate_limit, .burst_bytes = attr->max_burst_sz});
  }));
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
  return create_or_null([&] { return create_extended(context, *attr); });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (is_real(pd)) {
    return real_verbs().ibv_create_qp(pd, attr);
  }
  return create_or_null([&] { return verbs::create_qp(pd, *attr, {}); });
}

VERBENA_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (is_real(qp)) {
    return real_verbs().ibv_modify_qp(qp, attr, mask);
  }
  return verbs::modify_qp(QueuePair::of(qp), *attr,
                          mask_for(qp->qp_type, static_cast<unsigned>(mask)));
}

VERBENA_EXPORT int ibv_query_qp(ibv_qp* base, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  if (is_real(base)) {
    return real_verbs().ibv_query_qp(base, attr, mask, init);
  }
  auto& qp = QueuePair::of(base);
  if (qp.engine.is_dead()) {
    return EIO;
  }
  verbs::query_qp(qp, *attr, *init);
  return 0;
}

VERBENA_EXPORT int ibv_destroy_qp(ibv_qp* base) {
  if (is_real(base)) {
    return real_verbs().ibv_destroy_qp(base);
  }
  auto& qp = QueuePair::of(base);
  if (qp.nic_qp != nullptr && !qp.engine.is_dead()) {
    if (const auto released = qp.release(); !released) {
      return errno_of(released);
    }
    qp.owner().untrack(qp.owner().qps, qp);
    qp.wait_for_acknowledgements();
  }
  destroy_placed(&qp);
  return 0;
}

VERBENA_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* base) {
  if (is_real(base)) {
    return real_verbs().ibv_qp_to_qp_ex(base);
  }
  auto& qp = QueuePair::of(base);
  return qp.builder == nullptr ? nullptr : &qp;
}

// No promise about the order of bytes within a message.
VERBENA_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode,
                                              std::uint32_t flags) {
  if (is_real(qp)) {
    return real_verbs().ibv_query_qp_data_in_order(qp, opcode, flags);
  }
  return 0;
}

VERBENA_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_real(qp)) {
    return real_verbs().ibv_query_ece(qp, ece);
  }
  return EOPNOTSUPP;
}

VERBENA_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (is_real(qp)) {
    return real_verbs().ibv_set_ece(qp, ece);
  }
  return EOPNOTSUPP;
}
