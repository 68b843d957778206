#include "ports/sys.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "ports/sys_call.h"

namespace verbena::ports::sys {

namespace {

timespec to_timespec(Duration duration) {
  const auto ns = std::max<std::int64_t>(duration.count(), 0);
  return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

flock range_lock(short type, std::int64_t start, std::int64_t length) {
  // l_pid must be 0 for open file description locks (fcntl(2)).
  return {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length, .l_pid = 0};
}

sockaddr_un unix_address(const std::string& path) {
  VERBENA_CHECK(path.size() <= unix_path_bytes_max);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

std::string error_text(int error) {
  std::array<char, 128> buffer{};
  return strerror_r(error, buffer.data(), buffer.size());
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) {
#if defined(__SANITIZE_THREAD__)
    // It must see the number given back, or it takes who gets it next for the same.
    ::close(std::exchange(fd_, -1));
#else
    call(SYS_close, std::exchange(fd_, -1));
#endif
  }
}

Result<Fd, int> open(const std::string& path, int flags, unsigned mode) {
  const int fd = int_call(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

int fstat(int fd, struct stat& out) {
  return int_call(SYS_newfstatat, fd, "", &out, AT_EMPTY_PATH);
}

int lstat(const std::string& path, struct stat& out) {
  return int_call(SYS_newfstatat, AT_FDCWD, path.c_str(), &out, AT_SYMLINK_NOFOLLOW);
}

long read_at(int fd, MutableBytes out, std::size_t offset) {
  return call(SYS_pread64, fd, out.data(), out.size(), static_cast<off_t>(offset));
}

int mkdir(const std::string& path, unsigned mode) {
  return int_call(SYS_mkdirat, AT_FDCWD, path.c_str(), mode);
}

int unlink(const std::string& path) { return int_call(SYS_unlinkat, AT_FDCWD, path.c_str(), 0); }

int link_unnamed(int fd, const std::string& path) {
  // linkat() with AT_EMPTY_PATH needs a capability; through /proc it doesn't (open(2), O_TMPFILE).
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  return int_call(SYS_linkat, AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
}

int allocate(int fd, std::uint64_t bytes) {
  return int_call(SYS_fallocate, fd, 0, off_t{0}, static_cast<off_t>(bytes));
}

int try_lock_range(int fd, std::int64_t start, std::int64_t length) {
  flock lock = range_lock(F_WRLCK, start, length);
  const int result = int_call(SYS_fcntl, fd, F_OFD_SETLK, &lock);
  return result == -EACCES ? -EAGAIN : result;
}

int unlock_range(int fd, std::int64_t start, std::int64_t length) {
  flock lock = range_lock(F_UNLCK, start, length);
  return int_call(SYS_fcntl, fd, F_OFD_SETLK, &lock);
}

std::optional<bool> is_range_locked(int fd, std::int64_t start, std::int64_t length) {
  flock lock = range_lock(F_WRLCK, start, length);
  if (int_call(SYS_fcntl, fd, F_OFD_GETLK, &lock) < 0) {
    return std::nullopt;
  }
  return lock.l_type != F_UNLCK;
}

namespace {

void* map_at(void* where, std::size_t bytes, int flags, int fd) {
  const long address = ::syscall(SYS_mmap, where, bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_POPULATE | flags, fd, off_t{0});
  return reinterpret_cast<void*>(address);
}

// The sanitizers must see mappings come and go, or they take one address's two lives for one. But
// they must not see the descriptor: ThreadSanitizer would wait for a close() that it can't see.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void unmap_memory(void* address, std::size_t bytes) { ::munmap(address, bytes); }
void* map_memory(std::size_t bytes, int fd) {
  void* const place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED || map_at(place, bytes, MAP_FIXED, fd) != MAP_FAILED) {
    return place;
  }
  const int error = errno;
  unmap_memory(place, bytes);
  errno = error;
  return MAP_FAILED;
}
#else
void unmap_memory(void* address, std::size_t bytes) { call(SYS_munmap, address, bytes); }
void* map_memory(std::size_t bytes, int fd) { return map_at(nullptr, bytes, 0, fd); }
#endif

}  // namespace

Result<SharedMemory, int> SharedMemory::map(int fd, std::size_t bytes) {
  const int saved = errno;
  void* address = map_memory(bytes, fd);
  const int error = errno;
  errno = saved;
  if (address == MAP_FAILED) {
    return std::unexpected(-error);
  }
  SharedMemory memory;
  memory.bytes_ = {static_cast<std::byte*>(address), bytes};
  if (const int result = int_call(SYS_madvise, address, bytes, MADV_DONTFORK); result < 0) {
    return std::unexpected(result);
  }
  return memory;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    reset();
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void SharedMemory::reset() {
  if (!bytes_.empty()) {
    unmap_memory(bytes_.data(), bytes_.size());
    bytes_ = {};
  }
}

Result<Fd, int> unix_datagram_socket() {
  const int fd = int_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

int bind_unix(int fd, const std::string& path) {
  const sockaddr_un address = unix_address(path);
  return int_call(SYS_bind, fd, &address, socklen_t{sizeof(address)});
}

Result<Fd, int> unix_stream_socket() {
  const int fd = int_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

int connect_unix(int fd, const std::string& path) {
  const sockaddr_un address = unix_address(path);
  return int_call(SYS_connect, fd, &address, socklen_t{sizeof(address)});
}

int bind_unix_private(int fd, const std::string& path) {
  // The file gets the socket's own mode.
  constexpr unsigned user_only = 0600;
  if (const int result = int_call(SYS_fchmod, fd, user_only); result < 0) {
    return result;
  }
  return bind_unix(fd, path);
}

int bind_unix_abstract(int fd, const std::string& name) {
  // The zero in front says that it is no path; the length counts.
  const sockaddr_un address = unix_address(std::string(1, '\0') + name);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return int_call(SYS_bind, fd, &address, bytes);
}

int listen(int fd, int backlog) { return int_call(SYS_listen, fd, backlog); }

Result<Fd, int> accept(int fd) {
  const int accepted = int_call(SYS_accept4, fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (accepted < 0) {
    return std::unexpected(accepted);
  }
  return Fd(accepted);
}

int send(int fd, ByteView bytes) {
  return int_call(SYS_sendto, fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL, nullptr,
                  socklen_t{0});
}

int send_to(int fd, ByteView datagram, const std::string& path) {
  const sockaddr_un address = unix_address(path);
  return int_call(SYS_sendto, fd, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                  &address, socklen_t{sizeof(address)});
}

int receive(int fd, MutableBytes datagram) {
  return int_call(SYS_recvfrom, fd, datagram.data(), datagram.size(), MSG_DONTWAIT, nullptr,
                  nullptr);
}

int poll(pollfd* fds, unsigned count, std::optional<Duration> timeout) {
  const timespec limit = to_timespec(timeout.value_or(Duration{0}));
  return int_call(SYS_ppoll, fds, count, timeout ? &limit : nullptr, nullptr, std::size_t{0});
}

void futex_wait(const std::uint32_t* word, std::uint32_t expected,
                std::optional<Duration> timeout) {
  const timespec limit = to_timespec(timeout.value_or(Duration{0}));
  call(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout ? &limit : nullptr, nullptr, 0);
}

void futex_wake_one(const std::uint32_t* word) {
  call(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void futex_wake_all(const std::uint32_t* word) {
  call(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

void yield() { call(SYS_sched_yield); }

void prefer_short_slices(Duration slice) {
  // struct sched_attr of sched_setattr(2), as far as it is used; glibc 2.36 has no declaration.
  struct {
    std::uint32_t size;
    std::uint32_t policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime;
    std::uint64_t deadline;
    std::uint64_t period;
  } attributes{};
  static_assert(sizeof(attributes) == 48);
  call(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0);
  attributes.runtime = static_cast<std::uint64_t>(slice.count());
  call(SYS_sched_setattr, 0, &attributes, 0);
}

void set_timer_slack(Duration slack) { call(SYS_prctl, PR_SET_TIMERSLACK, slack.count(), 0, 0, 0); }

unsigned effective_user_id() { return static_cast<unsigned>(call(SYS_geteuid)); }

int process_id() { return int_call(SYS_getpid); }

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // 8 bytes are never interrupted, and the pool is initialised long before programs run
  // (getrandom(2)).
  VERBENA_CHECK(call(SYS_getrandom, &bits, sizeof(bits), 0) == sizeof(bits));
  return bits;
}

void write_all(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const long written = call(SYS_write, fd, data, bytes);
    if (written == -EINTR) {
      continue;
    }
    if (written <= 0) {
      return;
    }
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

}  // namespace verbena::ports::sys
