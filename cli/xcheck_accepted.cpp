#include "cli/xcheck_accepted.h"

#include "cli/known_differences.h"

#include <span>

namespace verbena::cli {
namespace {

/// A pattern as fnmatch(3) has them for each part of a difference.
struct Accepted {
  const char* test_case;
  const char* step;
  const char* field;
  const char* ours;
  const char* theirs;
  const char* rule;
};

constexpr const char* none = "";
constexpr const char* no_such_key = "SEND_INV of a key that nobody has";

constexpr const char* grh_rule =
    "IBV_WC_GRH is valid only for UD queue pairs (ibv_poll_cq(3)); rxe sets it for connected "
    "services too";
constexpr const char* immediate_rule =
    "IBV_WC_WITH_IMM says that immediate data is valid (ibv_poll_cq(3)), which only a receiver "
    "has; rxe says so of the sender's completion, too";
constexpr const char* alignment_rule =
    "The responder refuses an address that isn't aligned; rxe refuses already to post the request";
constexpr const char* atomic_size_rule =
    "An atomic whose length isn't 8 bytes is a local length error (RDMAmojo, ibv_poll_cq()); rxe "
    "refuses already to post the request";
constexpr const char* datagram_rule =
    "A message longer than can be sent is a local length error (RDMAmojo, ibv_poll_cq()); rxe "
    "tells of success";
constexpr const char* no_operation_rule =
    "An operation that doesn't exist is refused when it is posted, as what can be detected then "
    "(ibv_post_send(3)); rxe takes it and goes to the error state";

// Values are pinned where they can be, so that nothing else passes for what is explained here.
// What is cited are the manual pages of rdma-core 44 and what
// www.rdmamojo.com/2013/02/15/ibv_poll_cq says of completions from the InfiniBand specification.
// The kernel is 6.1. The order matters: the first that fits is told.
constexpr Accepted table[] = {
    {"reg_mr", "no byte", any, any, any,
     "A region without a byte: we refuse it always, rxe only if it begins where a page does"},
    {"create_qp", "type 99", "return", "EOPNOTSUPP", "EINVAL",
     "A type of queue pair that doesn't exist: both refuse it, with different words"},
    {"states of *", any, "bad_wr is the request", "1", "0",
     "bad_wr is the request that was refused (ibv_post_send(3)). rxe's library has queued it by "
     "then and leaves bad_wr alone"},
    {"states of *", "ERR", "sends flushed", "1", any,
     "A request that was refused makes no completion. rxe's library has queued it all the same, "
     "and it is flushed with the others"},
    {"states of *", "ERR", "receives flushed", "4", any,
     "All receives of a queue pair in the error state are flushed (RDMAmojo, ibv_poll_cq()). rxe "
     "waits with one that is posted in that state until something else wakes the queue pair"},
    {"refused transitions", "INIT with pkey 999", "modify_qp", "EINVAL", "0",
     "An index beyond the P_Key table is an invalid attribute, and nothing is modified then "
     "(ibv_modify_qp(3)); rxe doesn't look"},
    {any, "responder", "wc_flags", "0x0", "0x1", grh_rule},
    {any, "responder", "wc_flags", "0x2", "0x3", grh_rule},
    {any, "requester", "wc_flags", "0x0", "0x2", immediate_rule},
    {any, "requester", "imm_data", none, "0x0", immediate_rule},
    {any, "event *", "type", "* work queue error", none, rxe_rule::event},
    {any, "events", "count", "1", "0", rxe_rule::event},
    {"FAA, not aligned", "post_send", "return", "0", "EINVAL", alignment_rule},
    {"FAA, not aligned", any, any, any, none, alignment_rule},
    {"FAA, 4 bytes", "post_send", "return", "0", "EINVAL", atomic_size_rule},
    {"FAA, 4 bytes", any, any, any, none, atomic_size_rule},
    {"SEND, * than the receive", "requester", "completion", "remote invalid request error",
     "remote operation error", rxe_rule::too_long},
    {"SEND, * than the receive", "responder", "completion", "local length error",
     "local QP operation error", rxe_rule::too_long},
    {no_such_key, "requester", "completion", "remote access error", "success",
     rxe_rule::invalidate},
    {no_such_key, "requester", "state", "ERR", "RTS", rxe_rule::invalidate},
    {no_such_key, "requester", "opcode", none, "0", rxe_rule::invalidate},
    {no_such_key, "requester", "wc_flags", none, "0x0", rxe_rule::invalidate},
    {no_such_key, "responder", "completion", "local access error", "remote invalid request error",
     rxe_rule::invalidate},
    {no_such_key, "the next request", "completion", "Work Request Flushed Error", "none",
     rxe_rule::invalidate},
    {no_such_key, "the next request", "wr_id", "200", none, rxe_rule::invalidate},
    {no_such_key, "the next request", "qp_num is its own", "1", none, rxe_rule::invalidate},
    {"bad requests", "no such operation", "return", "EINVAL", "0", no_operation_rule},
    {"bad requests", "after that", "state", "RTS", "ERR", no_operation_rule},
    {"SEND, wrong local key", "requester", "completion", "local protection error",
     "local QP operation error",
     "A wrong local key is a local protection error (RDMAmojo, ibv_poll_cq()); rxe calls it an "
     "operation error"},
    {"UD, longer than the MTU", "requester", "completion", "local length error", "success",
     datagram_rule},
    {"UD, longer than the MTU", "requester", any, none, any, datagram_rule},
};

constexpr const char* no_state_rule =
    "siw's ibv_query_qp() tells neither state nor attributes: RESET, always (siw_query_qp())";
constexpr const char* no_rtr_rule =
    "iWARP has no state between IDLE and RTS, and RTS comes with a connection: ours refuses what "
    "asks for more, siw takes it for no change";
constexpr const char* unread_rule =
    "siw looks at state and access flags of ibv_modify_qp(), and not at what else it is given";
constexpr const char* early_send_rule =
    "A request is refused in the states before RTS (ibv_post_send(3)); siw's library queues it, "
    "and tells of an error only where it meets an idle queue";
constexpr const char* no_piece_rule =
    "A receive may have no piece of memory (num_sge of ibv_post_recv(3)); siw's library wants one";
constexpr const char* flushed_later_rule =
    "A request posted in the error state is flushed at once (RDMAmojo, ibv_poll_cq()); siw's "
    "library queues it, and its kernel doesn't look there any more";
constexpr const char* read_refused_rule =
    "TERMINATE brings the header of what was refused (RFC 5040, 4.8), so that a READ that it names "
    "completes with its own error; siw flushes all alike";
constexpr const char* iwarp_event_rule =
    "Who refuses is told by an event of its queue pair, and so is who gets TERMINATE (docs/"
    "iwarp.md); siw tells of some, of the former only, and calls them otherwise";
constexpr const char* overflow_rule =
    "Memory that ends beyond the address space is none (EINVAL of ibv_reg_mr(3)); siw registers it";
constexpr const char* no_queues_rule =
    "A queue pair without a send queue: ours makes it, siw has none of that kind";
constexpr const char* iwarp_invalidate_rule =
    "A key that can't be invalidated ends the connection (RFC 5040, 7); siw completes "
    "the receive with an error, and goes on";

constexpr const char* closed_early_rule =
    "A request is complete when TCP has it; siw looks after each segment whether the peer has "
    "closed meanwhile, and ends it with an error then, though all of it is sent "
    "(siw_qp_sq_proc_tx())";

// As above, against siw. Cited are siw's sources of Linux 6.1 and of rdma-core 44's providers/siw.
constexpr Accepted iwarp_table[] = {
    {"port", "query", "max_mtu", any, any,
     "iWARP has no path MTU, TCP cuts: ours tells the largest there is, siw its interface's"},
    {"create_cq", "one entry", "resize to 64", "0", "EOPNOTSUPP",
     "siw changes the size of no completion queue"},
    {"reg_mr", "beyond the address space", any, any, any, overflow_rule},
    {"create_qp", "type 99", "return", "EOPNOTSUPP", "EINVAL",
     "A type of queue pair that doesn't exist: both refuse it, with different words"},
    {"create_qp", "no queues", "return", "made", "EINVAL", no_queues_rule},
    {"create_qp", "no queues", any, "0", none, no_queues_rule},
    {"order", "post_srq_recv without SGE", "return", "0", "EINVAL", no_piece_rule},
    {any, any, "qp_state", any, "RESET", no_state_rule},
    {any, any, "object's state", any, "RESET", no_state_rule},
    {any, any, "state", any, "RESET", no_state_rule},
    {any, any, "port_num", "1", none, no_state_rule},
    {any, any, "qp_access_flags", any, none, no_state_rule},
    {"states of RC", any, "post_recv", "0", "EINVAL", no_piece_rule},
    {"states of RC", "ERR", "receives flushed", "4", "0", no_piece_rule},
    {"states of RC", any, "post_send", "EINVAL", any, early_send_rule},
    {"states of RC", any, "bad_wr is the request", "1", any, early_send_rule},
    {"states of RC", "ERR", "sends flushed", "1", "0", flushed_later_rule},
    {"states of RC", "RTR", "modify_qp", "EINVAL", "0", no_rtr_rule},
    {"refused transitions", "RTR*", "modify_qp", "EINVAL", "0", no_rtr_rule},
    {"refused transitions", "INIT with a Q_Key", "modify_qp", "EINVAL", "0", unread_rule},
    {any, "requester", "completion", "success", "local QP operation error", closed_early_rule},
    {any, "requester", "opcode", any, none, closed_early_rule},
    {any, "requester", "wc_flags", any, none, closed_early_rule},
    {no_such_key, any, "DISCONNECTED", "1", "0", iwarp_invalidate_rule},
    {no_such_key, "responder", "completion", "Work Request Flushed Error",
     "remote invalid request error", iwarp_invalidate_rule},
    // The receive is gone by then: whether the request is told of that is a matter of time.
    {no_such_key, "the next request", any, any, any, iwarp_invalidate_rule},
    {"READ, *", "requester", "completion", "remote access error", "Work Request Flushed Error",
     read_refused_rule},
    {any, "event *", "type", "local access violation work queue error", any, iwarp_event_rule},
    {any, "event *", "type", "invalid request local work queue error", any, iwarp_event_rule},
    {any, "event *", "type", "local work queue catastrophic error", any, iwarp_event_rule},
    {any, "events", "count", "2", "[01]", iwarp_event_rule},
    {any, "the next request", "completion", "Work Request Flushed Error", "none",
     flushed_later_rule},
    {any, "the next request", "wr_id", "200", none, flushed_later_rule},
    {any, "the next request", "qp_num is its own", "1", none, flushed_later_rule},
    {"bad requests", "more SGEs than the queue pair has", "return", "EINVAL", "0",
     "A request with more pieces than the queue pair has is refused (ibv_post_send(3)); siw's "
     "library knows only the most that any may have"},
    {"SEND, wrong local key", "requester", "completion", "local protection error",
     "local QP operation error",
     "A wrong local key is a local protection error (RDMAmojo, ibv_poll_cq()); siw calls it an "
     "operation error"},
};

/// A bug of a peer, by what the matrix tells of it: patterns as above.
struct KnownBug {
  const char* against;
  const char* operation;
  const char* initiator;
  const char* words;
  const char* rule;
};

constexpr KnownBug bugs[] = {
    // The kernel's own flags (ib_verbs.h) and those of the verbs (verbs.h) differ from bit 2 on.
    {"rxe", "RC SEND_INV", "ours",
     "theirs: the receive doesn't tell that a key is gone (flags 0x5)",
     "rxe gives programs the kernel's number of the flag, 4, which is another flag to them; "
     "IBV_WC_WITH_INV is 8"},
    // As in what each device does by itself, above.
    {"rxe", "RC SEND, too long", "ours",
     "ours: the request ended with: remote operation error; theirs: the receive ended with: local "
     "QP operation error",
     rxe_rule::too_long},
    // providers/siw/siw.c of rdma-core, copy_cqe().
    {"siw", "RC SEND_INV", "ours",
     "theirs: the receive doesn't tell that a key is gone (flags 0x0)",
     "siw's library gives every completion the flags 0, and no key"},
    // siw's queue pair ends without an error of its receive queue.
    {"siw", "RC READ, wrong key", "ours", "*theirs: nothing was received in *",
     "siw refuses the READ and ends the connection, but doesn't flush its receives"},
    // siw_cm.c: ird and ord of the event are its own, not the peer's as with the others.
    {"siw", "CM *", "theirs",
     "theirs: RDMA_CM_EVENT_ESTABLISHED tells of depths 3 and 2 instead of 2 and 3",
     "siw swaps the two depths in the event of who connects"},
    // tcp_data_queue() tells of the end first, and siw takes that for the answer.
    {"siw", "CM reject", "theirs",
     "theirs: RDMA_CM_EVENT_REJECTED brings 0 bytes of private data instead of *",
     "siw loses the private data of a refusal that comes in one segment with the end of TCP's "
     "stream"},
};

}  // namespace

std::optional<std::string> rule_for(const Difference& difference, bool is_iwarp) {
  for (const Accepted& row :
       is_iwarp ? std::span<const Accepted>(iwarp_table) : std::span<const Accepted>(table)) {
    if (fits(row.test_case, difference.name.test_case) && fits(row.step, difference.name.step) &&
        fits(row.field, difference.name.field) && fits(row.ours, difference.ours) &&
        fits(row.theirs, difference.theirs)) {
      return row.rule;
    }
  }
  return std::nullopt;
}

std::optional<std::string> known_bug(const MatrixCell& cell, const std::string& against) {
  for (const KnownBug& bug : bugs) {
    if (against == bug.against && fits(bug.operation, cell.operation) &&
        fits(bug.initiator, cell.initiator) && fits(bug.words, cell.words)) {
      return bug.rule;
    }
  }
  return std::nullopt;
}

std::optional<std::string> loss_of_unreliable(const MatrixCell& cell) {
  const bool is_unreliable = fits("U[CD] *", cell.operation);
  // An initiator's completion doesn't depend on what the network does.
  const bool is_about_target =
      fits("*: nothing was received in *", cell.words) || fits("*: the data is wrong", cell.words);
  if (is_unreliable && is_about_target) {
    return "an unreliable service loses what the network loses";
  }
  return std::nullopt;
}

}  // namespace verbena::cli
