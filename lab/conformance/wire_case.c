#include "lab/conformance/wire_case.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/conformance/control.h"
#include "lab/conformance/pair.h"

enum {
  seed_initiator = 11,
  seed_target = 13,
  immediate = 0x01020304,
  // Behind the message, to see that nothing is written there.
  guard_bytes = 64,
  limit_ms = 10000,
  // A WRITE over UC has no completion at its target: it is there soon, or lost.
  unreliable_limit_ms = 2000,
  atomic_add = 5,
};
static const uint64_t atomic_before = 0xfffffffffffffffe;
static const uint64_t atomic_swap = 0x0123456789abcdef;

const struct wire_operation wire_operations[] = {
    {"RC SEND", IBV_QPT_RC, IBV_WR_SEND},
    {"RC SEND_IMM", IBV_QPT_RC, IBV_WR_SEND_WITH_IMM},
    {"RC SEND_INV", IBV_QPT_RC, IBV_WR_SEND_WITH_INV},
    {"RC WRITE", IBV_QPT_RC, IBV_WR_RDMA_WRITE},
    {"RC WRITE_IMM", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM},
    {"RC READ", IBV_QPT_RC, IBV_WR_RDMA_READ},
    {"RC CAS", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP},
    {"RC FAA", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {"UC SEND", IBV_QPT_UC, IBV_WR_SEND},
    {"UC SEND_IMM", IBV_QPT_UC, IBV_WR_SEND_WITH_IMM},
    {"UC WRITE", IBV_QPT_UC, IBV_WR_RDMA_WRITE},
    {"UC WRITE_IMM", IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM},
    {"UD SEND", IBV_QPT_UD, IBV_WR_SEND},
    {"UD SEND_IMM", IBV_QPT_UD, IBV_WR_SEND_WITH_IMM},
};
const int wire_operation_count = sizeof wire_operations / sizeof *wire_operations;

// One side's run of a case.
struct side {
  const struct wire_case* what;
  struct endpoint end;
  struct peer peer;
  struct ibv_mw* window;
  struct ibv_ah* address;
  char* outcome;
};

// The first thing that goes wrong is the outcome; what follows from it isn't told.
static void say(struct side* side, const char* format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct side* side, const char* format, ...) {
  if (side->outcome[0] != '\0') {
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(side->outcome, outcome_bytes_max, format, arguments);
  va_end(arguments);
}

static void check(struct side* side, int error, const char* call) {
  if (error != 0) {
    say(side, "%s failed: %s", call, strerror(abs(error)));
  }
}

static int is_well(const struct side* side) { return side->outcome[0] == '\0'; }

static enum ibv_wr_opcode opcode_of(const struct side* side) {
  return side->what->operation->opcode;
}

static int is_atomic(const struct side* side) {
  return opcode_of(side) == IBV_WR_ATOMIC_CMP_AND_SWP ||
         opcode_of(side) == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int takes_receive(const struct side* side) {
  switch (opcode_of(side)) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return 1;
    default:
      return 0;
  }
}

static uint32_t header_bytes(const struct side* side) {
  return side->what->operation->type == IBV_QPT_UD ? grh_bytes : 0;
}

static void prepare_memory(struct side* side) {
  uint8_t* memory = side->end.memory;
  fill(memory, side->end.bytes, side->what->is_initiator ? seed_initiator : seed_target);
  if (is_atomic(side) && !side->what->is_initiator) {
    memcpy(memory, &atomic_before, sizeof atomic_before);
  }
}

static void open_side(struct side* side, struct device* device) {
  const uint32_t bytes = side->what->bytes + header_bytes(side) + guard_bytes;
  if (device->context->device->transport_type == IBV_TRANSPORT_IWARP) {
    say(side, "unsupported: iWARP connects only through rdma_cm");
    return;
  }
  if (is_atomic(side) && device->attr.atomic_cap == IBV_ATOMIC_NONE) {
    say(side, "unsupported: the device has no atomics");
    return;
  }
  const int failed = open_endpoint(&side->end, device, side->what->operation->type, bytes);
  if (failed == EOPNOTSUPP || failed == EPROTONOSUPPORT) {
    say(side, "unsupported: no queue pairs of this type");
  }
  check(side, failed, "making a queue pair");
  if (is_well(side)) {
    prepare_memory(side);
  }
}

// SEND_INV takes away a key: that of a window of type 2, bound here, since no region of user space
// may go by this on InfiniBand.
static void bind_window(struct side* side) {
  struct endpoint* end = &side->end;
  if (!is_well(side) || opcode_of(side) != IBV_WR_SEND_WITH_INV || side->what->is_initiator) {
    return;
  }
  if (!(end->device->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B)) {
    say(side, "unsupported: the device has no memory windows of type 2");
    return;
  }
  errno = 0;
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
      (wait_completion(end->cq, &wc, limit_ms) != 1 || wc.status != IBV_WC_SUCCESS)) {
    say(side, "binding a window didn't complete well");
  }
  side->window->rkey = request.bind_mw.rkey;
}

static int exchange_addresses(struct side* side, struct control* control,
                              char line[line_bytes_max]) {
  struct peer mine = {0};
  if (is_well(side)) {
    mine = self(&side->end, (uint32_t)now_ms() & 0xffffff);
  }
  char gid[33];
  for (int i = 0; i < 16; ++i) {
    snprintf(gid + 2 * (size_t)i, 3, "%02x", mine.gid.raw[i]);
  }
  if (!tell(control, "at %u %u %s %" PRIu64 " %u", mine.qpn, mine.psn, gid, mine.address,
            mine.rkey) ||
      !hear(control, line) ||
      sscanf(line, "at %u %u %32s %" SCNu64 " %u", &side->peer.qpn, &side->peer.psn, gid,
             &side->peer.address, &side->peer.rkey) != 5) {
    return 0;
  }
  for (int i = 0; i < 16; ++i) {
    unsigned byte = 0;
    if (sscanf(gid + 2 * (size_t)i, "%2x", &byte) != 1) {
      return 0;
    }
    side->peer.gid.raw[i] = (uint8_t)byte;
  }
  // Who has no queue pair says 0, which is no ordinary one's number.
  if (side->peer.qpn == 0) {
    say(side, "not begun");
  }
  if (!is_well(side)) {
    return 1;
  }
  check(side, to_init(&side->end), "the change to INIT");
  if (is_well(side)) {
    check(side, to_rtr(&side->end, &side->peer, side->what->mtu), "the change to RTR");
  }
  if (is_well(side)) {
    check(side, to_rts(&side->end, mine.psn, retries), "the change to RTS");
  }
  if (is_well(side) && side->what->operation->type == IBV_QPT_UD) {
    errno = 0;
    side->address = address_of(&side->end, &side->peer);
    if (side->address == NULL) {
      check(side, errno, "ibv_create_ah");
    }
  }
  return 1;
}

static void prepare_target(struct side* side) {
  if (!is_well(side) || side->what->is_initiator || !takes_receive(side)) {
    return;
  }
  // Data of a WRITE goes where the initiator says.
  const int is_write = opcode_of(side) == IBV_WR_RDMA_WRITE_WITH_IMM;
  struct ibv_sge piece = {.addr = (uintptr_t)side->end.memory,
                          .length = side->what->bytes + header_bytes(side),
                          .lkey = side->end.mr->lkey};
  struct ibv_recv_wr request = {
      .wr_id = 1, .sg_list = &piece, .num_sge = is_write || piece.length == 0 ? 0 : 1};
  struct ibv_recv_wr* bad = NULL;
  check(side, ibv_post_recv(side->end.qp, &request, &bad), "ibv_post_recv");
}

// Each side's last word before the packets: the initiator needs the key of the target's window.
static int exchange_keys(struct side* side, struct control* control, char line[line_bytes_max],
                         uint32_t* key) {
  const uint32_t mine = side->window != NULL ? side->window->rkey : 0;
  unsigned theirs = 0;
  char word[16] = "";
  if (!tell(control, "%s %u", is_well(side) ? "ready" : "failed", mine) || !hear(control, line) ||
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
    request->wr.ud.remote_qpn = side->peer.qpn;
    request->wr.ud.remote_qkey = qkey;
  } else if (is_atomic(side)) {
    request->wr.atomic.remote_addr = side->peer.address;
    request->wr.atomic.rkey = side->peer.rkey;
    const int is_swap = opcode_of(side) == IBV_WR_ATOMIC_CMP_AND_SWP;
    request->wr.atomic.compare_add = is_swap ? atomic_before : atomic_add;
    request->wr.atomic.swap = atomic_swap;
  } else {
    request->wr.rdma.remote_addr = side->peer.address;
    request->wr.rdma.rkey = side->peer.rkey;
  }
}

static void initiate(struct side* side, uint32_t key) {
  if (!is_well(side)) {
    return;
  }
  struct endpoint* end = &side->end;
  struct ibv_sge piece = {(uintptr_t)end->memory, side->what->bytes, end->mr->lkey};
  struct ibv_send_wr request = {.wr_id = 2,
                                .sg_list = &piece,
                                .num_sge = piece.length != 0 ? 1 : 0,
                                .opcode = opcode_of(side),
                                .send_flags = IBV_SEND_SIGNALED},
                     *bad = NULL;
  if (opcode_of(side) == IBV_WR_SEND_WITH_INV) {
    request.invalidate_rkey = key;
  } else {
    request.imm_data = htobe32(immediate);
  }
  aim(side, &request);
  check(side, ibv_post_send(end->qp, &request, &bad), "ibv_post_send");
  struct ibv_wc wc;
  if (!is_well(side)) {
    return;
  }
  if (wait_completion(end->cq, &wc, limit_ms) != 1) {
    say(side, "no completion in %d s", limit_ms / 1000);
  } else if (wc.status != IBV_WC_SUCCESS) {
    say(side, "the request ended with: %s", ibv_wc_status_str(wc.status));
  }
}

static void check_receive(struct side* side, const struct ibv_wc* wc) {
  const uint32_t expected = side->what->bytes + header_bytes(side);
  if (wc->status != IBV_WC_SUCCESS) {
    say(side, "the receive ended with: %s", ibv_wc_status_str(wc->status));
    return;
  }
  if (wc->byte_len != expected) {
    say(side, "the receive tells of %u bytes instead of %u", wc->byte_len, expected);
  }
  const int has_immediate =
      opcode_of(side) == IBV_WR_SEND_WITH_IMM || opcode_of(side) == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (has_immediate && (!(wc->wc_flags & IBV_WC_WITH_IMM) || be32toh(wc->imm_data) != immediate)) {
    say(side, "the immediate is 0x%x, flags 0x%x", be32toh(wc->imm_data), wc->wc_flags);
  }
  if (opcode_of(side) != IBV_WR_SEND_WITH_INV) {
    return;
  }
  if (!(wc->wc_flags & IBV_WC_WITH_INV)) {
    say(side, "the receive doesn't tell that a key is gone (flags 0x%x)", wc->wc_flags);
  } else if (wc->invalidated_rkey != side->window->rkey) {
    say(side, "the receive tells of key 0x%x that is gone, instead of 0x%x", wc->invalidated_rkey,
        side->window->rkey);
  }
}

static void receive(struct side* side) {
  if (!is_well(side) || !takes_receive(side)) {
    return;
  }
  struct ibv_wc wc = {0};
  if (wait_completion(side->end.cq, &wc, limit_ms) != 1) {
    say(side, "nothing was received in %d s", limit_ms / 1000);
  } else {
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

static void check_memory(struct side* side) {
  if (!is_well(side)) {
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
  const uint32_t bytes = side->what->bytes;
  const uint32_t seed = is_read ? seed_target : seed_initiator;
  if (is_taker) {
    const int64_t deadline =
        now_ms() + (side->what->operation->type == IBV_QPT_UC ? unreliable_limit_ms : 0);
    while (!is_filled(side->end.memory + there, bytes, seed) && now_ms() < deadline) {
      usleep(1000);
    }
    if (!is_filled(side->end.memory + there, bytes, seed)) {
      say(side, "the data is wrong");
    }
  }
  const uint32_t own_seed = side->what->is_initiator ? seed_initiator : seed_target;
  for (uint32_t i = there + bytes; i < side->end.bytes; ++i) {
    if (side->end.memory[i] != pattern(own_seed, i)) {
      say(side, "memory behind the message was written to");
      return;
    }
  }
}

static void close_side(struct side* side) {
  if (side->address != NULL) {
    ibv_destroy_ah(side->address);
  }
  if (side->window != NULL) {
    ibv_dealloc_mw(side->window);
  }
  close_endpoint(&side->end);
}

static int run_steps(struct side* side, struct device* device, struct control* control) {
  char line[line_bytes_max];
  uint32_t key = 0;
  open_side(side, device);
  if (!exchange_addresses(side, control, line)) {
    return 0;
  }
  bind_window(side);
  prepare_target(side);
  if (!exchange_keys(side, control, line, &key)) {
    return 0;
  }
  if (side->what->is_initiator) {
    initiate(side, key);
    if (!tell(control, "done") || !hear(control, line)) {
      return 0;
    }
  } else {
    receive(side);
    // What takes no receive is there when the initiator says so.
    if (!hear(control, line) || !tell(control, "seen")) {
      return 0;
    }
  }
  check_memory(side);
  // Nobody goes before both have looked: a queue pair that is gone answers no retransmission.
  return tell(control, "over") && hear(control, line);
}

int run_wire_case(struct device* device, const struct wire_case* what, struct control* control,
                  char outcome[outcome_bytes_max]) {
  outcome[0] = '\0';
  struct side side = {.what = what, .outcome = outcome};
  const int is_there = run_steps(&side, device, control);
  close_side(&side);
  if (outcome[0] == '\0') {
    snprintf(outcome, outcome_bytes_max, "ok");
  }
  return is_there;
}
