/* cancelled: threads that wait for a completion event, an asynchronous event and a connection event
 * are cancelled and joined, as MPI libraries end theirs. Everything can be destroyed then. */
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void* wait_for_completion(void* channel) {
  struct ibv_cq* cq;
  void* context;
  ibv_get_cq_event(channel, &cq, &context);
  return NULL;
}

static void* wait_for_async_event(void* context) {
  struct ibv_async_event event;
  ibv_get_async_event(context, &event);
  return NULL;
}

static void* wait_for_connection_event(void* channel) {
  struct rdma_cm_event* event;
  rdma_get_cm_event(channel, &event);
  return NULL;
}

static void cancel(void* (*wait)(void*), void* argument, const char* what) {
  pthread_t thread;
  void* result = NULL;
  if (pthread_create(&thread, NULL, wait, argument) || pthread_cancel(thread) ||
      pthread_join(thread, &result)) {
    fail(what);
  }
  if (result != PTHREAD_CANCELED) {
    fprintf(stderr, "%s returned\n", what);
    exit(1);
  }
}

int main(void) {
  struct ibv_context** devices = rdma_get_devices(NULL);
  if (devices == NULL || devices[0] == NULL) {
    fail("rdma_get_devices");
  }
  struct ibv_comp_channel* completions = ibv_create_comp_channel(devices[0]);
  struct rdma_event_channel* connections = rdma_create_event_channel();
  if (completions == NULL || connections == NULL) {
    fail("a channel");
  }
  cancel(wait_for_completion, completions, "ibv_get_cq_event");
  cancel(wait_for_async_event, devices[0], "ibv_get_async_event");
  cancel(wait_for_connection_event, connections, "rdma_get_cm_event");
  rdma_destroy_event_channel(connections);
  if (ibv_destroy_comp_channel(completions)) {
    fail("ibv_destroy_comp_channel");
  }
  rdma_free_devices(devices);
  printf("all cancelled\n");
  return 0;
}
