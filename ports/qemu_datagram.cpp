#include "ports/qemu_datagram.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "ports/log.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

/// When the other end's queue may have room again.
constexpr Duration full_pause = std::chrono::microseconds(100);

/// Whether a living process has a datagram socket there.
bool is_taken(const std::string& path) {
  const auto probe = sys::unix_datagram_socket();
  return probe && sys::connect_unix(probe->get(), path) == 0;
}

}  // namespace

Result<std::unique_ptr<Link>, std::string> QemuDatagram::open(const std::string& device,
                                                              const LinkPlace& place) {
  std::unique_ptr<QemuDatagram> link(new QemuDatagram(device, place));
  if (auto bound = link->bind(); !bound) {
    return std::unexpected(std::move(bound.error()));
  }
  return link;
}

QemuDatagram::QemuDatagram(std::string device, LinkPlace place)
    : device_(std::move(device)),
      place_(std::move(place)),
      in_(link_frame_bytes_max),
      out_(link_frame_bytes_max) {}

Result<void, std::string> QemuDatagram::bind() {
  if (is_taken(place_.path)) {
    return std::unexpected(
        fmt::format("another program is on the link {}: one can be at a time; end it, or give this "
                    "one a link of its own",
                    place_.to_text()));
  }
  auto socket = sys::unix_datagram_socket();
  int result = socket ? 0 : socket.error();
  if (result == 0) {
    result = remove_stale_socket(place_.path) ? sys::bind_unix_private(socket->get(), place_.path)
                                              : -EADDRINUSE;
  }
  if (result < 0) {
    return std::unexpected(
        fmt::format("can't have a socket at {}: {}; the directory must exist and be yours to "
                    "write, and what is there must be a socket",
                    place_.path, sys::error_text(-result)));
  }
  file_ = SocketFile(place_.path);
  socket_ = LinkSocket(std::move(*socket));
  descriptor_ = socket_.fd();
  return {};
}

void QemuDatagram::begin_batch(Time now) {
  now_ = now;
  if (retry_at_ <= now) {
    retry_at_ = time_never;
  }
}

MutableBytes QemuDatagram::reserve(std::size_t bytes) {
  VERBENA_CHECK(bytes <= out_.size());
  if (!send_waiting()) {
    return {};
  }
  out_bytes_ = bytes;
  return MutableBytes(out_).first(bytes);
}

void QemuDatagram::commit() {
  is_waiting_ = true;
  static_cast<void>(send_waiting());
}

bool QemuDatagram::send_waiting() {
  if (!is_waiting_) {
    return true;
  }
  const int sent = sys::send_to(socket_.fd(), ByteView(out_).first(out_bytes_), place_.remote);
  if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM) {
    counters_.times_blocked += is_full_ ? 0 : 1;
    is_full_ = true;
    retry_at_ = now_ + full_pause;
    return false;
  }
  is_waiting_ = false;
  is_full_ = false;
  counters_.frames_lost += sent < 0 ? 1 : 0;
  if (sent >= 0) {
    told_absent_ = false;
  } else if (!std::exchange(told_absent_, true)) {
    report(fmt::format("{}: nobody takes frames at {}: {}; they are lost until somebody does",
                       device_, place_.remote, sys::error_text(-sent)));
  }
  return true;
}

std::optional<ByteView> QemuDatagram::receive() {
  const int received = sys::receive(socket_.fd(), in_);
  if (received < 0) {
    return std::nullopt;
  }
  return ByteView(in_).first(static_cast<std::size_t>(received));
}

bool QemuDatagram::repair() {
  if (socket_.is_intact()) {
    return false;
  }
  socket_.reset();
  file_.remove();
  if (!bind()) {
    descriptor_ = -1;
  }
  return true;
}

void QemuDatagram::close() {
  file_.forget();
  socket_.reset();
}

}  // namespace verbena::ports
