#include "nic_model/types.h"

#include <algorithm>

namespace verbena::nic {

const char* name_of(QpState state) noexcept {
  switch (state) {
    case QpState::reset:
      return "RESET";
    case QpState::init:
      return "INIT";
    case QpState::rtr:
      return "RTR";
    case QpState::rts:
      return "RTS";
    case QpState::sqd:
      return "SQD";
    case QpState::sqe:
      return "SQE";
    case QpState::err:
      return "ERR";
  }
  return "unknown state";
}

const char* name_of(AsyncEventType type) noexcept {
  switch (type) {
    case AsyncEventType::cq_err:
      return "CQ_ERR";
    case AsyncEventType::qp_fatal:
      return "QP_FATAL";
    case AsyncEventType::qp_req_err:
      return "QP_REQ_ERR";
    case AsyncEventType::qp_access_err:
      return "QP_ACCESS_ERR";
    case AsyncEventType::comm_est:
      return "COMM_EST";
    case AsyncEventType::sq_drained:
      return "SQ_DRAINED";
    case AsyncEventType::path_mig:
      return "PATH_MIG";
    case AsyncEventType::path_mig_err:
      return "PATH_MIG_ERR";
    case AsyncEventType::device_fatal:
      return "DEVICE_FATAL";
    case AsyncEventType::port_active:
      return "PORT_ACTIVE";
    case AsyncEventType::port_err:
      return "PORT_ERR";
    case AsyncEventType::srq_limit_reached:
      return "SRQ_LIMIT_REACHED";
    case AsyncEventType::qp_last_wqe_reached:
      return "QP_LAST_WQE_REACHED";
    case AsyncEventType::gid_change:
      return "GID_CHANGE";
  }
  return "unknown event";
}

bool is_known(AsyncEventType type) noexcept {
  return std::ranges::find(async_event_types, type) != async_event_types.end();
}

}  // namespace verbena::nic
