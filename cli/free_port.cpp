#include "cli/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace verbena::cli {

namespace {

/// Below those that the kernel gives to clients (32768 and more, ip_local_port_range), or else one
/// of them might take it before our program does.
constexpr unsigned port_min = 10000;
constexpr unsigned ports = 10000;
/// So that commands that run side by side begin at different ones.
constexpr unsigned ports_between_processes = 37;

bool is_free(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    throw std::system_error(errno, std::generic_category(), "no TCP socket");
  }
  const bool is_bound =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return is_bound;
}

}  // namespace

std::uint16_t free_port() {
  static unsigned next = static_cast<unsigned>(::getpid()) * ports_between_processes;
  for (unsigned tries = 0; tries < ports; ++tries) {
    const auto port = static_cast<std::uint16_t>(port_min + next++ % ports);
    if (is_free(port)) {
      return port;
    }
  }
  throw std::system_error(EADDRINUSE, std::generic_category(), "no TCP port of 127.0.0.1");
}

}  // namespace verbena::cli
