#include "ports/sys_tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/check.h"
#include "ports/sys_call.h"

namespace verbena::ports::sys {

namespace {

constexpr const char* device_path = "/dev/net/tun";

ifreq request_for(const std::string& interface) {
  VERBENA_CHECK(interface.size() < IFNAMSIZ);
  ifreq request{};
  std::ranges::copy(interface, request.ifr_name);
  return request;
}

}  // namespace

Result<Fd, int> tap(const std::string& interface) {
  auto fd = open(device_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (!fd) {
    return fd;
  }
  ifreq request = request_for(interface);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  const int result = int_call(SYS_ioctl, fd->get(), TUNSETIFF, &request);
  return result < 0 ? Result<Fd, int>(std::unexpected(result)) : std::move(fd);
}

int read_frame(int fd, MutableBytes room) {
  return int_call(SYS_read, fd, room.data(), room.size());
}

int write_frame(int fd, ByteView frame) {
  return int_call(SYS_write, fd, frame.data(), frame.size());
}

bool is_interface_up(const std::string& interface) {
  const Fd socket(int_call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_for(interface);
  return socket && int_call(SYS_ioctl, socket.get(), SIOCGIFFLAGS, &request) >= 0 &&
         (request.ifr_flags & IFF_UP) != 0;
}

}  // namespace verbena::ports::sys
