/* channel_end: threads that ask a channel for an event, one before the channel is destroyed and one
 * after it, both wait. rping asks again after each event while its other thread ends everything:
 * were the late one told of an error, rping would end with status 255 now and then. */
#define _GNU_SOURCE
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { POLL_US = 1000, OFTEN = 50, PATIENCE = 60 * 1000 };

struct asker {
  pthread_t thread;
  struct rdma_event_channel* channel;
  atomic_int id;
};

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void* ask(void* argument) {
  struct asker* asker = argument;
  struct rdma_cm_event* event;
  atomic_store(&asker->id, gettid());
  if (rdma_get_cm_event(asker->channel, &event)) {
    fail("a thread was told of an error");
  }
  fprintf(stderr, "a thread was given an event\n");
  exit(1);
}

static char state_of(int thread) {
  char path[64];
  char state = '?';
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  FILE* file = fopen(path, "r");
  if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
    fail(path);
  }
  fclose(file);
  return state;
}

/* Until the thread has been seen asleep so often in a row that it isn't a lock on its way. */
static void wait_until_asleep(struct asker* asker) {
  for (int i = 0, seen = 0; i < PATIENCE; ++i) {
    const int thread = atomic_load(&asker->id);
    seen = thread != 0 && state_of(thread) == 'S' ? seen + 1 : 0;
    if (seen == OFTEN) {
      return;
    }
    usleep(POLL_US);
  }
  fprintf(stderr, "a thread never went to sleep\n");
  exit(1);
}

static void start(struct asker* asker, struct rdma_event_channel* channel) {
  asker->channel = channel;
  if (pthread_create(&asker->thread, NULL, ask, asker)) {
    fail("pthread_create");
  }
  wait_until_asleep(asker);
}

int main(void) {
  static struct asker early, late;
  struct rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == NULL) {
    fail("rdma_create_event_channel");
  }
  start(&early, channel);
  rdma_destroy_event_channel(channel);
  start(&late, channel);
  wait_until_asleep(&early);
  printf("both wait\n");
  return 0;
}
