#include "lab/conformance/side.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void say(struct side* side, const char* format, ...) {
  if (side->outcome[0] != '\0') {
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(side->outcome, outcome_bytes_max, format, arguments);
  va_end(arguments);
}

void check(struct side* side, int error, const char* call) {
  if (error != 0) {
    say(side, "%s failed: %s", call, strerror(abs(error)));
  }
}

int is_well(const struct side* side) { return side->outcome[0] == '\0'; }

enum ibv_wr_opcode opcode_of(const struct side* side) { return side->what->operation->opcode; }

enum wire_kind kind_of(const struct side* side) { return side->what->operation->kind; }

int is_atomic(const struct side* side) {
  return opcode_of(side) == IBV_WR_ATOMIC_CMP_AND_SWP ||
         opcode_of(side) == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

int takes_receive(const struct side* side) {
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

uint32_t message_bytes(const struct side* side) {
  return kind_of(side) >= kind_wrong_key ? probe_bytes : side->what->bytes;
}

uint32_t header_bytes(const struct side* side) {
  return side->what->operation->type == IBV_QPT_UD ? grh_bytes : 0;
}

int needs_cm(const struct wire_operation* operation) {
  return operation->kind == kind_multicast || operation->kind >= kind_connect;
}

static void check_abilities(struct side* side) {
  const struct device* device = side->device;
  if (is_iwarp(device) && side->what->operation->type != IBV_QPT_RC) {
    say(side, "unsupported: iWARP has reliable connections only");
  }
  if (is_iwarp(device) && !side->what->by_cm) {
    say(side, "unsupported: iWARP connects only through rdma_cm");
  }
  if (is_atomic(side) && device->attr.atomic_cap == IBV_ATOMIC_NONE) {
    say(side, "unsupported: the device has no atomics");
  }
  if (side->what->by_cm && side->manager->listener == NULL) {
    say(side, "rdma_cm can't listen on this device's address");
  }
}

void open_side(struct side* side) {
  check_abilities(side);
  if (!is_well(side)) {
    return;
  }
  const uint32_t bytes = message_bytes(side) + header_bytes(side) + guard_bytes;
  const int failed =
      side->what->by_cm
          ? open_endpoint_without_qp(&side->end, &side->manager->device, bytes)
          : open_endpoint(&side->end, side->device, side->what->operation->type, bytes);
  if (failed == EOPNOTSUPP || failed == EPROTONOSUPPORT) {
    say(side, "unsupported: no queue pairs of this type");
  }
  check(side, failed, "making a queue pair");
}

void close_side(struct side* side) {
  if (side->address != NULL) {
    ibv_destroy_ah(side->address);
  }
  if (side->window != NULL) {
    ibv_dealloc_mw(side->window);
  }
  if (side->id != NULL && side->id->qp != NULL) {
    rdma_disconnect(side->id);
    rdma_destroy_qp(side->id);
    side->end.qp = NULL;
  }
  if (side->victim != NULL) {
    ibv_dereg_mr(side->victim);
  }
  close_endpoint(&side->end);
  if (side->id != NULL) {
    rdma_destroy_id(side->id);
  }
}

static struct peer own_place(const struct side* side) {
  struct peer mine = {0};
  if (!is_well(side)) {
    return mine;
  }
  mine = (struct peer){.psn = (uint32_t)now_ms() & 0xffffff,
                       .gid = side->device->gid,
                       .address = (uintptr_t)side->end.memory,
                       .rkey = side->end.mr->rkey};
  // rdma_cm makes the queue pair and tells of it; 1 is no number of an ordinary one.
  mine.qpn = side->end.qp != NULL ? side->end.qp->qp_num : 1;
  return mine;
}

static void change_states(struct side* side, uint32_t psn) {
  check(side, to_init(&side->end), "the change to INIT");
  if (is_well(side)) {
    check(side, to_rtr(&side->end, &side->peer, side->what->mtu), "the change to RTR");
  }
  if (is_well(side)) {
    check(side, to_rts(&side->end, psn, retries), "the change to RTS");
  }
  if (is_well(side) && side->what->operation->type == IBV_QPT_UD) {
    errno = 0;
    side->address = address_of(&side->end, &side->peer);
    side->remote_qpn = side->peer.qpn;
    side->remote_qkey = qkey;
    if (side->address == NULL) {
      check(side, errno, "ibv_create_ah");
    }
  }
}

int exchange_addresses(struct side* side, struct control* control, char line[line_bytes_max]) {
  const struct peer mine = own_place(side);
  char gid[gid_text_bytes];
  write_gid(gid, &mine.gid);
  if (!tell(control, "at %u %u %s %" PRIu64 " %u", mine.qpn, mine.psn, gid, mine.address,
            mine.rkey) ||
      !hear(control, line) ||
      sscanf(line, "at %u %u %32s %" SCNu64 " %u", &side->peer.qpn, &side->peer.psn, gid,
             &side->peer.address, &side->peer.rkey) != 5 ||
      !read_gid(gid, &side->peer.gid)) {
    return 0;
  }
  // Who has no queue pair says 0, which is no ordinary one's number.
  if (side->peer.qpn == 0) {
    say(side, "not begun");
  }
  if (is_well(side) && !side->what->by_cm) {
    change_states(side, mine.psn);
  }
  return 1;
}
