#include "ports/diagnosis.h"

namespace verbena::ports {

std::string_view explain(WcStatus status) {
  switch (status) {
    case WcStatus::success:
    case WcStatus::wr_flush_err:
      return {};
    case WcStatus::loc_len_err:
      return "the message is longer than the receive that was posted for it, or than a message may "
             "be";
    case WcStatus::loc_qp_op_err:
      return "the request is none that this queue pair can do";
    case WcStatus::loc_eec_op_err:
      return "the end-to-end context can't do it";
    case WcStatus::loc_prot_err:
      return "an SGE's lkey is unknown or of another domain, or its region doesn't cover the range";
    case WcStatus::mw_bind_err:
      return "the memory window can't be bound so: see the rights and the range of its region";
    case WcStatus::bad_resp_err:
      return "the peer answered with an opcode that doesn't fit the request";
    case WcStatus::loc_access_err:
      return "a receive's memory has no right to be written";
    case WcStatus::rem_inv_req_err:
      return "the peer found the request invalid: longer than its receive, or an operation that "
             "its "
             "queue pair doesn't allow (qp_access_flags, max_dest_rd_atomic)";
    case WcStatus::rem_access_err:
      return "the peer's rkey, range or rights (IBV_ACCESS_REMOTE_*) don't cover what was asked "
             "for";
    case WcStatus::rem_op_err:
      return "the peer couldn't finish the request: its own queue pair failed over it";
    case WcStatus::retry_exc_err:
      return "no answer, retry_cnt times over: the peer's process or host is gone or stopped, its "
             "queue pair is not in RTR or is another one, or the network drops UDP port 4791";
    case WcStatus::rnr_retry_exc_err:
      return "the peer had no receive posted, rnr_retry times over";
  }
  return {};
}

std::string_view explain(Counter counter) {
  switch (counter) {
    case Counter::rx_icrc_encapsulated:
      return "frames arrive with a wrong ICRC: something on the way changes them (NAT, a tunnel, "
             "bad memory), or the sender computes it wrongly";
    case Counter::rx_drop_not_roce:
      return "something that isn't RoCE arrives at UDP port 4791";
    case Counter::rx_drop_malformed:
      return "frames arrive cut short or with headers that contradict each other";
    case Counter::rx_drop_unknown_opcode:
      return "a peer uses opcodes that the specification doesn't list";
    case Counter::rx_drop_wrong_address:
      return "frames arrive for addresses that the device hasn't: compare GIDs on both sides";
    case Counter::rx_drop_unknown_qp:
      return "frames arrive for queue pairs that don't exist: the peer has the QPN of an older "
             "run, "
             "or the program here has ended";
    case Counter::rx_drop_qp_state:
      return "frames arrive for a queue pair that isn't ready to receive: it is in RESET, INIT or "
             "ERR";
    case Counter::rx_drop_wrong_service:
      return "a peer's queue pair has another type (RC, UC, UD, XRC) than the one it sends to";
    case Counter::rx_drop_pkey:
      return "partition keys differ";
    case Counter::rx_drop_wrong_peer:
      return "frames arrive from another address than the queue pair is connected to: compare the "
             "GID indices of both sides (IPv4 or IPv6, RoCE v1 or v2)";
    case Counter::rx_drop_qkey:
      return "datagrams arrive with another Q_Key than the queue pair's";
    case Counter::rx_drop_message:
      return "unreliable messages arrive that are not allowed or don't fit into the receive";
    case Counter::send_err:
      return "frames found no way out: nobody has that address in this fabric, or the kernel has "
             "no "
             "route";
    case Counter::cq_overflow:
      return "a completion queue was full: the program creates it too small or polls too rarely";
    case Counter::async_event_overflow:
      return "the program doesn't fetch asynchronous events (ibv_get_async_event)";
    default:
      return {};
  }
}

}  // namespace verbena::ports
