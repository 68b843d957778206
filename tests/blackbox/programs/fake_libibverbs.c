/* Stands for the libibverbs of a host with one RDMA device, fake0, as far as our tests go: the list
 * of devices, opening, protection domains, and the private functions that its provider calls. It
 * finds the provider as rdma-core does, by dlopen(), in FAKE_PROVIDER. What it is told to do it
 * says on standard error. */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in rdma-core: an ibv_device, and behind it the functions of its provider. */
struct fake_device {
  struct ibv_device device;
  const void* ops;
  char rest[64];
};

static const void* drivers[8];
static int driver_count;
static int lists;

void verbs_register_driver_34(const void* ops) {
  fprintf(stderr, "fake: provider %s\n", *(const char* const*)ops);
  drivers[driver_count++] = ops;
}

struct ibv_device** ibv_get_device_list(int* count) {
  static struct fake_device fake = {.device = {.node_type = IBV_NODE_CA,
                                               .transport_type = IBV_TRANSPORT_IB,
                                               .name = "fake0",
                                               .dev_name = "uverbs0"}};
  const char* provider = getenv("FAKE_PROVIDER");
  if (!driver_count && provider && !dlopen(provider, RTLD_NOW))
    fprintf(stderr, "fake: %s\n", dlerror());
  fake.ops = driver_count ? drivers[0] : NULL;
  *count = driver_count ? 1 : 0;
  struct ibv_device** list = calloc(2, sizeof *list);
  if (driver_count) list[0] = &fake.device;
  ++lists;
  return list;
}

void ibv_free_device_list(struct ibv_device** list) {
  fprintf(stderr, "fake: %d lists\n", --lists);
  free(list);
}

__be64 ibv_get_device_guid(struct ibv_device* device) {
  (void)device;
  return htobe64(0xfa4e);
}

void* verbs_open_device(struct ibv_device* device, void* data) {
  (void)data;
  struct verbs_context* context = calloc(1, sizeof *context);
  context->context.device = device;
  return &context->context;
}

struct ibv_context* ibv_open_device(struct ibv_device* device) {
  fprintf(stderr, "fake: opens %s\n", device->name);
  return verbs_open_device(device, NULL);
}

int ibv_close_device(struct ibv_context* context) {
  fprintf(stderr, "fake: closes %s\n", context->device->name);
  free((char*)context - offsetof(struct verbs_context, context));
  return 0;
}

/* More arguments than fit into registers, as the true one has them in newer versions. */
int ibv_cmd_alloc_pd(int a, int b, int c, int d, int e, int f, int g, int h) {
  fprintf(stderr, "fake: command %d%d%d%d%d%d%d%d\n", a, b, c, d, e, f, g, h);
  return a + h;
}

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
  struct ibv_pd* pd = calloc(1, sizeof *pd);
  pd->context = context;
  /* By the provider, which gets back to ibv_cmd_alloc_pd(). */
  int (*alloc)(void) = ((int (*const*)(void))drivers[0])[1];
  pd->handle = (uint32_t)alloc();
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd* pd) {
  fprintf(stderr, "fake: frees a PD of %s\n", pd->context->device->name);
  free(pd);
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq* cq, unsigned count) {
  fprintf(stderr, "fake: %u events of %s\n", count, cq->context->device->name);
}

/* Calls a function of this library, whose name another library has, too. */
int ibv_fork_init(void) {
  int count = 0;
  ibv_free_device_list(ibv_get_device_list(&count));
  fprintf(stderr, "fake: fork_init, of %d\n", count);
  return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* attr) {
  struct ibv_port_attr known = {.state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_1024};
  known.gid_tbl_len = 1;
  memcpy(attr, &known, offsetof(struct ibv_port_attr, port_cap_flags2));
  return context && port == 1 ? 0 : EINVAL;
}

/* 127.0.0.7, by RoCE v2. */
int _ibv_query_gid_ex(struct ibv_context* context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry* entry, uint32_t flags, size_t bytes) {
  static const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 7};
  if (!context || port != 1 || index != 0 || flags || bytes != sizeof *entry) return EINVAL;
  memset(entry, 0, bytes);
  memcpy(entry->gid.raw, gid, sizeof gid);
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  return 0;
}

int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index, unsigned* type) {
  *type = context && port == 1 ? index + 40 : 0;
  return 0;
}
