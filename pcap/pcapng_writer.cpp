// The file side of the writer: which file, whole batches, no signal.
#include "pcap/pcapng_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "pcap/pcapng_blocks.h"

namespace verbena::pcap {
namespace {

/// How many names are tried when a capture's name is taken.
constexpr int max_names = 1000;

FileError system_error(const std::string& path, const char* what, int error_number) {
  return {.text = path + ": " + what + ": " + std::strerror(error_number),
          .error_number = error_number};
}

/// Keeps SIGPIPE from the program while we write to a pipe. A SIGPIPE that our own write raised
/// waits in this thread and is taken back; one that was waiting before is left alone.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &old_mask_);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

  ~SigpipeGuard() {
    if (!was_pending_) {
      constexpr timespec no_wait{.tv_sec = 0, .tv_nsec = 0};
      while (sigtimedwait(&sigpipe_, nullptr, &no_wait) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  }

 private:
  sigset_t sigpipe_{};
  sigset_t old_mask_{};
  bool was_pending_ = false;
};

/// Writes all bytes; waits when the descriptor is non-blocking and full. 0 or an errno.
int write_all(int fd, ByteView bytes) {
  const SigpipeGuard guard;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// "dir/trace.pcapng", "4711" → "dir/trace.4711.pcapng".
std::string with_infix(const std::string& path, const std::string& infix) {
  const std::size_t name_start = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  std::size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name_start) {
    dot = path.size();
  }
  return path.substr(0, dot) + "." + infix + path.substr(dot);
}

struct OpenedFile {
  int fd = -1;
  bool is_regular = false;
  /// Another writer has it, or an earlier capture is in it.
  bool is_taken = false;
};

Result<OpenedFile, FileError> open_one(const std::string& path) {
  constexpr mode_t owner_only = 0600;
  // Not O_TRUNC: what is in the file is looked at first.
  OpenedFile file{.fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, owner_only)};
  if (file.fd < 0) {
    return std::unexpected(system_error(path, "can't open the capture for writing", errno));
  }
  struct stat status{};
  file.is_regular = ::fstat(file.fd, &status) == 0 && S_ISREG(status.st_mode);
  // /dev/null and terminals are not locked: their writers don't meet.
  const bool may_collide = file.is_regular || S_ISFIFO(status.st_mode);
  file.is_taken = may_collide && ::flock(file.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (file.is_regular && !file.is_taken) {
    // Only after the lock: the writer before us may have just ended.
    file.is_taken = ::fstat(file.fd, &status) != 0 || status.st_size != 0;
  }
  return file;
}

Result<PcapngWriter, FileError> open_stdout(const SectionInfo& section) {
  const int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return std::unexpected(system_error("standard output", "can't write the capture", errno));
  }
  return PcapngWriter::from_fd(fd, "standard output", section);
}

}  // namespace

Result<PcapngWriter, FileError> PcapngWriter::open(const std::string& path,
                                                   const SectionInfo& section) {
  if (path == "-") {
    return open_stdout(section);
  }
  std::string name = path;
  for (int attempt = 1; attempt <= max_names; ++attempt) {
    const Result<OpenedFile, FileError> file = open_one(name);
    if (!file) {
      return std::unexpected(file.error());
    }
    if (!file->is_taken) {
      return PcapngWriter(file->fd, std::move(name), section);
    }
    ::close(file->fd);
    if (!file->is_regular) {
      return std::unexpected(
          FileError{.text = name + ": another process writes its capture to this pipe",
                    .error_number = EBUSY});
    }
    const std::string pid = std::to_string(::getpid());
    name = with_infix(path, attempt == 1 ? pid : pid + "." + std::to_string(attempt));
  }
  return std::unexpected(FileError{.text = path + ": the capture's name is taken, and so are " +
                                           std::to_string(max_names) +
                                           " others made from it; remove old captures",
                                   .error_number = EEXIST});
}

PcapngWriter PcapngWriter::from_fd(int fd, std::string name, const SectionInfo& section) {
  return PcapngWriter(fd, std::move(name), section);
}

PcapngWriter::PcapngWriter(int fd, std::string path, const SectionInfo& section)
    : fd_(fd), path_(std::move(path)) {
  append_section_header(buffer_, section);
}

PcapngWriter::PcapngWriter(PcapngWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      buffer_(std::move(other.buffer_)),
      interface_count_(other.interface_count_),
      error_(std::move(other.error_)) {}

PcapngWriter& PcapngWriter::operator=(PcapngWriter&& other) noexcept {
  if (this != &other) {
    abandon();
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
    buffer_ = std::move(other.buffer_);
    interface_count_ = other.interface_count_;
    error_ = std::move(other.error_);
  }
  return *this;
}

PcapngWriter::~PcapngWriter() { abandon(); }

InterfaceId PcapngWriter::add_interface(const InterfaceInfo& info) {
  append_interface_description(buffer_, info);
  return InterfaceId{interface_count_++};
}

Result<void, FileError> PcapngWriter::write(const Record& record) {
  VERBENA_CHECK(to_value(record.interface) < interface_count_);
  if (fd_ < 0) {
    return std::unexpected(error_);
  }
  append_enhanced_packet(buffer_, record);
  if (buffer_.size() <= flush_threshold_bytes) {
    return {};
  }
  return flush();
}

void PcapngWriter::write_statistics(InterfaceId interface, const InterfaceStatistics& statistics) {
  VERBENA_CHECK(to_value(interface) < interface_count_);
  if (fd_ >= 0) {
    append_interface_statistics(buffer_, interface, statistics);
  }
}

Result<void, FileError> PcapngWriter::flush() {
  if (fd_ < 0) {
    return std::unexpected(error_);
  }
  const int error_number = write_all(fd_, buffer_);
  buffer_.clear();
  if (error_number != 0) {
    error_ = system_error(path_, "can't write the capture", error_number);
    abandon();
    return std::unexpected(error_);
  }
  return {};
}

Result<void, FileError> PcapngWriter::close() {
  if (const auto flushed = flush(); !flushed) {
    return flushed;
  }
  error_ = {.text = path_ + ": the capture is closed", .error_number = EBADF};
  // A network file system tells of a full disk only here.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    error_ = system_error(path_, "can't write the capture", errno);
    return std::unexpected(error_);
  }
  return {};
}

void PcapngWriter::abandon() noexcept {
  buffer_.clear();
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

}  // namespace verbena::pcap
