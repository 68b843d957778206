#include "verbs/real_library.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>

#include "ports/log.h"
#include "verbs/context_arena.h"
#include "verbs/errors.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {

constinit std::atomic<const RealVerbs*> loaded_real_verbs{nullptr};
constinit const char our_device_mark = 0;

namespace {

/// Version of the provider interface that our trampolines have.
constexpr const char* private_version = "IBVERBS_PRIVATE_34";

/// A symbol that no libibverbs but ours has (libibverbs.map).
constexpr const char* symbol_of_ours = "verbena_cm_device";

struct Close {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Handle = std::unique_ptr<void, Close>;

/// The file of the library that we are.
std::optional<struct stat> own_file() {
  Dl_info info{};
  struct stat status{};
  if (::dladdr(&our_device_mark, &info) == 0 || ::stat(info.dli_fname, &status) != 0) {
    return std::nullopt;
  }
  return status;
}

/// The first candidate that is there and that we are not.
std::optional<std::string> find_library(const ports::RealDevices& real) {
  const auto ours = own_file();
  for (const std::string& file : ports::real_library_candidates(real)) {
    struct stat status{};
    const bool exists = ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    if (exists && !(ours && ours->st_dev == status.st_dev && ours->st_ino == status.st_ino)) {
      return file;
    }
  }
  return std::nullopt;
}

/// Run-time libraries of sanitizers end a program that uses RTLD_DEEPBIND.
bool is_sanitized() {
  return std::ranges::any_of(
      std::array{"__asan_init", "__tsan_init", "__msan_init"},
      [](const char* name) { return ::dlsym(RTLD_DEFAULT, name) != nullptr; });
}

/// A program with an allocator of its own (tcmalloc, jemalloc): the real library, which looks at
/// its own dependencies first, would take memory of the C library, and providers would give it to
/// the other.
bool has_own_allocator() {
  const Handle libc(::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD));
  void* const used = ::dlsym(RTLD_DEFAULT, "free");
  if (!libc || used == ::dlsym(libc.get(), "free")) {
    return false;
  }
  // An executable at a fixed address may have a stub under this name, which isn't a definition.
  Dl_info info{};
  void* entry = nullptr;
  const bool is_known = ::dladdr1(used, &info, &entry, RTLD_DL_SYMENT) != 0 && entry != nullptr;
  return !is_known || static_cast<const ElfW(Sym)*>(entry)->st_shndx != SHN_UNDEF;
}

/// Why no real library can be used here; empty if one can.
std::string obstacle() {
  if (is_sanitized()) {
    return "this program runs under a sanitizer, which doesn't allow the real libibverbs to be "
           "loaded beside ours (RTLD_DEEPBIND)";
  }
  if (has_own_allocator()) {
    return "this program has a memory allocator of its own (such as tcmalloc or jemalloc), beside "
           "which the real libibverbs can't be loaded; run it without";
  }
  return {};
}

template <class Function>
void resolve(void* library, const char* version, const char* name, Function& function) {
  if (void* const found = ::dlvsym(library, name, version)) {
    function = reinterpret_cast<Function>(found);
  }
}

/// The functions of the library; empty if it is none that we can work with.
std::unique_ptr<RealVerbs> resolve_verbs(void* library) {
  auto verbs = std::make_unique<RealVerbs>();
  // Neither returns an error, and an errno value would be a promise.
  verbs->ibv_query_qp_data_in_order = [](ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; };
  verbs->ibv_is_fork_initialized = [] { return IBV_FORK_DISABLED; };
#define VERBENA_RESOLVE(version, name) resolve(library, version, #name, verbs->name);
  VERBENA_REAL_VERBS(VERBENA_RESOLVE)
#undef VERBENA_RESOLVE
  return verbs;
}

void resolve_private_symbols(void* library) {
  for (const PrivateSymbol& symbol : private_symbols()) {
    if (void* const found = ::dlvsym(library, symbol.name, private_version)) {
      std::atomic_ref(*symbol.target)
          .store(reinterpret_cast<void (*)()>(found), std::memory_order_release);
    }
  }
}

/// Why it isn't what we need; empty if it is.
std::string mismatch(void* library) {
  if (::dlsym(library, symbol_of_ours) != nullptr) {
    return "it is a Verbena, too; name the system's with VERBENA_REAL_LIBIBVERBS";
  }
  for (const char* name : {"verbs_register_driver_34", "verbs_open_device", "ibv_query_gid_type"}) {
    if (::dlvsym(library, name, private_version) == nullptr) {
      return std::string("its interface to providers isn't ") + private_version +
             ", that of rdma-core 34 to 56";
    }
  }
  return {};
}

/// The error is a sentence for the user.
Result<void, std::string> load(const ports::RealDevices& real) {
  if (std::string reason = obstacle(); !reason.empty()) {
    return std::unexpected(std::move(reason));
  }
  const auto file = find_library(real);
  if (!file) {
    return std::unexpected(
        real.library.empty()
            ? "this host has no libibverbs.so.1 in the folders of its loader; install it (Debian: "
              "libibverbs1, ibverbs-providers) or name it with VERBENA_REAL_LIBIBVERBS"
            : real.library +
                  " isn't there, or is ours; VERBENA_REAL_LIBIBVERBS names the "
                  "libibverbs.so.1 of the system");
  }
  Handle library(::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  if (!library) {
    return std::unexpected(*file + " can't be loaded: " + ::dlerror());
  }
  if (std::string reason = mismatch(library.get()); !reason.empty()) {
    return std::unexpected(*file + " can't be used: " + reason);
  }
  auto verbs = resolve_verbs(library.get());
  if (!ContextArena::open()) {
    return std::unexpected("there is no memory for contexts beside those of real devices");
  }
  resolve_private_symbols(library.get());
  if (::secure_getenv("RDMAV_ALLOW_DISASSOC_DESTROY") != nullptr) {
    allow_disassociate_destroy();
  }
  register_waiting_providers();
  static_cast<void>(library.release());
  loaded_real_verbs.store(verbs.release(), std::memory_order_release);
  ports::report("real devices by " + *file, ports::LogLevel::info);
  return {};
}

}  // namespace

void load_real_library(const ports::RealDevices& real) {
  if (!real.wanted) {
    return;
  }
  if (const auto loaded = load(real); !loaded) {
    ports::report("no real devices: " + loaded.error());
  }
}

}  // namespace verbena::verbs
