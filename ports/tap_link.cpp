#include "ports/tap_link.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "ports/sys_net.h"
#include "ports/sys_tap.h"

namespace verbena::ports {

namespace {

/// How often it is looked whether an interface is up again.
constexpr Duration look_interval = std::chrono::milliseconds(100);

/// What to do about it.
std::string sentence_of(int error, const std::string& interface) {
  switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return "this host has no /dev/net/tun; load the kernel's module tun (modprobe tun), or give "
             "the container this device";
    case EACCES:
      return "/dev/net/tun may not be opened by this user";
    case EPERM:
      return fmt::format(
          "it belongs to another user; as root: ip link del {0}; ip tuntap add dev {0} mode tap "
          "user {1}",
          interface, sys::effective_user_id());
    case EBUSY:
      return "another program is on it: one can be at a time; end it, or give this one an "
             "interface "
             "of its own";
    case EINVAL:
      return "it is no TAP interface, or one of several queues";
    default:
      return sys::error_text(error);
  }
}

/// The interface's end is still what is behind the descriptor.
bool is_character_device(int fd) {
  struct stat status{};
  return sys::fstat(fd, status) >= 0 && S_ISCHR(status.st_mode);
}

}  // namespace

Result<std::unique_ptr<Link>, std::string> TapLink::open(const std::string& /*device*/,
                                                         const LinkPlace& place) {
  // Else the kernel would make one, without address and not up, that goes with the program.
  if (!sys::interface_mtu(place.path)) {
    return std::unexpected(fmt::format(
        "there is no interface {0}; as root: ip tuntap add dev {0} mode tap user {1}; ip addr add "
        "10.7.0.2/24 dev {0}; ip link set {0} up (with the kernel's address in the subnet of "
        "yours)",
        place.path, sys::effective_user_id()));
  }
  auto tap = sys::tap(place.path);
  if (!tap) {
    return std::unexpected(fmt::format("can't use the interface {}: {}", place.path,
                                       sentence_of(-tap.error(), place.path)));
  }
  return std::unique_ptr<Link>(new TapLink(place.path, std::move(*tap)));
}

TapLink::TapLink(std::string interface, sys::Fd tap)
    : interface_(std::move(interface)),
      tap_(std::move(tap)),
      descriptor_(tap_.get()),
      in_(link_frame_bytes_max),
      out_(link_frame_bytes_max) {
  look_whether_up();
}

void TapLink::look_whether_up() {
  // As in open(): the kernel would make one that isn't there.
  if (is_gone_ && sys::interface_mtu(interface_)) {
    if (auto fresh = sys::tap(interface_)) {
      tap_ = std::move(*fresh);
      descriptor_ = tap_.get();
      is_gone_ = false;
    }
  }
  is_up_ = tap_ && !is_gone_ && sys::is_interface_up(interface_);
  look_again_at_ = is_up_ ? time_never : now_ + look_interval;
  if (!is_up_) {
    why_down_ = is_gone_ ? std::string("the interface was removed")
                         : fmt::format("the interface is down: ip link set {} up", interface_);
  }
}

/// -EBADFD: there is no interface behind the descriptor any more, and it would always be ready.
void TapLink::note_error(int error) {
  is_gone_ = is_gone_ || error == -EBADFD;
  look_whether_up();
}

void TapLink::begin_batch(Time now) {
  now_ = now;
  if (look_again_at_ <= now) {
    look_whether_up();
  }
}

MutableBytes TapLink::reserve(std::size_t bytes) {
  VERBENA_CHECK(bytes <= out_.size());
  out_bytes_ = bytes;
  return MutableBytes(out_).first(bytes);
}

void TapLink::commit() {
  const int written = sys::write_frame(tap_.get(), ByteView(out_).first(out_bytes_));
  if (written < 0) {
    ++counters_.frames_lost;
    note_error(written);
  }
}

std::optional<ByteView> TapLink::receive() {
  const int received = is_up_ ? sys::read_frame(tap_.get(), in_) : -EAGAIN;
  if (received < 0) {
    if (received != -EAGAIN && received != -EINTR) {
      note_error(received);
    }
    return std::nullopt;
  }
  return ByteView(in_).first(static_cast<std::size_t>(received));
}

bool TapLink::repair() {
  if (!tap_ || is_character_device(descriptor_)) {
    return false;
  }
  // The number may be somebody else's by now.
  static_cast<void>(tap_.release());
  if (auto fresh = sys::tap(interface_)) {
    tap_ = std::move(*fresh);
  }
  descriptor_ = tap_.get();
  look_whether_up();
  return true;
}

}  // namespace verbena::ports
