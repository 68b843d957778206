#include "nic_model/qp_state_table.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::nic {

namespace {

namespace m = qp_attr_mask;

struct Row {
  QpState from;
  QpState to;
  QpType type;
  TransitionRule rule;
};

using enum QpState;
using enum QpType;

constexpr Row rows[] = {
    {reset, init, rc, {m::pkey_index | m::port | m::access_flags, 0}},
    {reset, init, uc, {m::pkey_index | m::port | m::access_flags, 0}},
    {reset, init, xrc_initiator, {m::pkey_index | m::port | m::access_flags, 0}},
    {reset, init, xrc_target, {m::pkey_index | m::port | m::access_flags, 0}},
    {reset, init, ud, {m::pkey_index | m::port | m::qkey, 0}},

    {init, init, rc, {0, m::pkey_index | m::port | m::access_flags}},
    {init, init, uc, {0, m::pkey_index | m::port | m::access_flags}},
    {init, init, xrc_initiator, {0, m::pkey_index | m::port | m::access_flags}},
    {init, init, xrc_target, {0, m::pkey_index | m::port | m::access_flags}},
    {init, init, ud, {0, m::pkey_index | m::port | m::qkey}},

    {init,
     rtr,
     rc,
     {m::av | m::path_mtu | m::dest_qpn | m::rq_psn | m::max_dest_rd_atomic | m::min_rnr_timer,
      m::alt_path | m::access_flags | m::pkey_index}},
    {init,
     rtr,
     uc,
     {m::av | m::path_mtu | m::dest_qpn | m::rq_psn,
      m::alt_path | m::access_flags | m::pkey_index}},
    {init,
     rtr,
     xrc_initiator,
     {m::av | m::path_mtu | m::dest_qpn | m::rq_psn,
      m::alt_path | m::access_flags | m::pkey_index}},
    {init,
     rtr,
     xrc_target,
     {m::av | m::path_mtu | m::dest_qpn | m::rq_psn | m::max_dest_rd_atomic | m::min_rnr_timer,
      m::alt_path | m::access_flags | m::pkey_index}},
    {init, rtr, ud, {0, m::pkey_index | m::qkey}},

    {rtr,
     rts,
     rc,
     {m::timeout | m::retry_cnt | m::rnr_retry | m::sq_psn | m::max_qp_rd_atomic,
      m::cur_state | m::alt_path | m::access_flags | m::min_rnr_timer | m::path_mig_state}},
    {rtr, rts, uc, {m::sq_psn, m::cur_state | m::alt_path | m::access_flags | m::path_mig_state}},
    {rtr,
     rts,
     xrc_initiator,
     {m::timeout | m::retry_cnt | m::rnr_retry | m::sq_psn | m::max_qp_rd_atomic,
      m::cur_state | m::alt_path | m::access_flags | m::path_mig_state}},
    {rtr,
     rts,
     xrc_target,
     {m::timeout | m::sq_psn,
      m::cur_state | m::alt_path | m::access_flags | m::min_rnr_timer | m::path_mig_state}},
    {rtr, rts, ud, {m::sq_psn, m::cur_state | m::qkey}},

    {rts,
     rts,
     rc,
     {0, m::cur_state | m::access_flags | m::alt_path | m::path_mig_state | m::min_rnr_timer}},
    {rts, rts, uc, {0, m::cur_state | m::access_flags | m::alt_path | m::path_mig_state}},
    {rts,
     rts,
     xrc_initiator,
     {0, m::cur_state | m::access_flags | m::alt_path | m::path_mig_state}},
    {rts,
     rts,
     xrc_target,
     {0, m::cur_state | m::access_flags | m::alt_path | m::path_mig_state | m::min_rnr_timer}},
    {rts, rts, ud, {0, m::cur_state | m::qkey}},

    {rts, sqd, rc, {0, m::en_sqd_async_notify}},
    {rts, sqd, uc, {0, m::en_sqd_async_notify}},
    {rts, sqd, xrc_initiator, {0, m::en_sqd_async_notify}},
    {rts, sqd, xrc_target, {0, m::en_sqd_async_notify}},
    {rts, sqd, ud, {0, m::en_sqd_async_notify}},

    {sqd,
     rts,
     rc,
     {0, m::cur_state | m::alt_path | m::access_flags | m::min_rnr_timer | m::path_mig_state}},
    {sqd, rts, uc, {0, m::cur_state | m::alt_path | m::access_flags | m::path_mig_state}},
    {sqd,
     rts,
     xrc_initiator,
     {0, m::cur_state | m::alt_path | m::access_flags | m::path_mig_state}},
    {sqd,
     rts,
     xrc_target,
     {0, m::cur_state | m::alt_path | m::access_flags | m::min_rnr_timer | m::path_mig_state}},
    {sqd, rts, ud, {0, m::cur_state | m::qkey}},

    {sqd,
     sqd,
     rc,
     {0, m::port | m::av | m::timeout | m::retry_cnt | m::rnr_retry | m::max_qp_rd_atomic |
             m::max_dest_rd_atomic | m::alt_path | m::access_flags | m::pkey_index |
             m::min_rnr_timer | m::path_mig_state}},
    {sqd, sqd, uc, {0, m::av | m::alt_path | m::access_flags | m::pkey_index | m::path_mig_state}},
    {sqd,
     sqd,
     xrc_initiator,
     {0, m::port | m::av | m::timeout | m::retry_cnt | m::rnr_retry | m::max_qp_rd_atomic |
             m::alt_path | m::access_flags | m::pkey_index | m::path_mig_state}},
    {sqd,
     sqd,
     xrc_target,
     {0, m::port | m::av | m::timeout | m::max_dest_rd_atomic | m::alt_path | m::access_flags |
             m::pkey_index | m::min_rnr_timer | m::path_mig_state}},
    {sqd, sqd, ud, {0, m::pkey_index | m::qkey}},

    {sqe, rts, uc, {0, m::cur_state | m::access_flags}},
    {sqe, rts, ud, {0, m::cur_state | m::qkey}},
};

}  // namespace

std::optional<TransitionRule> transition_rule(QpType type, QpState from, QpState to) {
  if (type == QpType::gsi) {
    type = QpType::ud;
  }
  if (to == reset || to == err) {
    return TransitionRule{};
  }
  const auto* const row = std::ranges::find_if(rows, [&](const Row& candidate) {
    return candidate.from == from && candidate.to == to && candidate.type == type;
  });
  if (row == std::end(rows)) {
    return std::nullopt;
  }
  return row->rule;
}

std::uint32_t bring_up_mask(QpType type, QpState to) {
  const QpState from = to == init ? reset : to == rtr ? init : rtr;
  const auto rule = transition_rule(type, from, to);
  VERBENA_CHECK(rule.has_value());
  return m::state | rule->required;
}

bool transition_permits(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const auto rule = transition_rule(type, from, to);
  if (!rule) {
    return false;
  }
  const std::uint32_t known = rule->required | rule->optional | m::state;
  return (mask & rule->required) == rule->required && (mask & ~known) == 0;
}

}  // namespace verbena::nic
