/* Loads libibverbs, opens a device, and unloads the library again, many times: once with the device
 * closed and once with it still open, as plugins do that go away. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) fprintf(stderr, "reload: %s\n", dlerror());
  return found;
}

static int use_once(int close_it) {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "reload: %s\n", dlerror());
    return 0;
  }
  void** (*get_list)(int*) = symbol(library, "ibv_get_device_list");
  void (*free_list)(void**) = symbol(library, "ibv_free_device_list");
  void* (*open_device)(void*) = symbol(library, "ibv_open_device");
  int (*close_device)(void*) = symbol(library, "ibv_close_device");
  if (!get_list || !free_list || !open_device || !close_device) return 0;
  void** devices = get_list(NULL);
  void* context = devices && devices[0] ? open_device(devices[0]) : NULL;
  if (!context) return 0;
  free_list(devices);
  if (close_it && close_device(context) != 0) return 0;
  return dlclose(library) == 0;
}

int main(void) {
  for (int i = 0; i < 40; ++i)
    if (!use_once(i % 4 != 3)) return 1;
  /* The threads of those that are open go on. */
  const struct timespec pause = {.tv_nsec = 50000000};
  nanosleep(&pause, NULL);
  puts("unloaded");
  return 0;
}
