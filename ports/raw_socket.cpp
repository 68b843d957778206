#include "ports/raw_socket.h"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <array>
#include <span>
#include <utility>

#include "ports/sys_net.h"
#include "proto/inet/headers.h"
#include "proto/roce/encap.h"

namespace verbena::ports {

namespace {

/// Frames of any size that the kernel may give; 64 KiB where an interface joins what arrives.
constexpr int snapshot_bytes = 65535 + 18;
/// What may arrive before anybody looks.
constexpr int receive_buffer_bytes = 8 << 20;

std::string filter_of(std::optional<std::uint16_t> vlan) {
  const std::string roce = fmt::format("(ether proto {:#06x} or udp dst port {})",
                                       inet::ethertype_roce_v1, roce::udp_port);
  // A tag without a VLAN tells a priority only, and counts as none (IEEE 802.1Q, 9.6).
  return vlan ? fmt::format("vlan {} and {}", *vlan, roce)
              : fmt::format("{} or (vlan 0 and {})", roce, roce);
}

std::string advice(const std::string& interface, pcap* handle, int status) {
  switch (status) {
    case PCAP_ERROR_PERM_DENIED:
      return fmt::format(
          "raw Ethernet on {} needs the capability CAP_NET_RAW, which this program has not: run it "
          "as root, or with `setpriv --inh-caps=+net_raw --ambient-caps=+net_raw`; RoCE v2 over "
          "UDP "
          "needs none (--interface {})",
          interface, interface);
    case PCAP_ERROR_NO_SUCH_DEVICE:
      return fmt::format("there is no interface {} any more", interface);
    case PCAP_ERROR_IFACE_NOT_UP:
      return fmt::format("the interface {} is down: `ip link set {} up`", interface, interface);
    default:
      return fmt::format("can't open {} for raw Ethernet: {}", interface, pcap_geterr(handle));
  }
}

/// An error, or a negative number of libpcap's.
int prepare(pcap* handle, const std::string& filter) {
  // In immediate mode frames come when they are there, and not when a buffer is full.
  pcap_set_snaplen(handle, snapshot_bytes);
  pcap_set_promisc(handle, 0);
  pcap_set_immediate_mode(handle, 1);
  pcap_set_buffer_size(handle, receive_buffer_bytes);
  // Warnings are positive.
  if (const int status = pcap_activate(handle); status < 0) {
    return status;
  }
  std::array<char, PCAP_ERRBUF_SIZE> unused{};
  if (pcap_datalink(handle) != DLT_EN10MB || pcap_setnonblock(handle, 1, unused.data()) != 0 ||
      pcap_setdirection(handle, PCAP_D_IN) != 0) {
    return PCAP_ERROR;
  }
  bpf_program program{};
  if (pcap_compile(handle, &program, filter.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    return PCAP_ERROR;
  }
  const int status = pcap_setfilter(handle, &program);
  pcap_freecode(&program);
  return status;
}

}  // namespace

void RawSocket::Closer::operator()(::pcap* handle) const { pcap_close(handle); }

Result<RawSocket, std::string> RawSocket::open(const std::string& interface,
                                               std::optional<std::uint16_t> vlan) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  Handle handle(pcap_create(interface.c_str(), error.data()));
  if (!handle) {
    return std::unexpected(
        fmt::format("can't open {} for raw Ethernet: {}", interface, error.data()));
  }
  if (const int status = prepare(handle.get(), filter_of(vlan)); status < 0) {
    return std::unexpected(advice(interface, handle.get(), status));
  }
  return RawSocket(std::move(handle));
}

RawSocket::RawSocket(Handle handle)
    : handle_(std::move(handle)),
      fd_(pcap_get_selectable_fd(handle_.get())),
      inode_(sys::socket_inode(fd_)) {}

int RawSocket::send(ByteView frame) const {
  // As pcap_inject() does, which would hide the kernel's answer in a text.
  return sys::send_frame(fd_, frame);
}

ByteView RawSocket::receive() const {
  if (!handle_) {
    return {};
  }
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  if (pcap_next_ex(handle_.get(), &header, &bytes) != 1) {
    return {};
  }
  return std::as_bytes(std::span(bytes, header->caplen));
}

int RawSocket::set_group(const inet::MacAddress& mac, bool wanted) const {
  return sys::set_ethernet_group(fd_, mac, wanted);
}

bool RawSocket::is_intact() const { return sys::socket_inode(fd_) == inode_; }

void RawSocket::abandon() {
  static_cast<void>(handle_.release());
  fd_ = -1;
}

void RawSocket::close() {
  // The ring is shared with the parent: it is left as it is.
  sys::Fd(fd_).reset();
  abandon();
}

}  // namespace verbena::ports
