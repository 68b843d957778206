#include "ports/link.h"

#include <fmt/format.h>
#include <net/if.h>

#include <filesystem>
#include <system_error>

#include "ports/qemu_datagram.h"
#include "ports/qemu_stream.h"
#include "ports/sys.h"
#include "ports/tap_link.h"

namespace verbena::ports {

namespace {

constexpr std::string_view stream_prefix = "qemu:";
constexpr std::string_view datagram_prefix = "qemu-dgram:";
constexpr std::string_view tap_prefix = "tap:";

/// An absolute path that a UNIX socket can have.
Result<std::string, std::string> socket_path(std::string_view text) {
  std::error_code error;
  std::string path = std::filesystem::absolute(text, error).string();
  if (text.empty() || error || text.back() == '/' || path.size() > sys::unix_path_bytes_max) {
    return std::unexpected(
        fmt::format("\"{}\" is no name for a UNIX socket, which has at most {} "
                    "characters with its directories",
                    text, sys::unix_path_bytes_max));
  }
  return path;
}

}  // namespace

Result<LinkPlace, std::string> LinkPlace::from_text(std::string_view text) {
  if (text.starts_with(stream_prefix)) {
    auto path = socket_path(text.substr(stream_prefix.size()));
    if (!path) {
      return std::unexpected(std::move(path.error()));
    }
    return LinkPlace{.kind = Kind::qemu_stream, .path = std::move(*path), .remote = {}};
  }
  if (text.starts_with(tap_prefix)) {
    const std::string name(text.substr(tap_prefix.size()));
    // dev_valid_name() of the kernel's net/core/dev.c.
    const bool is_name = !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
                         name.find_first_of("/: \t\n") == std::string::npos;
    if (!is_name) {
      return std::unexpected(fmt::format("\"{}\" is no name for a network interface", name));
    }
    return LinkPlace{.kind = Kind::tap, .path = name, .remote = {}};
  }
  const std::size_t comma = text.find(',');
  if (!text.starts_with(datagram_prefix) || comma == std::string_view::npos) {
    return std::unexpected(
        fmt::format("\"{}\" is no link: write qemu:PATH for QEMU's -netdev stream, or "
                    "qemu-dgram:LOCAL,REMOTE for its -netdev dgram, with paths of UNIX sockets, or "
                    "tap:NAME for a TAP interface of this host",
                    text));
  }
  auto local = socket_path(text.substr(datagram_prefix.size(), comma - datagram_prefix.size()));
  auto remote = socket_path(text.substr(comma + 1));
  for (const auto* path : {&local, &remote}) {
    if (!*path) {
      return std::unexpected(path->error());
    }
  }
  if (*local == *remote) {
    return std::unexpected(
        fmt::format("both ends of a link can't be the socket {}: LOCAL is ours, REMOTE is QEMU's "
                    "local.path",
                    *local));
  }
  return LinkPlace{
      .kind = Kind::qemu_datagram, .path = std::move(*local), .remote = std::move(*remote)};
}

std::string LinkPlace::to_text() const {
  switch (kind) {
    case Kind::qemu_stream:
      return fmt::format("{}{}", stream_prefix, path);
    case Kind::qemu_datagram:
      return fmt::format("{}{},{}", datagram_prefix, path, remote);
    case Kind::tap:
      return fmt::format("{}{}", tap_prefix, path);
  }
  return {};
}

Result<std::unique_ptr<Link>, std::string> Link::open(const std::string& device,
                                                      const LinkPlace& place) {
  switch (place.kind) {
    case LinkPlace::Kind::qemu_stream:
      return QemuStream::open(device, place);
    case LinkPlace::Kind::qemu_datagram:
      return QemuDatagram::open(device, place);
    case LinkPlace::Kind::tap:
      break;
  }
  return TapLink::open(device, place);
}

}  // namespace verbena::ports
