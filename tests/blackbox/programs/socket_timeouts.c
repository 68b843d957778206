/* socket_timeouts: a socket that waits for nothing tells so after the timeout, every time, by
 * rpoll() and by rselect(), listening and connected, and by the calls themselves after SO_RCVTIMEO;
 * and what comes then is seen. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

enum { TIMEOUT_MS = 50, TIMES = 3, LONG_MS = 20000 };

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int wait_by_poll(int socket, int timeout_ms) {
  struct pollfd entry = {.fd = socket, .events = POLLIN};
  return rpoll(&entry, 1, timeout_ms);
}

static int wait_by_select(int socket, int timeout_ms) {
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(socket, &readable);
  struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
  return rselect(socket + 1, &readable, NULL, NULL, &timeout);
}

/* Nothing comes, and each call says so when its time is over. */
static void expect_silence(int socket, const char* what) {
  for (int i = 0; i < 2 * TIMES; ++i) {
    const long long begin = now_ms();
    const int ready = i % 2 ? wait_by_select(socket, TIMEOUT_MS) : wait_by_poll(socket, TIMEOUT_MS);
    const long long waited = now_ms() - begin;
    if (ready != 0 || waited < TIMEOUT_MS - 1 || waited > LONG_MS) {
      fprintf(stderr, "%s: call %d returned %d after %lld ms\n", what, i, ready, waited);
      exit(1);
    }
  }
  printf("%s: %d timeouts\n", what, 2 * TIMES);
}

static ssize_t accept_nobody(int socket) { return raccept(socket, NULL, NULL); }
static ssize_t receive_nothing(int socket) {
  char byte;
  return rrecv(socket, &byte, 1, 0);
}

/* The same of a call that would wait without end, but for SO_RCVTIMEO. */
static void expect_limit(int socket, ssize_t (*call)(int), const char* what) {
  struct timeval limit = {.tv_usec = TIMEOUT_MS * 1000};
  if (rsetsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) fail("SO_RCVTIMEO");
  for (int i = 0; i < TIMES; ++i) {
    const long long begin = now_ms();
    const ssize_t result = call(socket);
    const long long waited = now_ms() - begin;
    if (result >= 0 || errno != EAGAIN || waited < TIMEOUT_MS || waited > LONG_MS) {
      fprintf(stderr, "%s: call %d returned %zd, errno %d, after %lld ms\n", what, i, result, errno,
              waited);
      exit(1);
    }
  }
  struct timeval told = {0};
  socklen_t length = sizeof told;
  if (rgetsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &told, &length)) fail("rgetsockopt");
  if (told.tv_sec != 0 || told.tv_usec != limit.tv_usec) fail("what SO_RCVTIMEO says");
  limit.tv_usec = 0;
  if (rsetsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) fail("no SO_RCVTIMEO");
  printf("%s: %d time limits\n", what, TIMES);
}

static struct sockaddr_in address;

/* The peer: connects, says a word and waits for another. */
static void* client(void* unused) {
  (void)unused;
  const int socket = rsocket(AF_INET, SOCK_STREAM, 0);
  if (rconnect(socket, (struct sockaddr*)&address, sizeof address)) fail("rconnect");
  if (rsend(socket, "go", 2, 0) != 2) fail("rsend");
  char word[2];
  if (rrecv(socket, word, sizeof word, MSG_WAITALL) != 2) fail("rrecv of the peer");
  rclose(socket);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  address.sin_family = AF_INET;
  address.sin_port = htons((unsigned short)atoi(argv[1]));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0) fail("rsocket");
  if (rbind(listener, (struct sockaddr*)&address, sizeof address)) fail("rbind");
  if (rlisten(listener, 1)) fail("rlisten");
  expect_silence(listener, "listening");
  expect_limit(listener, accept_nobody, "listening");
  const int datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);
  if (rbind(datagrams, (struct sockaddr*)&address, sizeof address)) fail("rbind of datagrams");
  expect_limit(datagrams, receive_nothing, "datagrams");
  rclose(datagrams);

  pthread_t peer;
  if (pthread_create(&peer, NULL, client, NULL)) fail("pthread_create");
  if (wait_by_poll(listener, LONG_MS) != 1) fail("rpoll of the listener");
  const int socket = raccept(listener, NULL, NULL);
  if (socket < 0) fail("raccept");
  if (wait_by_select(socket, LONG_MS) != 1) fail("rselect of the connection");
  char word[2];
  if (rrecv(socket, word, sizeof word, 0) != 2 || memcmp(word, "go", 2)) fail("rrecv");
  expect_silence(socket, "connected");
  expect_limit(socket, receive_nothing, "connected");

  if (rsend(socket, "ok", 2, 0) != 2) fail("rsend of the answer");
  if (pthread_join(peer, NULL)) fail("pthread_join");
  rclose(socket);
  rclose(listener);
  return 0;
}
