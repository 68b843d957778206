/* Uses a device of each kind in one process, by the functions of one libibverbs, in an order that
 * mixes them up; in the end an object of ours outlives its device while a foreign one takes the
 * place in memory. Arguments: the two devices' names, ours first. Prints "both". */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index,
                              unsigned* type);

static void must(int holds, const char* what) {
  if (!holds) {
    perror(what);
    exit(1);
  }
}

static struct ibv_context* open_device(const char* name) {
  struct ibv_context* context = NULL;
  struct ibv_device** list = ibv_get_device_list(NULL);
  for (int i = 0; list && list[i]; ++i)
    if (!strcmp(ibv_get_device_name(list[i]), name)) context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  must(context != NULL, name);
  return context;
}

int main(int argc, char** argv) {
  must(argc == 3 && ibv_fork_init() == 0, "ibv_fork_init");
  struct ibv_context* ours = open_device(argv[1]);
  struct ibv_context* theirs = open_device(argv[2]);
  struct ibv_pd* our_pd = ibv_alloc_pd(ours);
  struct ibv_pd* their_pd = ibv_alloc_pd(theirs);
  must(our_pd && their_pd && their_pd->handle == 9, "a protection domain");
  static char memory[4096];
  struct ibv_mr* mr = ibv_reg_mr(our_pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  must(mr != NULL && mr->context == ours, "a memory region");
  unsigned type = 0;
  must(ibv_query_gid_type(theirs, 1, 2, &type) == 0 && type == 42, "their GID");
  must(ibv_query_gid_type(ours, 1, 0, &type) == 0 && type == 1, "our GID");
  /* What the other library doesn't have. */
  must(ibv_reg_mr(their_pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE) == NULL, "a refusal");
  struct ibv_cq their_cq = {.context = theirs};
  ibv_ack_cq_events(&their_cq, 3);

  must(ibv_close_device(ours) == 0, "closing ours");
  struct ibv_context* others[64];
  for (int i = 0; i < 64; ++i) others[i] = open_device(argv[2]);
  must(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(our_pd) == 0, "objects of a closed device");
  for (int i = 0; i < 64; ++i) must(ibv_close_device(others[i]) == 0, "closing another");
  must(ibv_dealloc_pd(their_pd) == 0 && ibv_close_device(theirs) == 0, "closing theirs");
  puts("both");
  return 0;
}
