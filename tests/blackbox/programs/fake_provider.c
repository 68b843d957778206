/* The provider of fake_libibverbs.c's device. Like rdma-core's it needs libibverbs.so.1, registers
 * in its constructor, and calls the private functions that it imports. */
int ibv_cmd_alloc_pd(int a, int b, int c, int d, int e, int f, int g, int h);
void verbs_register_driver_34(const void* ops);

static int alloc_pd(void) { return ibv_cmd_alloc_pd(1, 2, 3, 4, 5, 6, 7, 8); }

static const struct {
  const char* name;
  int (*alloc_pd)(void);
} operations = {"fake", alloc_pd};

__attribute__((constructor)) static void enter(void) { verbs_register_driver_34(&operations); }
