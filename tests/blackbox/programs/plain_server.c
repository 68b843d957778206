/* A server of plain sockets, for programs that librspreload.so puts on rsockets.
 *
 *   plain_server echo|http PORT [BYTES]
 *
 * Serves one connection: echoes until its end, or answers one HTTP request with so many bytes. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void write_all(int fd, const char* bytes, size_t length) {
  while (length > 0) {
    const ssize_t written = write(fd, bytes, length);
    if (written <= 0) fail("write");
    bytes += written;
    length -= (size_t)written;
  }
}

static void echo(int fd) {
  static char buffer[65536];
  ssize_t length;
  while ((length = read(fd, buffer, sizeof buffer)) > 0) write_all(fd, buffer, (size_t)length);
  if (length < 0) fail("read");
}

static void answer(int fd, size_t bytes) {
  char request[4096];
  size_t length = 0;
  while (length < 4 || !strstr(request, "\r\n\r\n")) {
    const ssize_t more = read(fd, request + length, sizeof request - 1 - length);
    if (more <= 0) fail("read");
    length += (size_t)more;
    request[length] = '\0';
  }
  char head[128];
  snprintf(head, sizeof head, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n", bytes);
  write_all(fd, head, strlen(head));
  char* body = malloc(bytes);
  if (!body) fail("malloc");
  memset(body, 'v', bytes);
  write_all(fd, body, bytes);
  free(body);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(argv[2])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (listener < 0 || bind(listener, (struct sockaddr*)&address, sizeof address) != 0 ||
      listen(listener, 8) != 0)
    fail("listen");
  puts("listening");
  fflush(stdout);
  const int fd = accept(listener, NULL, NULL);
  if (fd < 0) fail("accept");
  if (strcmp(argv[1], "echo") == 0)
    echo(fd);
  else
    answer(fd, argc > 3 ? (size_t)atol(argv[3]) : 0);
  close(fd);
  close(listener);
  return 0;
}
