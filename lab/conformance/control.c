#include "lab/conformance/control.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "lab/conformance/endpoint.h"

enum { retry_us = 200000, greeting_limit_s = 10 };

static struct addrinfo* resolve(const char* address, int flags) {
  char host[line_bytes_max];
  snprintf(host, sizeof host, "%s", address);
  char* colon = strrchr(host, ':');
  if (colon == NULL) {
    fprintf(stderr, "conformance: %s isn't ADDRESS:PORT\n", address);
    exit(2);
  }
  *colon = '\0';
  struct addrinfo hints = {.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo* found = NULL;
  const int failed = getaddrinfo(host, colon + 1, &hints, &found);
  if (failed != 0) {
    fprintf(stderr, "conformance: %s: %s\n", address, gai_strerror(failed));
    exit(2);
  }
  return found;
}

static void set_limit(int fd, int seconds) {
  const struct timeval limit = {.tv_sec = seconds};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// Gives up on a peer that says nothing, and sends each line at once.
static struct control control_of(int fd) {
  const int yes = 1;
  set_limit(fd, control_limit_s);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const int other = dup(fd);
  const struct control control = {.in = fdopen(fd, "r"), .out = fdopen(other, "w")};
  if (control.in == NULL || control.out == NULL) {
    fatal("fdopen");
  }
  return control;
}

int listen_at(const char* address) {
  struct addrinfo* where = resolve(address, AI_PASSIVE);
  const int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, 4) != 0) {
    fatal(address);
  }
  freeaddrinfo(where);
  return fd;
}

void close_control(struct control* control) {
  fclose(control->in);
  fclose(control->out);
}

int accept_from(int listener, struct control* control) {
  const int fd = accept(listener, NULL, NULL);
  if (fd >= 0) {
    *control = control_of(fd);
  }
  return fd >= 0;
}

int connect_to(const char* address, struct control* control) {
  struct addrinfo* where = resolve(address, 0);
  const int64_t deadline = now_ms() + connect_limit_s * 1000;
  int is_there = 0;
  while (!is_there && now_ms() < deadline) {
    const int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, where->ai_addr, where->ai_addrlen) == 0) {
      *control = control_of(fd);
      // QEMU's network accepts for a guest in which nobody listens yet: an agent speaks first.
      char first = 0;
      set_limit(fd, greeting_limit_s);
      is_there = recv(fd, &first, 1, MSG_PEEK) == 1;
      set_limit(fd, control_limit_s);
      if (!is_there) {
        close_control(control);
      }
    } else if (fd >= 0) {
      close(fd);
    }
    if (!is_there) {
      usleep(retry_us);
    }
  }
  freeaddrinfo(where);
  return is_there;
}

int ends_of(const struct control* control, struct sockaddr_storage* own,
            struct sockaddr_storage* peer) {
  const int fd = fileno(control->in);
  socklen_t own_bytes = sizeof *own, peer_bytes = sizeof *peer;
  return getsockname(fd, (struct sockaddr*)own, &own_bytes) == 0 &&
         getpeername(fd, (struct sockaddr*)peer, &peer_bytes) == 0;
}

int tell(struct control* control, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = vfprintf(control->out, format, arguments);
  va_end(arguments);
  return written > 0 && fputc('\n', control->out) != EOF && fflush(control->out) == 0;
}

int hear(struct control* control, char line[line_bytes_max]) {
  if (fgets(line, line_bytes_max, control->in) == NULL) {
    return 0;
  }
  char* end = strchr(line, '\n');
  if (end == NULL) {
    return 0;
  }
  *end = '\0';
  return 1;
}
