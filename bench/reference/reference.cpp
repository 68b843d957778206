// What this machine can do without an RDMA NIC, for comparison: moving bytes in memory, and moving
// UDP datagrams in batches that the kernel cuts and joins (GSO, GRO), which is all that
// the UDP port has to work with. Each prints one number, bytes per second.
//
//   reference memcpy BYTES SECONDS             copies a buffer of this size again and again
//   reference udp-receive ADDRESS PORT         until nothing more comes
//   reference udp-send ADDRESS PORT SEGMENT_BYTES SECONDS
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// What an IPv4 packet can hold of UDP payload.
constexpr std::size_t udp_batch_bytes_max = 65'507;
/// As ports/udp_socket.cpp.
constexpr int receive_buffer_bytes = 8 << 20;
constexpr int send_buffer_bytes = 2 << 20;
/// A receiver ends after this much silence.
constexpr timeval silence{.tv_sec = 0, .tv_usec = 300'000};

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double memcpy_rate(std::size_t bytes, double seconds) {
  std::vector<char> from(bytes, 'x');
  std::vector<char> to(bytes);
  const auto start = Clock::now();
  double copied = 0;
  while (seconds_since(start) < seconds) {
    constexpr int copies_per_look = 64;
    for (int i = 0; i < copies_per_look; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // The copy must happen each time.
    }
    copied += copies_per_look * static_cast<double>(bytes);
  }
  return copied / seconds_since(start);
}

class UdpSocket {
 public:
  UdpSocket() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) {
      fail("socket");
    }
    set(IPPROTO_IP, IP_MTU_DISCOVER, int{IP_PMTUDISC_DO});
    set(SOL_SOCKET, SO_RCVBUF, receive_buffer_bytes);
    set(SOL_SOCKET, SO_SNDBUF, send_buffer_bytes);
  }
  ~UdpSocket() { ::close(fd_); }
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  template <class T>
  void set(int level, int name, const T& value) {
    if (::setsockopt(fd_, level, name, &value, sizeof(value)) != 0) {
      fail("setsockopt");
    }
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in address_of(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10)));
  if (::inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    errno = EINVAL;
    fail(host);
  }
  return address;
}

double udp_receive_rate(const sockaddr_in& address) {
  UdpSocket socket;
  socket.set(IPPROTO_UDP, UDP_GRO, 1);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail("bind");
  }
  std::puts("ready");
  std::fflush(stdout);
  std::vector<char> buffer(std::size_t{1} << 16);
  // The first datagram is waited for as long as it takes.
  if (::recv(socket.fd(), buffer.data(), buffer.size(), 0) < 0) {
    fail("recv");
  }
  socket.set(SOL_SOCKET, SO_RCVTIMEO, silence);
  const auto start = Clock::now();
  auto last = start;
  double bytes = 0;
  for (;;) {
    const ssize_t got = ::recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (got < 0) {
      break;
    }
    bytes += static_cast<double>(got);
    last = Clock::now();
  }
  return bytes / std::chrono::duration<double>(last - start).count();
}

double udp_send_rate(const sockaddr_in& address, std::size_t segment_bytes, double seconds) {
  UdpSocket socket;
  socket.set(IPPROTO_UDP, UDP_SEGMENT, static_cast<int>(segment_bytes));
  const std::vector<char> batch(udp_batch_bytes_max / segment_bytes * segment_bytes, 'x');
  const auto start = Clock::now();
  double bytes = 0;
  while (seconds_since(start) < seconds) {
    const ssize_t sent = ::sendto(socket.fd(), batch.data(), batch.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    if (sent < 0) {
      fail("sendto");
    }
    bytes += static_cast<double>(sent);
  }
  return bytes / seconds_since(start);
}

double run(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "memcpy" && argc == 4) {
    return memcpy_rate(std::strtoul(argv[2], nullptr, 10), std::strtod(argv[3], nullptr));
  }
  if (what == "udp-receive" && argc == 4) {
    return udp_receive_rate(address_of(argv[2], argv[3]));
  }
  if (what == "udp-send" && argc == 6) {
    return udp_send_rate(address_of(argv[2], argv[3]), std::strtoul(argv[4], nullptr, 10),
                         std::strtod(argv[5], nullptr));
  }
  errno = EINVAL;
  fail("reference memcpy | udp-receive | udp-send");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::printf("%.0f\n", run(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reference: %s\n", error.what());
    return 1;
  }
}
