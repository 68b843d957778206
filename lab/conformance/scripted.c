#include "lab/conformance/scripted.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab/conformance/control.h"
#include "lab/conformance/endpoint.h"
#include "lab/conformance/server.h"

// Of the control protocol: both sides must speak the same.
static const char greeting[] = "verbena-scripted 1";

enum {
  regions_max = 16,
  pieces_max = 8,
  // Of each queue.
  requests_max = 1 << 16,
  // How often completions are looked for.
  look_ms = 1,
  // A line of `finish` tells of so many bytes at most.
  chunk_bytes = 64,
  arena_bytes_max = 16 << 20,
  page_bytes = 4096,
};

// Where a script has its memory: the simulator's arena_va (sim/node.h), so that addresses in
// packets are the script's. No program is linked there, and Linux gives it to everybody
// (vm.mmap_min_addr is 64 KiB).
static uint8_t* const arena_address = (uint8_t*)0x100000;

struct region {
  struct ibv_mr* mr;
  uint32_t offset;
  uint32_t bytes;
  // 0 to 255, or less than 0 for counting bytes.
  int fill;
};

struct script {
  struct device* device;
  struct control* control;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_ah* to_peer;
  size_t arena_bytes;
  struct region regions[regions_max];
  int region_count;
};

static int fail(struct script* script, const char* what, int error) {
  return tell(script->control, "failed %s %d", what, error < 0 ? -error : error);
}

static int confirm(struct script* script, const char* what, int error) {
  return error == 0 ? tell(script->control, "ok") : fail(script, what, error);
}

static uint8_t filled(const struct region* region, uint32_t position) {
  return region->fill < 0 ? (uint8_t)position : (uint8_t)region->fill;
}

// --- What a script has

static void end_script(struct script* script) {
  if (script->to_peer != NULL) {
    ibv_destroy_ah(script->to_peer);
  }
  if (script->qp != NULL) {
    ibv_destroy_qp(script->qp);
  }
  if (script->cq != NULL) {
    ibv_destroy_cq(script->cq);
  }
  for (int i = 0; i < script->region_count; ++i) {
    ibv_dereg_mr(script->regions[i].mr);
  }
  if (script->pd != NULL) {
    ibv_dealloc_pd(script->pd);
  }
  if (script->arena_bytes != 0) {
    munmap(arena_address, script->arena_bytes);
  }
  *script = (struct script){.device = script->device, .control = script->control};
}

static int make_memory(struct script* script, const char* line) {
  size_t bytes = 0;
  if (sscanf(line, "memory %zu", &bytes) != 1 || bytes == 0 || bytes > arena_bytes_max ||
      script->arena_bytes != 0) {
    return 0;
  }
  bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  void* memory = mmap(arena_address, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != arena_address) {
    return fail(script, "memory", errno);
  }
  script->arena_bytes = bytes;
  script->pd = ibv_alloc_pd(script->device->context);
  return confirm(script, "pd", script->pd != NULL ? 0 : errno);
}

static int add_region(struct script* script, const char* line) {
  struct region region = {0};
  unsigned access = 0;
  if (sscanf(line, "region %u %u %x %d", &region.offset, &region.bytes, &access, &region.fill) !=
          4 ||
      script->pd == NULL || script->region_count == regions_max ||
      region.offset > script->arena_bytes || region.bytes > script->arena_bytes - region.offset) {
    return 0;
  }
  uint8_t* const begin = arena_address + region.offset;
  for (uint32_t i = 0; i < region.bytes; ++i) {
    begin[i] = filled(&region, i);
  }
  region.mr = ibv_reg_mr(script->pd, begin, region.bytes, access);
  if (region.mr == NULL) {
    return fail(script, "region", errno);
  }
  script->regions[script->region_count++] = region;
  return tell(script->control, "region %x %x", region.mr->lkey, region.mr->rkey);
}

static int make_qp(struct script* script, const char* line) {
  int type = 0;
  struct ibv_qp_init_attr init = {.cap = {.max_send_sge = pieces_max, .max_recv_sge = pieces_max}};
  if (sscanf(line, "qp %d %u %u", &type, &init.cap.max_send_wr, &init.cap.max_recv_wr) != 3 ||
      script->pd == NULL || script->cq != NULL || init.cap.max_send_wr > requests_max ||
      init.cap.max_recv_wr > requests_max) {
    return 0;
  }
  const int entries = (int)(init.cap.max_send_wr + init.cap.max_recv_wr);
  script->cq = ibv_create_cq(script->device->context, entries, NULL, NULL, 0);
  if (script->cq == NULL) {
    return fail(script, "cq", errno);
  }
  init.send_cq = init.recv_cq = script->cq;
  init.qp_type = (enum ibv_qp_type)type;
  script->qp = ibv_create_qp(script->pd, &init);
  if (script->qp == NULL) {
    return fail(script, "qp", errno);
  }
  return tell(script->control, "qp %x", script->qp->qp_num);
}

// --- Its connection

static int bring_up(struct script* script, struct ibv_qp_attr* attr) {
  const enum ibv_qp_type type = script->qp->qp_type;
  int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  int to_rtr = IBV_QP_STATE;
  int to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
  to_init |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  if (type != IBV_QPT_UD) {
    to_rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (type == IBV_QPT_RC) {
    to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  attr->qp_state = IBV_QPS_INIT;
  int failed = ibv_modify_qp(script->qp, attr, to_init);
  if (failed == 0) {
    attr->qp_state = IBV_QPS_RTR;
    failed = ibv_modify_qp(script->qp, attr, to_rtr);
  }
  if (failed == 0) {
    attr->qp_state = IBV_QPS_RTS;
    failed = ibv_modify_qp(script->qp, attr, to_rts);
  }
  return failed;
}

static int connect_qp(struct script* script, const char* line) {
  struct ibv_qp_attr attr = {.port_num = port_number};
  char gid[gid_text_bytes] = "";
  unsigned mtu = 0, reads = 0, rnr_timer = 0, timeout = 0, retry_cnt = 0, rnr_retry = 0;
  unsigned access = 0;
  if (script->qp == NULL || script->to_peer != NULL ||
      sscanf(line, "connect %x %32s %u %u %u %x %u %u %u %u %u %x", &attr.dest_qp_num, gid, &mtu,
             &attr.rq_psn, &attr.sq_psn, &access, &reads, &rnr_timer, &timeout, &retry_cnt,
             &rnr_retry, &attr.qkey) != 12) {
    return 0;
  }
  attr.path_mtu = (enum ibv_mtu)mtu;
  attr.qp_access_flags = access;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = (uint8_t)reads;
  attr.min_rnr_timer = (uint8_t)rnr_timer;
  attr.timeout = (uint8_t)timeout;
  attr.retry_cnt = (uint8_t)retry_cnt;
  attr.rnr_retry = (uint8_t)rnr_retry;
  attr.ah_attr = (struct ibv_ah_attr){
      .is_global = 1,
      .port_num = port_number,
      .grh = {.sgid_index = (uint8_t)script->device->gid_index, .hop_limit = 64}};
  if (!read_gid(gid, &attr.ah_attr.grh.dgid)) {
    return 0;
  }
  const int failed = bring_up(script, &attr);
  if (failed == 0 && script->qp->qp_type == IBV_QPT_UD) {
    script->to_peer = ibv_create_ah(script->pd, &attr.ah_attr);
    return confirm(script, "ah", script->to_peer != NULL ? 0 : errno);
  }
  return confirm(script, "connect", failed);
}

// --- What it is given to do

// "COUNT [ADDRESS LENGTH LKEY]...". Returns the count, or less than 0.
static int parse_pieces(const char* text, struct ibv_sge pieces[pieces_max]) {
  int count = 0, used = 0;
  if (sscanf(text, "%d%n", &count, &used) != 1 || count < 0 || count > pieces_max) {
    return -1;
  }
  for (int i = 0; i < count; ++i) {
    text += used;
    if (sscanf(text, "%" SCNx64 " %u %x%n", &pieces[i].addr, &pieces[i].length, &pieces[i].lkey,
               &used) != 3) {
      return -1;
    }
  }
  return count;
}

static int post_receive(struct script* script, const char* line) {
  struct ibv_sge pieces[pieces_max];
  struct ibv_recv_wr request = {.sg_list = pieces}, *bad = NULL;
  int used = 0;
  if (script->qp == NULL || sscanf(line, "recv %" SCNu64 " %n", &request.wr_id, &used) != 1) {
    return 0;
  }
  request.num_sge = parse_pieces(line + used, pieces);
  return request.num_sge >= 0 && confirm(script, "recv", ibv_post_recv(script->qp, &request, &bad));
}

static int post_send(struct script* script, const char* line) {
  struct ibv_sge pieces[pieces_max];
  struct ibv_send_wr request = {.sg_list = pieces}, *bad = NULL;
  int opcode = 0, used = 0;
  unsigned imm = 0, rkey = 0, qpn = 0, key = 0;
  uint64_t address = 0, compare = 0, swap = 0;
  if (script->qp == NULL ||
      sscanf(line, "send %" SCNu64 " %d %x %x %" SCNx64 " %x %" SCNx64 " %" SCNx64 " %x %x %n",
             &request.wr_id, &opcode, &request.send_flags, &imm, &address, &rkey, &compare, &swap,
             &qpn, &key, &used) != 10) {
    return 0;
  }
  request.opcode = (enum ibv_wr_opcode)opcode;
  request.imm_data = htobe32(imm);
  request.num_sge = parse_pieces(line + used, pieces);
  if (request.num_sge < 0) {
    return 0;
  }
  if (script->qp->qp_type == IBV_QPT_UD) {
    request.wr.ud.ah = script->to_peer;
    request.wr.ud.remote_qpn = qpn;
    request.wr.ud.remote_qkey = key;
  } else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.rkey = rkey;
    request.wr.atomic.compare_add = compare;
    request.wr.atomic.swap = swap;
  } else {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = rkey;
  }
  return confirm(script, "send", ibv_post_send(script->qp, &request, &bad));
}

// --- What comes of it

static int tell_completions(struct script* script) {
  struct ibv_wc wc;
  while (script->cq != NULL && ibv_poll_cq(script->cq, 1, &wc) == 1) {
    if (!tell(script->control, "wc %" PRIu64 " %d %d %u %x %x", wc.wr_id, wc.status, wc.opcode,
              wc.byte_len, wc.wc_flags, be32toh(wc.imm_data))) {
      return 0;
    }
  }
  return 1;
}

static int tell_events(struct script* script) {
  struct pollfd ready = {.fd = script->device->context->async_fd, .events = POLLIN};
  while (poll(&ready, 1, 0) == 1) {
    struct ibv_async_event event;
    if (ibv_get_async_event(script->device->context, &event) != 0) {
      break;
    }
    const int type = event.event_type;
    ibv_ack_async_event(&event);
    if (!tell(script->control, "event %d", type)) {
      return 0;
    }
  }
  return 1;
}

// What of a region isn't what it was at the beginning.
static int tell_changes(struct script* script, int index) {
  const struct region* region = &script->regions[index];
  const uint8_t* const bytes = arena_address + region->offset;
  for (uint32_t at = 0; at < region->bytes; at += chunk_bytes) {
    const uint32_t count =
        region->bytes - at < chunk_bytes ? region->bytes - at : (uint32_t)chunk_bytes;
    char hex[2 * chunk_bytes + 1] = "";
    int changed = 0;
    for (uint32_t i = 0; i < count; ++i) {
      changed |= bytes[at + i] != filled(region, at + i);
      snprintf(hex + (size_t)2 * i, 3, "%02x", bytes[at + i]);
    }
    if (changed && !tell(script->control, "bytes %d %u %s", index, at, hex)) {
      return 0;
    }
  }
  return 1;
}

// The state of a script whose queue pair couldn't be made is RESET.
static int finish(struct script* script) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  struct ibv_qp_init_attr init;
  if (!tell_completions(script) || !tell_events(script)) {
    return 0;
  }
  if (script->qp != NULL && ibv_query_qp(script->qp, &attr, IBV_QP_STATE, &init) != 0) {
    fatal("ibv_query_qp");
  }
  if (!tell(script->control, "state %d", attr.qp_state)) {
    return 0;
  }
  for (int i = 0; i < script->region_count; ++i) {
    if (!tell_changes(script, i)) {
      return 0;
    }
  }
  end_script(script);
  return tell(script->control, "finished");
}

// --- The conversation

static int obey(struct script* script, const char* line) {
  static const struct {
    const char* word;
    int (*act)(struct script*, const char*);
  } commands[] = {{"memory ", make_memory}, {"region ", add_region}, {"qp ", make_qp},
                  {"connect ", connect_qp}, {"recv ", post_receive}, {"send ", post_send}};
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; ++i) {
    if (strncmp(line, commands[i].word, strlen(commands[i].word)) == 0) {
      return commands[i].act(script, line);
    }
  }
  return strcmp(line, "finish") == 0 && finish(script);
}

// Serves until the connection is gone. Returns 0 if who connected says nothing that makes sense.
static int serve(struct device* device, struct control* control,
                 const struct wire_options* options) {
  (void)options;
  struct script script = {.device = device, .control = control};
  // Each line is read as a whole, and nothing is read ahead that poll() then wouldn't tell of.
  setvbuf(control->in, NULL, _IONBF, 0);
  int commands = 0;
  int goes_on = tell(control, "%s", greeting);
  while (goes_on) {
    struct pollfd ready = {.fd = fileno(control->in), .events = POLLIN};
    char line[line_bytes_max];
    if (poll(&ready, 1, look_ms) == 1) {
      goes_on = hear(control, line) && obey(&script, line);
      commands += goes_on;
    }
    goes_on = goes_on && tell_completions(&script) && tell_events(&script);
  }
  end_script(&script);
  return commands > 0;
}

int run_scripted(const struct wire_options* options) { return serve_all(options, serve); }
