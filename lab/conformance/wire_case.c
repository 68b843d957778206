#include "lab/conformance/wire_case.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/conformance/pair.h"
#include "lab/conformance/side.h"

enum {
  seed_initiator = 11,
  seed_target = 13,
  immediate = 0x01020304,
  // A WRITE over UC has no completion at its target: it is there soon, or lost.
  unreliable_limit_ms = 10000,
  flush_limit_ms = 10000,
  // The kernel's rdma_cm gives queue pairs an ACK timeout of seconds, so that what is lost takes
  // long.
  cm_completion_limit_ms = 40000,
  atomic_add = 5,
  // XORed with a right key.
  wrong_key = 0x00ffff00,
};
static const uint64_t atomic_before = 0xfffffffffffffffe;
static const uint64_t atomic_swap = 0x0123456789abcdef;

const struct wire_operation wire_operations[] = {
    {"RC SEND", IBV_QPT_RC, IBV_WR_SEND, kind_transfer},
    {"RC SEND_IMM", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, kind_transfer},
    {"RC SEND_INV", IBV_QPT_RC, IBV_WR_SEND_WITH_INV, kind_transfer},
    {"RC WRITE", IBV_QPT_RC, IBV_WR_RDMA_WRITE, kind_transfer},
    {"RC WRITE_IMM", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, kind_transfer},
    {"RC READ", IBV_QPT_RC, IBV_WR_RDMA_READ, kind_transfer},
    {"RC CAS", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, kind_transfer},
    {"RC FAA", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, kind_transfer},
    {"RC WRITE, wrong key", IBV_QPT_RC, IBV_WR_RDMA_WRITE, kind_wrong_key},
    {"RC READ, wrong key", IBV_QPT_RC, IBV_WR_RDMA_READ, kind_wrong_key},
    {"RC SEND, too long", IBV_QPT_RC, IBV_WR_SEND, kind_too_long},
    {"UC SEND", IBV_QPT_UC, IBV_WR_SEND, kind_transfer},
    {"UC SEND_IMM", IBV_QPT_UC, IBV_WR_SEND_WITH_IMM, kind_transfer},
    {"UC WRITE", IBV_QPT_UC, IBV_WR_RDMA_WRITE, kind_transfer},
    {"UC WRITE_IMM", IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, kind_transfer},
    {"UD SEND", IBV_QPT_UD, IBV_WR_SEND, kind_transfer},
    {"UD SEND_IMM", IBV_QPT_UD, IBV_WR_SEND_WITH_IMM, kind_transfer},
    {"UD multicast", IBV_QPT_UD, IBV_WR_SEND, kind_multicast},
    {"CM connect", IBV_QPT_RC, IBV_WR_SEND, kind_connect},
    {"CM disconnect", IBV_QPT_RC, IBV_WR_SEND, kind_disconnect_by_target},
    {"CM reject", IBV_QPT_RC, IBV_WR_SEND, kind_reject},
    {"CM nobody listens", IBV_QPT_RC, IBV_WR_SEND, kind_nobody},
};
const int wire_operation_count = sizeof wire_operations / sizeof *wire_operations;

static int is_refused(const struct side* side) {
  return kind_of(side) == kind_wrong_key || kind_of(side) == kind_too_long;
}

static int ends_by_disconnect(const struct side* side) {
  return kind_of(side) == kind_connect || kind_of(side) == kind_disconnect_by_target;
}

static int has_immediate(const struct side* side) {
  return opcode_of(side) == IBV_WR_SEND_WITH_IMM || opcode_of(side) == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// Does data go over the connection?
static int carries_data(const struct side* side) {
  return kind_of(side) != kind_reject && kind_of(side) != kind_nobody;
}

static void prepare_memory(struct side* side) {
  uint8_t* memory = side->end.memory;
  fill(memory, side->end.bytes, side->what->is_initiator ? seed_initiator : seed_target);
  if (is_atomic(side) && !side->what->is_initiator) {
    memcpy(memory, &atomic_before, sizeof atomic_before);
  }
}

// SEND_INV takes away a key: that of a window of type 2, bound here, since no region of user space
// may go by this on InfiniBand. It may on iWARP (RFC 5040, 5.3), whose devices need no windows.
static void bind_window(struct side* side) {
  struct endpoint* end = &side->end;
  if (!is_well(side) || opcode_of(side) != IBV_WR_SEND_WITH_INV || side->what->is_initiator) {
    return;
  }
  errno = 0;
  if (!(end->device->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B)) {
    if (!is_iwarp(side->device)) {
      say(side, "unsupported: the device has no memory windows of type 2");
      return;
    }
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    side->victim = ibv_reg_mr(end->pd, end->memory, end->bytes, access);
    check(side, side->victim != NULL ? 0 : errno, "ibv_reg_mr");
    return;
  }
  side->window = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
  if (side->window == NULL) {
    check(side, errno, "ibv_alloc_mw");
    return;
  }
  struct ibv_send_wr request = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED},
                     *bad = NULL;
  request.bind_mw.mw = side->window;
  request.bind_mw.rkey = ibv_inc_rkey(side->window->rkey);
  request.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = end->mr,
                                                        .addr = (uintptr_t)end->memory,
                                                        .length = end->bytes,
                                                        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  check(side, ibv_post_send(end->qp, &request, &bad), "binding a window");
  struct ibv_wc wc;
  if (is_well(side) &&
      (wait_completion(end->cq, &wc, case_limit_ms) != 1 || wc.status != IBV_WC_SUCCESS)) {
    say(side, "binding a window didn't complete well");
  }
  side->window->rkey = request.bind_mw.rkey;
}

static void post_receive_of(struct side* side, uint32_t bytes) {
  struct ibv_sge piece = {
      .addr = (uintptr_t)side->end.memory, .length = bytes, .lkey = side->end.mr->lkey};
  // siw wants an SGE in any case; to InfiniBand's devices one of no bytes may mean 2 GiB.
  const int count = bytes != 0 || is_iwarp(side->device) ? 1 : 0;
  struct ibv_recv_wr request = {.wr_id = 1, .sg_list = &piece, .num_sge = count};
  struct ibv_recv_wr* bad = NULL;
  check(side, ibv_post_recv(side->end.qp, &request, &bad), "ibv_post_recv");
}

static void prepare_receives(struct side* side) {
  if (!is_well(side) || !carries_data(side)) {
    return;
  }
  if (!side->what->is_initiator && kind_of(side) == kind_too_long) {
    post_receive_of(side, probe_bytes - 1);
  } else if (!side->what->is_initiator && (takes_receive(side) || is_refused(side))) {
    // Data of a WRITE goes where the initiator says.
    const int is_write = opcode_of(side) == IBV_WR_RDMA_WRITE_WITH_IMM;
    post_receive_of(side, is_write ? 0 : message_bytes(side) + header_bytes(side));
  }
  if (ends_by_disconnect(side)) {
    // For the end of the connection to flush.
    post_receive_of(side, probe_bytes);
  }
}

static uint32_t key_to_lose(const struct side* side) {
  return side->window != NULL ? side->window->rkey : side->victim != NULL ? side->victim->rkey : 0;
}

// Tells that this side is ready or has failed.
static int tell_readiness(struct side* side, struct control* control) {
  if (!tell(control, "%s %u", is_well(side) ? "ready" : "failed", key_to_lose(side))) {
    return 0;
  }
  if (kind_of(side) == kind_reject && !side->what->is_initiator) {
    reject_again(side, control);
  }
  return 1;
}

// Each side's last word before the packets: the initiator needs the key that goes. The target has
// been told of the connection by then, which siw needs: what comes to it between its answer and
// that waits for what comes next (docs/cross-validation.md).
static int exchange_keys(struct side* side, struct control* control, char line[line_bytes_max],
                         uint32_t* key) {
  unsigned theirs = 0;
  char word[16] = "";
  if (!tell_readiness(side, control) || !hear(control, line) ||
      sscanf(line, "%15s %u", word, &theirs) != 2) {
    return 0;
  }
  *key = theirs;
  if (strcmp(word, "ready") != 0) {
    say(side, "not begun");
  }
  return 1;
}

// Where the request goes, and with which key.
static void aim(const struct side* side, struct ibv_send_wr* request) {
  if (side->address != NULL) {
    request->wr.ud.ah = side->address;
    request->wr.ud.remote_qpn = side->remote_qpn;
    request->wr.ud.remote_qkey = side->remote_qkey;
  } else if (is_atomic(side)) {
    request->wr.atomic.remote_addr = side->peer.address;
    request->wr.atomic.rkey = side->peer.rkey;
    const int is_swap = opcode_of(side) == IBV_WR_ATOMIC_CMP_AND_SWP;
    request->wr.atomic.compare_add = is_swap ? atomic_before : atomic_add;
    request->wr.atomic.swap = atomic_swap;
  } else {
    request->wr.rdma.remote_addr = side->peer.address;
    request->wr.rdma.rkey = side->peer.rkey ^ (kind_of(side) == kind_wrong_key ? wrong_key : 0);
  }
}

// Posts the request and waits for its completion. Returns 0 if there is none.
static int request_once(struct side* side, uint32_t key, struct ibv_wc* wc) {
  struct endpoint* end = &side->end;
  struct ibv_sge piece = {(uintptr_t)end->memory, message_bytes(side), end->mr->lkey};
  struct ibv_send_wr request = {.wr_id = 2,
                                .sg_list = &piece,
                                .num_sge = piece.length != 0 ? 1 : 0,
                                .opcode = opcode_of(side),
                                .send_flags = IBV_SEND_SIGNALED},
                     *bad = NULL;
  aim(side, &request);
  if (opcode_of(side) == IBV_WR_SEND_WITH_INV) {
    request.invalidate_rkey = key;
    // Means nothing here, but siw's library sends this key instead (rdma-core 44).
    request.wr.rdma.rkey = key;
  } else {
    request.imm_data = htobe32(immediate);
  }
  const int failed = ibv_post_send(end->qp, &request, &bad);
  if (failed != 0 && is_iwarp(side->device) && has_immediate(side)) {
    say(side, "unsupported: the device refuses immediate data (%s)", strerror(abs(failed)));
  }
  check(side, failed, "ibv_post_send");
  if (!is_well(side)) {
    return 0;
  }
  const int limit_ms = side->what->by_cm ? cm_completion_limit_ms : case_limit_ms;
  if (wait_completion(end->cq, wc, limit_ms) != 1) {
    say(side, "no completion in %d s", limit_ms / 1000);
    return 0;
  }
  return 1;
}

static void initiate(struct side* side, uint32_t key) {
  struct ibv_wc wc;
  if (is_well(side) && request_once(side, key, &wc) && wc.status != IBV_WC_SUCCESS) {
    say(side, "the request ended with: %s", ibv_wc_status_str(wc.status));
  }
}

// A request that the target refuses: what its initiator is told.
static void initiate_in_vain(struct side* side) {
  struct ibv_wc wc;
  if (!is_well(side) || !request_once(side, 0, &wc)) {
    return;
  }
  snprintf(side->told, sizeof side->told, "%s", ibv_wc_status_str(wc.status));
  if (is_iwarp(side->device)) {
    // What was written to the stream is complete; only a READ waits for the peer.
    if (opcode_of(side) == IBV_WR_RDMA_READ && wc.status == IBV_WC_SUCCESS) {
      say(side, "the request ended with: %s", ibv_wc_status_str(wc.status));
    }
    expect_disconnected(side);
    return;
  }
  const enum ibv_wc_status wanted =
      kind_of(side) == kind_wrong_key ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR;
  if (wc.status != wanted) {
    say(side, "the request ended with: %s", ibv_wc_status_str(wc.status));
  }
}

// A completion of the target's receive. The initiator is through with its part; if it failed,
// that explains why there is none. Returns 0 if there is none.
static int wait_receive(struct side* side, int has_failed, struct ibv_wc* wc) {
  // What the end of a connection flushes is there soon after it.
  const int is_over = is_refused(side) && is_iwarp(side->device);
  const int limit_ms = has_failed ? 0 : is_over ? flush_limit_ms : case_limit_ms;
  if (wait_completion(side->end.cq, wc, limit_ms) == 1) {
    return 1;
  }
  if (has_failed) {
    say(side, "not begun");
  } else {
    say(side, "nothing was received in %d s", limit_ms / 1000);
  }
  return 0;
}

// What the target of such a request is told.
static void refuse(struct side* side, int has_failed) {
  struct ibv_wc wc;
  if (!is_well(side)) {
    return;
  }
  if (is_iwarp(side->device) && !has_failed) {
    expect_disconnected(side);
  }
  if (!wait_receive(side, has_failed, &wc)) {
    return;
  }
  snprintf(side->told, sizeof side->told, "%s", ibv_wc_status_str(wc.status));
  const enum ibv_wc_status wanted =
      kind_of(side) == kind_wrong_key ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_LEN_ERR;
  if (wc.status != wanted) {
    say(side, "the receive ended with: %s", ibv_wc_status_str(wc.status));
  }
}

static void check_receive(struct side* side, const struct ibv_wc* wc) {
  const uint32_t expected = message_bytes(side) + header_bytes(side);
  if (wc->status != IBV_WC_SUCCESS) {
    say(side, "the receive ended with: %s", ibv_wc_status_str(wc->status));
    return;
  }
  if (wc->byte_len != expected) {
    say(side, "the receive tells of %u bytes instead of %u", wc->byte_len, expected);
  }
  if (has_immediate(side) &&
      (!(wc->wc_flags & IBV_WC_WITH_IMM) || be32toh(wc->imm_data) != immediate)) {
    say(side, "the immediate is 0x%x, flags 0x%x", be32toh(wc->imm_data), wc->wc_flags);
  }
  if (opcode_of(side) != IBV_WR_SEND_WITH_INV) {
    return;
  }
  if (!(wc->wc_flags & IBV_WC_WITH_INV)) {
    say(side, "the receive doesn't tell that a key is gone (flags 0x%x)", wc->wc_flags);
  } else if (wc->invalidated_rkey != key_to_lose(side)) {
    say(side, "the receive tells of key 0x%x that is gone, instead of 0x%x", wc->invalidated_rkey,
        key_to_lose(side));
  }
}

static void receive(struct side* side, int has_failed) {
  struct ibv_wc wc = {0};
  if (is_well(side) && takes_receive(side) && wait_receive(side, has_failed, &wc)) {
    check_receive(side, &wc);
  }
}

static void check_word(struct side* side, const char* whose, uint64_t expected) {
  uint64_t word = 0;
  memcpy(&word, side->end.memory, sizeof word);
  if (word != expected) {
    say(side, "%s 0x%" PRIx64 " instead of 0x%" PRIx64, whose, word, expected);
  }
}

// From here on memory must be as it was.
static void check_untouched(struct side* side, uint32_t from) {
  const uint32_t seed = side->what->is_initiator ? seed_initiator : seed_target;
  for (uint32_t i = from; i < side->end.bytes; ++i) {
    if (side->end.memory[i] != pattern(seed, i)) {
      say(side, "memory %s was written to",
          is_refused(side) ? "that nobody may write to" : "behind the message");
      return;
    }
  }
}

// How long after its completion at the initiator a message may be on its way.
static int arrival_limit_ms(const struct side* side) {
  if (side->what->operation->type == IBV_QPT_UC) {
    return unreliable_limit_ms;
  }
  // A WRITE is complete when the stream has it.
  return is_iwarp(side->device) ? case_limit_ms : 0;
}

static void check_memory(struct side* side) {
  if (!is_well(side)) {
    return;
  }
  if (is_refused(side)) {
    // Of a message that is too long its beginning may arrive.
    const int is_partial = kind_of(side) == kind_too_long && !side->what->is_initiator;
    check_untouched(side, is_partial ? probe_bytes - 1 : 0);
    return;
  }
  if (is_atomic(side)) {
    const int is_swap = opcode_of(side) == IBV_WR_ATOMIC_CMP_AND_SWP;
    if (side->what->is_initiator) {
      check_word(side, "the value that was there came back as", atomic_before);
    } else {
      check_word(side, "memory holds", is_swap ? atomic_swap : atomic_before + atomic_add);
    }
    return;
  }
  const int is_read = opcode_of(side) == IBV_WR_RDMA_READ;
  const int is_taker = is_read == side->what->is_initiator;
  const uint32_t there = header_bytes(side) * (uint32_t)is_taker;
  const uint32_t bytes = message_bytes(side);
  const uint32_t seed = is_read ? seed_target : seed_initiator;
  if (is_taker) {
    const int64_t deadline = now_ms() + arrival_limit_ms(side);
    while (!is_filled(side->end.memory + there, bytes, seed) && now_ms() < deadline) {
      usleep(1000);
    }
    if (!is_filled(side->end.memory + there, bytes, seed)) {
      say(side, "the data is wrong");
    }
  }
  check_untouched(side, there + bytes);
}

// Makes the connection, or what else rdma_cm is asked for.
static void meet(struct side* side) {
  switch (kind_of(side)) {
    case kind_multicast:
      join_group(side);
      break;
    case kind_reject:
      reject_by_cm(side);
      break;
    case kind_nobody:
      connect_to_nobody(side);
      break;
    default:
      connect_by_cm(side);
  }
}

// The initiator's part, then the target's: what is sent needs nothing of the target's program but
// the receive that is posted. Returns 0 if the control connection is gone.
static int act(struct side* side, struct control* control, char line[line_bytes_max],
               uint32_t key) {
  if (side->what->is_initiator) {
    is_refused(side) ? initiate_in_vain(side) : initiate(side, key);
    return tell(control, is_well(side) ? "done" : "failed") && hear(control, line);
  }
  if (!hear(control, line)) {
    return 0;
  }
  const int has_failed = strcmp(line, "done") != 0;
  is_refused(side) ? refuse(side, has_failed) : receive(side, has_failed);
  return tell(control, "seen");
}

static int run_steps(struct side* side, struct control* control) {
  char line[line_bytes_max];
  uint32_t key = 0;
  open_side(side);
  if (is_well(side)) {
    prepare_memory(side);
  }
  if (!exchange_addresses(side, control, line)) {
    return 0;
  }
  if (is_well(side) && side->what->by_cm) {
    meet(side);
  }
  bind_window(side);
  prepare_receives(side);
  if (!exchange_keys(side, control, line, &key)) {
    return 0;
  }
  if (carries_data(side)) {
    if (!act(side, control, line, key)) {
      return 0;
    }
    check_memory(side);
  }
  if (ends_by_disconnect(side)) {
    disconnect_by_cm(side);
  }
  // Nobody goes before both have looked: a queue pair that is gone answers no retransmission.
  return tell(control, "over") && hear(control, line);
}

int run_wire_case(struct device* device, struct manager* manager, const struct wire_case* what,
                  struct control* control, char outcome[outcome_bytes_max]) {
  outcome[0] = '\0';
  struct side side = {.what = what,
                      .number = ++control->cases,
                      .device = device,
                      .manager = manager,
                      .outcome = outcome};
  if (what->by_cm && manager->listener != NULL) {
    drain_events(manager);
  }
  const int is_there = run_steps(&side, control);
  close_side(&side);
  say(&side, "%s", side.remark);
  if (outcome[0] == '\0') {
    snprintf(outcome, outcome_bytes_max, "ok%s%s", side.told[0] != '\0' ? ": " : "", side.told);
  }
  return is_there;
}
