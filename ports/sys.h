// The system calls of ports/, made directly. Libraries that share the process with us put their own
// functions in the place of the C library's: rsocket's librspreload replaces socket(), bind(),
// read() and close() by ones that call the very library we are, UCX replaces mmap(). A call made
// here reaches the kernel.
//
// All functions return what the kernel returns: a value, or -errno. They leave errno alone.
#pragma once

#include <poll.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace verbena::ports::sys {

/// "No space left on device": what an error number (positive) means.
[[nodiscard]] std::string error_text(int error);

/// A file descriptor that is closed when its owner goes. -1 is none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  void reset();
  /// Gives the descriptor up without closing it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Files. All descriptors are close-on-exec.

[[nodiscard]] Result<Fd, int> open(const std::string& path, int flags, unsigned mode = 0);
[[nodiscard]] int fstat(int fd, struct stat& out);
[[nodiscard]] int lstat(const std::string& path, struct stat& out);
/// Reads up to so many bytes from there; returns how many there were.
[[nodiscard]] long read_at(int fd, MutableBytes out, std::size_t offset);
[[nodiscard]] int mkdir(const std::string& path, unsigned mode);
[[nodiscard]] int unlink(const std::string& path);
/// Gives a file that was opened with O_TMPFILE its name; -EEXIST if the name is taken.
[[nodiscard]] int link_unnamed(int fd, const std::string& path);
/// Sets the size and has the file system set the room aside, so that running out of it is an error
/// here and not a SIGBUS later.
[[nodiscard]] int allocate(int fd, std::uint64_t bytes);

/// Takes the open file description lock on one byte; -EAGAIN if another description holds it.
[[nodiscard]] int try_lock_range(int fd, std::int64_t start, std::int64_t length);
[[nodiscard]] int unlock_range(int fd, std::int64_t start, std::int64_t length);
/// Whether another open file description holds a lock in the range; nullopt if it can't be told.
[[nodiscard]] std::optional<bool> is_range_locked(int fd, std::int64_t start, std::int64_t length);

/// Memory shared with other processes and not with children: a child of fork() doesn't inherit it.
/// The mapping keeps the file open, so `fd` may be closed.
class SharedMemory {
 public:
  SharedMemory() = default;
  [[nodiscard]] static Result<SharedMemory, int> map(int fd, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() { reset(); }

  [[nodiscard]] MutableBytes bytes() const { return bytes_; }
  void reset();

 private:
  MutableBytes bytes_;
};

// UNIX sockets: the doorbell's, and those of links.

[[nodiscard]] Result<Fd, int> unix_datagram_socket();
[[nodiscard]] int bind_unix(int fd, const std::string& path);
/// Sends a datagram without waiting and without SIGPIPE.
[[nodiscard]] int send_to(int fd, ByteView datagram, const std::string& path);
/// Non-blocking, as all that are accepted by it.
[[nodiscard]] Result<Fd, int> unix_stream_socket();
[[nodiscard]] int connect_unix(int fd, const std::string& path);
/// As bind_unix(), so that only this user can reach it.
[[nodiscard]] int bind_unix_private(int fd, const std::string& path);
/// A name without a file, which goes with its socket (unix(7), "abstract").
[[nodiscard]] int bind_unix_abstract(int fd, const std::string& name);
[[nodiscard]] int listen(int fd, int backlog);
[[nodiscard]] Result<Fd, int> accept(int fd);
/// Sends as much of a stream as there is room for, without waiting and without SIGPIPE.
[[nodiscard]] int send(int fd, ByteView bytes);
/// Receives the beginning of one datagram, or of what a stream has, without waiting. Returns how
/// many bytes that are.
[[nodiscard]] int receive(int fd, MutableBytes datagram);
/// sun_path's capacity without the final zero.
inline constexpr std::size_t unix_path_bytes_max = 107;

/// Sleeps until an event, for at most `timeout` (time_never's distance: without limit). Returns the
/// number of ready descriptors.
[[nodiscard]] int poll(pollfd* fds, unsigned count, std::optional<Duration> timeout);

// Futexes of this process.

/// Sleeps while *word == expected, for at most `timeout`. Returns for any reason.
void futex_wait(const std::uint32_t* word, std::uint32_t expected,
                std::optional<Duration> timeout = std::nullopt);
void futex_wake_one(const std::uint32_t* word);
void futex_wake_all(const std::uint32_t* word);

/// Lets another thread have this processor, if one waits for it.
void yield();
/// Asks the scheduler to run the calling thread soon after it wakes, and then only briefly: a short
/// slice in SCHED_OTHER, for which no privilege is needed. Kernels before 6.12 ignore it.
void prefer_short_slices(Duration slice);

/// How much later than asked the kernel may wake the calling thread, to save work; 50 us by
/// default.
void set_timer_slack(Duration slack);

[[nodiscard]] unsigned effective_user_id();
[[nodiscard]] int process_id();
/// 64 random bits from the kernel.
[[nodiscard]] std::uint64_t random_bits();

/// Writes to a descriptor, as often as it takes; errors are ignored. For messages to stderr.
void write_all(int fd, const char* data, std::size_t bytes);

}  // namespace verbena::ports::sys
