#include "ports/link.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "ports/qemu_datagram.h"
#include "ports/qemu_stream.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

constexpr std::string_view stream_prefix = "qemu:";
constexpr std::string_view datagram_prefix = "qemu-dgram:";

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
  const std::size_t comma = text.find(',');
  if (!text.starts_with(datagram_prefix) || comma == std::string_view::npos) {
    return std::unexpected(
        fmt::format("\"{}\" is no link: write qemu:PATH for QEMU's -netdev stream, or "
                    "qemu-dgram:LOCAL,REMOTE for its -netdev dgram, with paths of UNIX sockets",
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
  return kind == Kind::qemu_stream ? fmt::format("{}{}", stream_prefix, path)
                                   : fmt::format("{}{},{}", datagram_prefix, path, remote);
}

Result<std::unique_ptr<Link>, std::string> Link::open(const std::string& device,
                                                      const LinkPlace& place) {
  return place.kind == LinkPlace::Kind::qemu_stream ? QemuStream::open(device, place)
                                                    : QemuDatagram::open(device, place);
}

}  // namespace verbena::ports
