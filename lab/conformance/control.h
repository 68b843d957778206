// Lines of text over TCP, each answered by one: how two roles keep in step.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
  line_bytes_max = 512,
  // Longer than a peer needs for any step on an emulated machine. A step that waits for a
  // connection and one for its end are the longest.
  control_limit_s = 90,
  // For somebody to listen.
  connect_limit_s = 120,
};

// Listens at ADDRESS:PORT; ends the program if it can't. Returns a descriptor.
int listen_at(const char* address);

// A connection.
struct control {
  FILE* in;
  FILE* out;
  // Begun over it so far: both ends count alike.
  uint32_t cases;
};

// Connects, trying again for connect_limit_s while nobody listens. Returns 0 if nobody ever did.
int connect_to(const char* address, struct control* control);

// Takes the connection that somebody made. Returns 0 if there is none.
int accept_from(int listener, struct control* control);

void close_control(struct control* control);

// The addresses of both ends of a connection. Returns 0 if it is gone.
int ends_of(const struct control* control, struct sockaddr_storage* own,
            struct sockaddr_storage* peer);

// Returns 0 if the connection is gone.
int tell(struct control* control, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Reads a line without its end. Returns 0 if the connection is gone, or the line too long.
int hear(struct control* control, char line[line_bytes_max]);
