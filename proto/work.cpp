#include "proto/work.h"

namespace verbena {

const char* name_of(WcStatus status) noexcept {
  switch (status) {
    case WcStatus::success:
      return "success";
    case WcStatus::loc_len_err:
      return "loc_len_err";
    case WcStatus::loc_qp_op_err:
      return "loc_qp_op_err";
    case WcStatus::loc_eec_op_err:
      return "loc_eec_op_err";
    case WcStatus::loc_prot_err:
      return "loc_prot_err";
    case WcStatus::wr_flush_err:
      return "wr_flush_err";
    case WcStatus::mw_bind_err:
      return "mw_bind_err";
    case WcStatus::bad_resp_err:
      return "bad_resp_err";
    case WcStatus::loc_access_err:
      return "loc_access_err";
    case WcStatus::rem_inv_req_err:
      return "rem_inv_req_err";
    case WcStatus::rem_access_err:
      return "rem_access_err";
    case WcStatus::rem_op_err:
      return "rem_op_err";
    case WcStatus::retry_exc_err:
      return "retry_exc_err";
    case WcStatus::rnr_retry_exc_err:
      return "rnr_retry_exc_err";
  }
  return "unknown status";
}

WcOpcode completion_opcode(WrOpcode opcode) noexcept {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return WcOpcode::rdma_write;
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
      return WcOpcode::send;
    case WrOpcode::rdma_read:
      return WcOpcode::rdma_read;
    case WrOpcode::atomic_cmp_and_swp:
      return WcOpcode::comp_swap;
    case WrOpcode::atomic_fetch_and_add:
      return WcOpcode::fetch_add;
    case WrOpcode::local_inv:
      return WcOpcode::local_inv;
    case WrOpcode::bind_mw:
      return WcOpcode::bind_mw;
    case WrOpcode::flush:
      return WcOpcode::flush;
    case WrOpcode::atomic_write:
      return WcOpcode::atomic_write;
  }
  return WcOpcode::send;
}

}  // namespace verbena
