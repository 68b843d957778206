/* One end of a reliable connection that writes to the other end all the time, for tests of what
 * happens when an end dies, stops, is disturbed or sleeps. A verbs program like any other: it knows
 * nothing of Verbena.
 *
 *   rc_peer listen|connect PORT [count=N] [bytes=N] [timeout=N] [retry=N] [events=1] [passive=1]
 *           [alarm_us=N] [forks=N] [close_fds=1] [exec=PROGRAM]
 *
 * Both ends write `bytes` into the other's memory, `count` times (0: without end), with a few
 * writes in flight. `timeout` and `retry` are those of ibv_qp_attr. With `events` it sleeps for
 * completions instead of polling. A `passive` end writes nothing and sleeps till the other is done.
 * SIGUSR1 says that it is enough: what was begun is finished.
 *
 * Exit status: 0, both are done and the memory holds what the peer wrote; 3, the peer went away
 * before the connection was made; 4, wrong data; 10 + n, a completion had status n of
 * ibv_wc_status.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/blackbox/programs/connect_rc.h"

enum { in_flight_max = 8, exit_peer_gone = 3, exit_wrong_data = 4, exit_status_base = 10 };

struct options {
  int listens, port, events, passive, close_fds;
  long count, alarm_us, forks;
  uint32_t bytes;
  uint8_t timeout, retry;
  const char* exec;
};

/* What an end tells the other; both are on one machine. */
struct end_point {
  uint32_t qpn, rkey;
  uint64_t address;
  union ibv_gid gid;
};

struct connection {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_comp_channel* channel;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory; /* what we write, and behind it what the peer writes */
  struct end_point ours, theirs;
};

static void fail(const char* what) {
  fprintf(stderr, "rc_peer: %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct options parse(int argc, char** argv) {
  struct options o = {.count = 1, .bytes = 65536, .timeout = 14, .retry = 7};
  if (argc < 3) {
    errno = EINVAL;
    fail("arguments");
  }
  o.listens = strcmp(argv[1], "listen") == 0;
  o.port = atoi(argv[2]);
  for (int i = 3; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    if (!value) {
      errno = EINVAL;
      fail(argv[i]);
    }
    *value++ = '\0';
    const long number = strtol(value, NULL, 10);
    if (!strcmp(argv[i], "count"))
      o.count = number;
    else if (!strcmp(argv[i], "bytes"))
      o.bytes = (uint32_t)number;
    else if (!strcmp(argv[i], "timeout"))
      o.timeout = (uint8_t)number;
    else if (!strcmp(argv[i], "retry"))
      o.retry = (uint8_t)number;
    else if (!strcmp(argv[i], "events"))
      o.events = (int)number;
    else if (!strcmp(argv[i], "passive"))
      o.passive = (int)number;
    else if (!strcmp(argv[i], "alarm_us"))
      o.alarm_us = number;
    else if (!strcmp(argv[i], "forks"))
      o.forks = number;
    else if (!strcmp(argv[i], "close_fds"))
      o.close_fds = (int)number;
    else if (!strcmp(argv[i], "exec"))
      o.exec = value;
    else {
      errno = EINVAL;
      fail(argv[i]);
    }
  }
  return o;
}

static int open_socket(const struct options* o) {
  const struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)o->port),
                                      .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (!o->listens) {
    if (connect(fd, (const struct sockaddr*)&address, sizeof(address)) < 0) exit(exit_peer_gone);
    return fd;
  }
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(fd, (const struct sockaddr*)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
    fail("listen");
  const int peer = accept(fd, NULL, NULL);
  if (peer < 0) fail("accept");
  close(fd);
  return peer;
}

static void exchange(int fd, const void* ours, void* theirs, size_t bytes) {
  size_t done = 0;
  if (send(fd, ours, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) exit(exit_peer_gone);
  while (done < bytes) {
    const ssize_t got = recv(fd, (char*)theirs + done, bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) exit(exit_peer_gone);
    done += (size_t)got;
  }
}

/* Each byte depends on who wrote it and where it is. */
static uint8_t pattern(uint32_t qpn, size_t at) {
  return (uint8_t)((qpn + at) * 2654435761u >> 13);
}

static void open_connection(struct connection* c, const struct options* o) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  if (!devices || !devices[0]) fail("no device");
  c->context = ibv_open_device(devices[0]);
  if (!c->context) fail("ibv_open_device");
  ibv_free_device_list(devices);
  c->pd = ibv_alloc_pd(c->context);
  c->channel = o->events ? ibv_create_comp_channel(c->context) : NULL;
  c->cq = ibv_create_cq(c->context, 2 * in_flight_max, NULL, c->channel, 0);
  c->memory = aligned_alloc(4096, 2 * (size_t)o->bytes);
  memset(c->memory, 0, 2 * (size_t)o->bytes);
  c->mr = ibv_reg_mr(c->pd, c->memory, 2 * (size_t)o->bytes,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp_init_attr init = {.send_cq = c->cq,
                                  .recv_cq = c->cq,
                                  .cap = {in_flight_max, 1, 1, 1, 0},
                                  .qp_type = IBV_QPT_RC};
  c->qp = ibv_create_qp(c->pd, &init);
  if (!c->mr || !c->qp || ibv_query_gid(c->context, 1, 0, &c->ours.gid)) fail("setup");
  c->ours.qpn = c->qp->qp_num;
  c->ours.rkey = c->mr->rkey;
  c->ours.address = (uintptr_t)c->memory + o->bytes;
  for (size_t i = 0; i < o->bytes; ++i) c->memory[i] = pattern(c->ours.qpn, i);
}

static void connect_queue_pair(struct connection* c, const struct options* o) {
  const struct rc_way way = {.ah = rc_way_to(c->theirs.gid, 0),
                             .peer = c->theirs.qpn,
                             .mtu = IBV_MTU_1024,
                             .access = IBV_ACCESS_REMOTE_WRITE,
                             .timeout = (uint8_t)o->timeout,
                             .retry = (uint8_t)o->retry,
                             .rnr_retry = 7};
  if (connect_rc(c->qp, &way)) fail("connecting");
}

static void post_write(struct connection* c, uint32_t bytes) {
  struct ibv_sge sge = {(uintptr_t)c->memory, bytes, c->mr->lkey};
  struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {c->theirs.address, c->theirs.rkey}};
  if (ibv_post_send(c->qp, &wr, &bad)) fail("ibv_post_send");
}

static void sleep_for_event(struct connection* c) {
  struct ibv_cq* cq;
  void* context;
  while (ibv_get_cq_event(c->channel, &cq, &context) < 0)
    if (errno != EINTR) fail("ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
}

/* Waits for a completion; one with an error is the end. */
static void wait_for_completion(struct connection* c) {
  struct ibv_wc wc;
  for (;;) {
    int got = ibv_poll_cq(c->cq, 1, &wc);
    if (got == 0 && c->channel) {
      if (ibv_req_notify_cq(c->cq, 0)) fail("ibv_req_notify_cq");
      got = ibv_poll_cq(c->cq, 1, &wc);
      if (got == 0) sleep_for_event(c);
    }
    if (got < 0) fail("ibv_poll_cq");
    if (got > 0) break;
  }
  if (wc.status != IBV_WC_SUCCESS) {
    printf("completion with status %d, %s\n", wc.status, ibv_wc_status_str(wc.status));
    exit(exit_status_base + (int)wc.status);
  }
}

static void disturb_with_a_child(int number) {
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    if (number % 2) execl("/bin/true", "true", NULL);
    exit(0); /* through the handlers of exit, as programs do */
  }
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid");
  if (status != 0) fail("a child failed");
}

static volatile sig_atomic_t is_enough = 0;

static void on_enough(int number) {
  (void)number;
  is_enough = 1;
}

static int wants_more(const struct options* o, long posted) {
  return !is_enough && (o->count == 0 || posted < o->count);
}

static void write_all(struct connection* c, const struct options* o) {
  long posted = 0, completed = 0, forks = 0;
  while (completed < posted || wants_more(o, posted)) {
    while (posted - completed < in_flight_max && wants_more(o, posted)) {
      post_write(c, o->bytes);
      ++posted;
    }
    if (completed == posted) break;
    wait_for_completion(c);
    ++completed;
    if (forks < o->forks) disturb_with_a_child((int)forks++);
  }
}

static void on_alarm(int number) { (void)number; }

static void start_alarms(long interval_us) {
  /* Without SA_RESTART: calls that sleep come back with EINTR. */
  const struct sigaction action = {.sa_handler = on_alarm};
  const struct itimerval timer = {{0, interval_us}, {0, interval_us}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
}

int main(int argc, char** argv) {
  const struct options o = parse(argc, argv);
  struct connection c = {0};
  signal(SIGUSR1, on_enough);
  open_connection(&c, &o);
  if (o.exec) execlp(o.exec, o.exec, "60", NULL);
  const int fd = open_socket(&o);
  exchange(fd, &c.ours, &c.theirs, sizeof(c.ours));
  connect_queue_pair(&c, &o);
  char ready = 0;
  exchange(fd, &ready, &ready, 1);
  printf("connected\n");
  fflush(stdout);
  if (o.close_fds &&
      (close_range(3, (unsigned)fd - 1, 0) < 0 || close_range((unsigned)fd + 1, ~0u, 0) < 0))
    fail("close_range");
  if (o.alarm_us) start_alarms(o.alarm_us);
  if (!o.passive) write_all(&c, &o);
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  char peer_wrote = 0, wrote = !o.passive;
  exchange(fd, &wrote, &peer_wrote, 1);
  for (size_t i = 0; peer_wrote && i < o.bytes; ++i)
    if (c.memory[o.bytes + i] != pattern(c.theirs.qpn, i)) exit(exit_wrong_data);
  ibv_destroy_qp(c.qp);
  ibv_dereg_mr(c.mr);
  ibv_destroy_cq(c.cq);
  if (c.channel) ibv_destroy_comp_channel(c.channel);
  ibv_dealloc_pd(c.pd);
  ibv_close_device(c.context);
  return 0;
}
