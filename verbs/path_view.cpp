// libverbena_view.so, which `verbena run --view preload` loads into programs that look for devices
// in the file system themselves (UCX, scripts). It stands in front of the C library's functions
// that take a path: what is below one of ports::viewed_directories is looked up in our tree
// instead, whose root VERBENA_VIEW_ROOT names. All other paths go through unchanged.
//
// It doesn't see what makes system calls by itself (static programs, Go), paths that aren't written
// plainly ("/sys/class/net/../infiniband"), and glob(), which opens directories inside the C
// library.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ports/path_view.h"

namespace {

/// The root of the tree; empty if there is none. Read once, as a copy: programs change variables.
class Root {
 public:
  static std::string_view get() {
    static const Root root;
    return {root.text_, root.length_};
  }

 private:
  Root() {
    const char* const value = secure_getenv(verbena::ports::view_root_variable);
    const std::size_t length = value == nullptr ? 0 : std::strlen(value);
    if (length < sizeof text_) {
      std::memcpy(text_, value == nullptr ? "" : value, length);
      length_ = length;
    }
  }

  char text_[PATH_MAX / 2]{};
  std::size_t length_ = 0;
};

bool is_viewed(std::string_view path) {
  for (const std::string_view directory : verbena::ports::viewed_directories) {
    if (path.starts_with(directory) &&
        (path.size() == directory.size() || path[directory.size()] == '/')) {
      return true;
    }
  }
  return false;
}

/// A path as it is to be given to the C library.
class Seen {
 public:
  explicit Seen(const char* path) : path_(path) {
    // The first character alone decides nearly always.
    if (path == nullptr || path[0] != '/' || !is_viewed(path)) {
      return;
    }
    const std::string_view root = Root::get();
    const std::size_t length = std::strlen(path) + 1;
    if (!root.empty() && root.size() + length <= sizeof room_) {
      std::memcpy(room_, root.data(), root.size());
      std::memcpy(room_ + root.size(), path, length);
      path_ = room_;
    }
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;

  [[nodiscard]] const char* c_str() const { return path_; }

 private:
  const char* path_;
  char room_[PATH_MAX];
};

/// A canonical path, without the tree's root in front.
char* without_root(char* path) {
  const std::string_view root = Root::get();
  if (path != nullptr && !root.empty() && std::string_view(path).starts_with(root) &&
      path[root.size()] == '/') {
    std::memmove(path, path + root.size(), std::strlen(path + root.size()) + 1);
  }
  return path;
}

/// The same function of the next library, which is the C library or another such as this.
template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// What a function returns that the C library doesn't have.
template <class Result>
Result absent() {
  errno = ENOSYS;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return -1;
  }
}

}  // namespace

#define VERBENA_EXPORTED extern "C" __attribute__((visibility("default")))

// Functions that headers declare only to some programs. Their names are the C library's.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
int __xstat(int version, const char* path, struct stat* status) noexcept;
int __lxstat(int version, const char* path, struct stat* status) noexcept;
int __xstat64(int version, const char* path, struct stat64* status) noexcept;
int __lxstat64(int version, const char* path, struct stat64* status) noexcept;
int __fxstatat(int version, int directory, const char* path, struct stat* status,
               int flags) noexcept;
int __fxstatat64(int version, int directory, const char* path, struct stat64* status,
                 int flags) noexcept;
ssize_t __readlink_chk(const char* path, char* text, std::size_t size,
                       std::size_t text_size) noexcept;
char* __realpath_chk(const char* path, char* resolved, std::size_t size) noexcept;
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

/// `name` with the path in its place: VERBENA_VIEW(int, access, (const char* path, int mode),
/// (...)).
#define VERBENA_VIEW(result, name, parameters, arguments, ...)   \
  VERBENA_EXPORTED result name parameters __VA_ARGS__ {          \
    static auto* const next = next_of<result parameters>(#name); \
    const Seen seen(path);                                       \
    return next == nullptr ? absent<result>() : next arguments;  \
  }

VERBENA_VIEW(int, __open_2, (const char* path, int flags), (seen.c_str(), flags))
VERBENA_VIEW(int, __open64_2, (const char* path, int flags), (seen.c_str(), flags))
VERBENA_VIEW(int, __openat_2, (int directory, const char* path, int flags),
             (directory, seen.c_str(), flags))
VERBENA_VIEW(int, __openat64_2, (int directory, const char* path, int flags),
             (directory, seen.c_str(), flags))

VERBENA_VIEW(FILE*, fopen, (const char* path, const char* mode), (seen.c_str(), mode))
VERBENA_VIEW(FILE*, fopen64, (const char* path, const char* mode), (seen.c_str(), mode))

VERBENA_VIEW(int, stat, (const char* path, struct stat* status), (seen.c_str(), status), noexcept)
VERBENA_VIEW(int, lstat, (const char* path, struct stat* status), (seen.c_str(), status), noexcept)
VERBENA_VIEW(int, stat64, (const char* path, struct stat64* status), (seen.c_str(), status),
             noexcept)
VERBENA_VIEW(int, lstat64, (const char* path, struct stat64* status), (seen.c_str(), status),
             noexcept)
VERBENA_VIEW(int, fstatat, (int directory, const char* path, struct stat* status, int flags),
             (directory, seen.c_str(), status, flags), noexcept)
VERBENA_VIEW(int, fstatat64, (int directory, const char* path, struct stat64* status, int flags),
             (directory, seen.c_str(), status, flags), noexcept)
VERBENA_VIEW(int, statx,
             (int directory, const char* path, int flags, unsigned mask, struct statx* status),
             (directory, seen.c_str(), flags, mask, status), noexcept)
// As programs call them that were linked before glibc 2.33.
VERBENA_VIEW(int, __xstat, (int version, const char* path, struct stat* status),
             (version, seen.c_str(), status), noexcept)
VERBENA_VIEW(int, __lxstat, (int version, const char* path, struct stat* status),
             (version, seen.c_str(), status), noexcept)
VERBENA_VIEW(int, __xstat64, (int version, const char* path, struct stat64* status),
             (version, seen.c_str(), status), noexcept)
VERBENA_VIEW(int, __lxstat64, (int version, const char* path, struct stat64* status),
             (version, seen.c_str(), status), noexcept)
VERBENA_VIEW(int, __fxstatat,
             (int version, int directory, const char* path, struct stat* status, int flags),
             (version, directory, seen.c_str(), status, flags), noexcept)
VERBENA_VIEW(int, __fxstatat64,
             (int version, int directory, const char* path, struct stat64* status, int flags),
             (version, directory, seen.c_str(), status, flags), noexcept)

VERBENA_VIEW(int, access, (const char* path, int mode), (seen.c_str(), mode), noexcept)
VERBENA_VIEW(int, euidaccess, (const char* path, int mode), (seen.c_str(), mode), noexcept)
VERBENA_VIEW(int, eaccess, (const char* path, int mode), (seen.c_str(), mode), noexcept)
VERBENA_VIEW(int, faccessat, (int directory, const char* path, int mode, int flags),
             (directory, seen.c_str(), mode, flags), noexcept)

VERBENA_VIEW(ssize_t, readlink, (const char* path, char* text, std::size_t size),
             (seen.c_str(), text, size), noexcept)
VERBENA_VIEW(ssize_t, readlinkat, (int directory, const char* path, char* text, std::size_t size),
             (directory, seen.c_str(), text, size), noexcept)
VERBENA_VIEW(ssize_t, __readlink_chk,
             (const char* path, char* text, std::size_t size, std::size_t text_size),
             (seen.c_str(), text, size, text_size), noexcept)

VERBENA_VIEW(DIR*, opendir, (const char* path), (seen.c_str()))
VERBENA_VIEW(int, scandir,
             (const char* path, dirent*** list, int (*filter)(const dirent*),
              int (*compare)(const dirent**, const dirent**)),
             (seen.c_str(), list, filter, compare))
VERBENA_VIEW(int, scandir64,
             (const char* path, dirent64*** list, int (*filter)(const dirent64*),
              int (*compare)(const dirent64**, const dirent64**)),
             (seen.c_str(), list, filter, compare))
VERBENA_VIEW(int, chdir, (const char* path), (seen.c_str()), noexcept)

#undef VERBENA_VIEW

// The mode is there only if a file may be created.
#define VERBENA_OPEN(name, parameters, ...)                                  \
  VERBENA_EXPORTED int name parameters {                                     \
    static auto* const next = next_of<int parameters>(#name);                \
    const Seen seen(path);                                                   \
    mode_t mode = 0;                                                         \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {        \
      std::va_list arguments;                                                \
      va_start(arguments, flags);                                            \
      mode = va_arg(arguments, mode_t);                                      \
      va_end(arguments);                                                     \
    }                                                                        \
    return next == nullptr ? absent<int>() : next(__VA_ARGS__, flags, mode); \
  }

VERBENA_OPEN(open, (const char* path, int flags, ...), seen.c_str())
VERBENA_OPEN(open64, (const char* path, int flags, ...), seen.c_str())
VERBENA_OPEN(openat, (int directory, const char* path, int flags, ...), directory, seen.c_str())
VERBENA_OPEN(openat64, (int directory, const char* path, int flags, ...), directory, seen.c_str())

#undef VERBENA_OPEN

// Canonical paths are the ones that the program knows.

VERBENA_EXPORTED char* realpath(const char* path, char* resolved) noexcept {
  static auto* const next = next_of<char*(const char*, char*)>("realpath");
  const Seen seen(path);
  return next == nullptr ? absent<char*>() : without_root(next(seen.c_str(), resolved));
}

VERBENA_EXPORTED char* __realpath_chk(const char* path, char* resolved, std::size_t size) noexcept {
  static auto* const next = next_of<char*(const char*, char*, std::size_t)>("__realpath_chk");
  const Seen seen(path);
  return next == nullptr ? absent<char*>() : without_root(next(seen.c_str(), resolved, size));
}

VERBENA_EXPORTED char* canonicalize_file_name(const char* path) noexcept {
  return realpath(path, nullptr);
}
