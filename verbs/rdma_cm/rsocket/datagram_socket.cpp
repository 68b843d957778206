#include "verbs/rdma_cm/rsocket/datagram_socket.h"

#include <rdma/rsocket.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/rsocket/memory.h"
#include "verbs/rdma_cm/rsocket/poll.h"

namespace verbena::rsocket {

namespace {

/// What a datagram may have, its header included (rdma-core's RS_SNDLOWAT).
constexpr std::size_t datagram_bytes_max = 2048;
constexpr std::size_t grh_bytes = 40;
constexpr std::size_t receive_bytes = grh_bytes + datagram_bytes_max;
constexpr std::uint32_t receives = 384;
constexpr std::uint32_t sends = 128;
/// What nobody fetches is lost, as with UDP.
constexpr std::size_t inbox_max = 1024;
/// Addresses that are remembered; more come from somebody who makes them up.
constexpr std::size_t peers_max = 4096;
constexpr std::uint64_t wr_send = std::uint64_t{1} << 32;

const sockaddr& plain(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr&>(address);
}
sockaddr& plain(sockaddr_storage& address) { return reinterpret_cast<sockaddr&>(address); }

bool is_v4(const sockaddr& address) { return address.sa_family == AF_INET; }

/// For some event, or a while.
Result<int, Errno> wait_for(pollfd& entry, const Patience& patience) {
  constexpr Patience::Milliseconds wait_max = std::chrono::hours(1);
  return rsocket::poll(std::span(&entry, 1), static_cast<int>(patience.left(wait_max).count()));
}

/// The address proper, in network byte order: 4 or 16 bytes.
std::span<const std::byte> address_bytes(const sockaddr& address) {
  if (is_v4(address)) {
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, 1));
  }
  return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 1));
}

}  // namespace

// --- The queue pair

Result<std::unique_ptr<DatagramQp>, Errno> DatagramQp::create(const sockaddr& local) {
  std::unique_ptr<DatagramQp> made(new DatagramQp);
  if (const Errno error = made->open(local)) {
    return std::unexpected(error);
  }
  return made;
}

Errno DatagramQp::open(const sockaddr& local) {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) {
    return errno;
  }
  sockaddr_storage from{};
  rdma_cm::copy_address(from, local);
  rdma_cm::set_port(plain(from), 0);
  if (rdma_create_id(channel_, &id_, nullptr, RDMA_PS_UDP) != 0 ||
      rdma_bind_addr(id_, &plain(from)) != 0) {
    return errno;
  }
  bytes_max_ = std::min<std::size_t>(datagram_bytes_max,
                                     std::size_t{128} << rdma_cm::CmId::of(id_).path.mtu);
  completions_ = ibv_create_comp_channel(id_->verbs);
  cq_ = completions_ == nullptr
            ? nullptr
            : ibv_create_cq(id_->verbs, receives + sends, nullptr, completions_, 0);
  if (cq_ == nullptr) {
    return errno;
  }
  ibv_qp_init_attr attr{};
  attr.send_cq = cq_;
  attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_UD;
  attr.sq_sig_all = 1;
  attr.cap = {.max_send_wr = sends,
              .max_recv_wr = receives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  if (rdma_create_qp(id_, nullptr, &attr) != 0) {
    return errno;
  }
  memory_.resize(receives * receive_bytes + sends * datagram_bytes_max);
  mr_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (mr_ == nullptr) {
    return errno;
  }
  for (std::uint64_t i = 0; i < receives; ++i) {
    post_receive(i);
  }
  free_sends_.resize(sends);
  std::iota(free_sends_.begin(), free_sends_.end(), 0);
  return 0;
}

DatagramQp::~DatagramQp() {
  if (id_ != nullptr && id_->qp != nullptr) {
    rdma_destroy_qp(id_);
  }
  if (mr_ != nullptr) {
    ibv_dereg_mr(mr_);
  }
  if (cq_ != nullptr) {
    ibv_destroy_cq(cq_);
  }
  if (completions_ != nullptr) {
    ibv_destroy_comp_channel(completions_);
  }
  if (id_ != nullptr) {
    rdma_destroy_id(id_);
  }
  if (channel_ != nullptr) {
    rdma_destroy_event_channel(channel_);
  }
}

void DatagramQp::post_receive(std::uint64_t index) {
  ibv_sge sge{.addr = address_of(&memory_[index * receive_bytes]),
              .length = receive_bytes,
              .lkey = mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ibv_post_recv(id_->qp, &wr, &bad);
}

ibv_ah* DatagramQp::create_ah(const sockaddr& to) {
  const Gid remote = rdma_cm::remote_from(rdma_cm::CmId::of(id_), to);
  ibv_ah_attr attr{};
  std::memcpy(attr.grh.dgid.raw, remote.bytes.data(), remote.bytes.size());
  attr.grh.sgid_index = rdma_cm::CmId::of(id_).path.gid_index;
  attr.grh.hop_limit = rdma_cm::CmId::of(id_).path.hop_limit;
  attr.is_global = 1;
  attr.port_num = id_->port_num;
  return ibv_create_ah(id_->pd, &attr);
}

Errno DatagramQp::send(ibv_ah* ah, std::uint32_t qpn, const DatagramHeader& header,
                       std::span<const iovec> parts) {
  if (free_sends_.empty()) {
    return EAGAIN;
  }
  const std::uint64_t index = free_sends_.back();
  std::byte* const start = &memory_[receives * receive_bytes + index * datagram_bytes_max];
  std::memcpy(start, &header, header.length);
  std::byte* end = start + header.length;
  for (const iovec& part : parts) {
    std::memcpy(end, part.iov_base, part.iov_len);
    end += part.iov_len;
  }
  ibv_sge sge{.addr = address_of(start),
              .length = static_cast<std::uint32_t>(end - start),
              .lkey = mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = wr_send | index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = qpn;
  wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &wr, &bad)) {
    return error;
  }
  free_sends_.pop_back();
  return 0;
}

template <class Handler>
void DatagramQp::receive(Handler&& handler) {
  ibv_wc wc{};
  while (ibv_poll_cq(cq_, 1, &wc) > 0) {
    if ((wc.wr_id & wr_send) != 0) {
      free_sends_.push_back(wc.wr_id & ~wr_send);
      continue;
    }
    if (wc.status == IBV_WC_SUCCESS && wc.byte_len >= grh_bytes) {
      handler(Arrived(&memory_[wc.wr_id * receive_bytes + grh_bytes], wc.byte_len - grh_bytes));
    }
    if (wc.status == IBV_WC_SUCCESS) {
      post_receive(wc.wr_id);
    }
  }
}

void DatagramQp::disarm() {
  std::array<pollfd, 1> look{{{.fd = fd(), .events = POLLIN, .revents = 0}}};
  if (kernel::poll(look, 0) != 0 || look[0].revents == 0) {
    return;
  }
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completions_, &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
  }
}

// --- The socket

Result<SocketPtr, Errno> DatagramSocket::create(int domain) {
  std::shared_ptr<DatagramSocket> made(new DatagramSocket);
  if (const Errno error = made->udp_.open(domain)) {
    return std::unexpected(error);
  }
  return made;
}

DatagramSocket::~DatagramSocket() {
  for (const auto& [key, peer] : peers_) {
    if (peer.ah != nullptr) {
      ibv_destroy_ah(peer.ah);
    }
  }
}

Errno DatagramSocket::bind(const sockaddr& address, socklen_t length) {
  return udp_.bind(address, length);
}

Errno DatagramSocket::connect(const sockaddr& address, socklen_t length) {
  const std::lock_guard guard(mutex_);
  if (const Errno error = udp_.connect(address, length)) {
    return error;
  }
  connected_ = std::make_unique<sockaddr_storage>();
  rdma_cm::copy_address(*connected_, address);
  return 0;
}

Errno DatagramSocket::shutdown(int) {
  sockaddr_storage peer{};
  return udp_.peer(peer);
}

Result<DatagramSocket::Peer*, Errno> DatagramSocket::peer_of(const sockaddr& address) {
  const Key key{rdma_cm::gid_of(address), rdma_cm::port_of(address)};
  if (const auto known = peers_.find(key); known != peers_.end()) {
    return &known->second;
  }
  if (peers_.size() >= peers_max) {
    return std::unexpected(ENOBUFS);
  }
  sockaddr_storage name{};
  static_cast<void>(udp_.name(name));
  Peer peer;
  rdma_cm::copy_address(peer.address, address);
  if (rdma_cm::is_known_family(plain(name)) && !rdma_cm::is_any(plain(name))) {
    peer.local = rdma_cm::gid_of(plain(name));
  } else if (const auto from = rdma_cm::source_for(address)) {
    peer.local = *from;
  } else {
    return std::unexpected(EHOSTUNREACH);
  }
  auto place = qps_.find(peer.local);
  if (place == qps_.end()) {
    sockaddr_storage local{};
    rdma_cm::write_address(local, peer.local, is_v4(address), 0);
    auto qp = DatagramQp::create(plain(local));
    if (!qp) {
      return std::unexpected(qp.error());
    }
    place = qps_.emplace(peer.local, std::move(*qp)).first;
  }
  peer.qp = place->second.get();
  return &peers_.emplace(key, peer).first->second;
}

// --- Receiving

void DatagramSocket::take_all() {
  take_from_udp();
  for (const auto& [local, qp] : qps_) {
    qp->receive([&](DatagramQp::Arrived bytes) { on_datagram(bytes); });
  }
}

void DatagramSocket::take_from_udp() {
  std::array<std::byte, sizeof(UdpHeader) + datagram_bytes_max> bytes;
  for (;;) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const auto received = udp_.receive(bytes, plain(from), length);
    if (!received) {
      return;
    }
    on_udp(std::span(bytes).first(*received), plain(from));
  }
}

void DatagramSocket::on_udp(std::span<const std::byte> bytes, const sockaddr& from) {
  UdpHeader header;
  const bool v4 = is_v4(from);
  const std::size_t length = v4 ? udp_header_bytes_v4 : udp_header_bytes_v6;
  if (bytes.size() < length) {
    return;
  }
  std::memcpy(&header, bytes.data(), length);
  if (header.tag.value() != UdpHeader::marker || header.version != (v4 ? 4 : 6) ||
      header.length != length) {
    return;
  }
  const auto peer = peer_of(from);
  if (!peer) {
    return;
  }
  constexpr std::uint32_t qpn_mask = 0xFF'FFFF;
  const std::uint32_t qpn = header.qpn.value() & qpn_mask;
  if ((*peer)->ah == nullptr) {
    // Where its GIDs are is where it is: the address of this datagram.
    (*peer)->ah = (*peer)->qp->create_ah(from);
  }
  (*peer)->qpn = qpn;
  if (header.operation == static_cast<std::uint8_t>(Operation::data)) {
    static_cast<void>(send_by_udp(**peer, Operation::control, {}));
    deliver(from, bytes.subspan(length));
  }
}

void DatagramSocket::on_datagram(std::span<const std::byte> bytes) {
  DatagramHeader header;
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  const bool v4 = header.version == 4;
  const std::size_t length = v4 ? datagram_header_bytes_v4 : datagram_header_bytes_v6;
  if ((!v4 && header.version != 6) || header.length != length || bytes.size() < length) {
    return;
  }
  sockaddr_storage from{};
  if (v4) {
    auto& sin = reinterpret_cast<sockaddr_in&>(from);
    sin.sin_family = AF_INET;
    std::memcpy(&sin.sin_addr, header.address.data(), sizeof sin.sin_addr);
  } else {
    auto& sin6 = reinterpret_cast<sockaddr_in6&>(from);
    sin6.sin6_family = AF_INET6;
    std::memcpy(&sin6.sin6_addr, header.address.data() + sizeof sin6.sin6_flowinfo,
                sizeof sin6.sin6_addr);
  }
  rdma_cm::set_port(plain(from), header.port.value());
  deliver(plain(from), bytes.subspan(length));
}

void DatagramSocket::deliver(const sockaddr& from, std::span<const std::byte> bytes) {
  if (inbox_.size() < inbox_max) {
    Datagram& datagram = inbox_.emplace_back();
    rdma_cm::copy_address(datagram.from, from);
    datagram.bytes.assign(bytes.begin(), bytes.end());
  }
}

Result<std::size_t, Errno> DatagramSocket::receive(std::span<const iovec> parts, int flags,
                                                   const Address& from) {
  const Patience patience = patience_to_receive(flags);
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      take_all();
      if (!inbox_.empty()) {
        const Datagram& datagram = inbox_.front();
        std::span<const std::byte> left(datagram.bytes);
        for (const iovec& part : parts) {
          const auto piece = left.first(std::min(left.size(), part.iov_len));
          std::ranges::copy(piece, static_cast<std::byte*>(part.iov_base));
          left = left.subspan(piece.size());
        }
        const std::size_t length = datagram.bytes.size() - left.size();
        if (from.address != nullptr && from.length != nullptr) {
          const socklen_t full = rdma_cm::length_of(plain(datagram.from));
          std::memcpy(from.address, &datagram.from, std::min(*from.length, full));
          *from.length = full;
        }
        if ((flags & MSG_PEEK) == 0) {
          inbox_.pop_front();
        }
        return length;
      }
    }
    if (patience.is_over()) {
      return std::unexpected(EAGAIN);
    }
    pollfd wait{.fd = number(), .events = POLLIN, .revents = 0};
    if (const auto waited = wait_for(wait, patience); !waited) {
      return std::unexpected(waited.error());
    }
  }
}

// --- Sending

DatagramHeader DatagramSocket::header_for(const Peer& peer) const {
  sockaddr_storage name{};
  static_cast<void>(udp_.name(name));
  const bool v4 = is_v4(plain(peer.address));
  sockaddr_storage own{};
  rdma_cm::write_address(own, peer.local, v4, 0);
  DatagramHeader header;
  header.version = v4 ? 4 : 6;
  header.length = v4 ? datagram_header_bytes_v4 : datagram_header_bytes_v6;
  header.port = rdma_cm::port_of(plain(name));
  std::ranges::copy(address_bytes(plain(own)),
                    header.address.begin() + (v4 ? 0 : sizeof(std::uint32_t)));
  return header;
}

Result<std::size_t, Errno> DatagramSocket::send_by_udp(const Peer& peer, Operation operation,
                                                       std::span<const iovec> parts) {
  const bool v4 = is_v4(plain(peer.address));
  sockaddr_storage own{};
  rdma_cm::write_address(own, peer.local, v4, 0);
  UdpHeader header;
  header.tag = UdpHeader::marker;
  header.version = v4 ? 4 : 6;
  header.operation = static_cast<std::uint8_t>(operation);
  header.length = v4 ? udp_header_bytes_v4 : udp_header_bytes_v6;
  header.qpn = peer.qp->qpn();
  std::ranges::copy(address_bytes(plain(own)), header.address.begin());
  std::vector<iovec> all{{.iov_base = &header, .iov_len = header.length}};
  all.insert(all.end(), parts.begin(), parts.end());
  const auto sent = udp_.send(all, plain(peer.address), rdma_cm::length_of(plain(peer.address)));
  return sent ? Result<std::size_t, Errno>(*sent - header.length) : sent;
}

Result<std::size_t, Errno> DatagramSocket::send(std::span<const iovec> parts, int flags,
                                                const sockaddr* to, socklen_t /*length*/) {
  const std::size_t total = total_of(parts);
  const Patience patience = patience_to_send(flags);
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      const sockaddr* address = to != nullptr ? to : (connected_ ? &plain(*connected_) : nullptr);
      if (address == nullptr) {
        return std::unexpected(EDESTADDRREQ);
      }
      if (!rdma_cm::is_known_family(*address)) {
        return std::unexpected(EAFNOSUPPORT);
      }
      take_all();
      const auto peer = peer_of(*address);
      if (!peer) {
        return std::unexpected(peer.error());
      }
      const DatagramHeader header = header_for(**peer);
      if (total > datagram_bytes_max - header.length) {
        return std::unexpected(EMSGSIZE);
      }
      if ((*peer)->ah == nullptr || total + header.length > (*peer)->qp->bytes_max()) {
        return send_by_udp(**peer, Operation::data, parts);
      }
      const Errno error = (*peer)->qp->send((*peer)->ah, (*peer)->qpn, header, parts);
      if (error != EAGAIN || patience.is_over()) {
        return error == 0 ? Result<std::size_t, Errno>(total) : std::unexpected(error);
      }
    }
    pollfd wait{.fd = number(), .events = POLLOUT, .revents = 0};
    if (const auto waited = wait_for(wait, patience); !waited) {
      return std::unexpected(waited.error());
    }
  }
}

// --- Waiting, options

short DatagramSocket::ready() {
  const std::lock_guard guard(mutex_);
  take_all();
  const bool has_room =
      std::ranges::all_of(qps_, [](const auto& each) { return each.second->has_send_room(); });
  return static_cast<short>((inbox_.empty() ? 0 : POLLIN) | (has_room ? POLLOUT : 0));
}

void DatagramSocket::watch(std::vector<pollfd>& list) {
  const std::lock_guard guard(mutex_);
  list.push_back({.fd = udp_.fd(), .events = POLLIN, .revents = 0});
  for (const auto& [local, qp] : qps_) {
    qp->arm();
    list.push_back({.fd = qp->fd(), .events = POLLIN, .revents = 0});
  }
}

void DatagramSocket::look() {
  const std::lock_guard guard(mutex_);
  for (const auto& [local, qp] : qps_) {
    qp->disarm();
  }
}

Errno DatagramSocket::set_option(int level, int option, const void* value, socklen_t length) {
  if (level == SOL_RDMA) {
    return ENOPROTOOPT;  // Sizes of queues are ours to choose.
  }
  if (is_time_limit(level, option)) {
    return set_time_limit(option, value, length);
  }
  return udp_.set_option(level, option, value, length);
}

Errno DatagramSocket::option(int level, int option, void* value, socklen_t& length) {
  if (is_time_limit(level, option)) {
    return time_limit(option, value, length);
  }
  return level == SOL_RDMA ? ENOPROTOOPT : udp_.option(level, option, value, length);
}

}  // namespace verbena::rsocket
