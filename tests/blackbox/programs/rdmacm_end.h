// One end of a connection of rdma_cm, as the programs here begin it, and what ends them.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { resolve_timeout_ms = 2000 };

struct rdmacm_end {
  struct rdma_event_channel* channel;
  struct rdma_cm_id* id;
  /* Where to connect, or what the identifier of the passive end is bound to. */
  struct sockaddr_in address;
  int is_passive;
};

/* What can't go on ends the program with these words and errno's. */
static inline void expect(int is_true, const char* what) {
  if (!is_true) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
  }
}

/* From the words "PROGRAM listen|connect ADDRESS PORT ...", of which each end has so many. */
static inline struct rdmacm_end open_end(int argc, char** argv, int words_passive,
                                         int words_active) {
  struct rdmacm_end end = {.channel = rdma_create_event_channel(),
                           .address = {.sin_family = AF_INET}};
  end.is_passive = argc > 1 && strcmp(argv[1], "listen") == 0;
  expect(argc >= (end.is_passive ? words_passive : words_active), "usage");
  expect(end.channel != NULL, "rdma_create_event_channel");
  inet_pton(AF_INET, argv[2], &end.address.sin_addr);
  end.address.sin_port = htons((uint16_t)atoi(argv[3]));
  expect(rdma_create_id(end.channel, &end.id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  if (end.is_passive)
    expect(rdma_bind_addr(end.id, (struct sockaddr*)&end.address) == 0, "rdma_bind_addr");
  return end;
}

/* Waits for the next completion, looking all the time. */
static inline struct ibv_wc next_completion(struct ibv_cq* cq) {
  struct ibv_wc wc;
  int count;
  do count = ibv_poll_cq(cq, 1, &wc);
  while (count == 0);
  expect(count == 1, "ibv_poll_cq");
  return wc;
}
