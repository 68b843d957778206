// A datagram socket: a UDP socket of the kernel's, whose address and port it has, and for each
// local address that it sends from a UD queue pair.
//
// The first datagrams to an address go through the UDP socket, with a header that tells the
// sender's queue pair; the answer tells the receiver's. From then on datagrams go from queue pair
// to queue pair. What is too long for those goes on through the UDP socket.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "proto/gid.h"
#include "verbs/rdma_cm/rsocket/socket.h"
#include "verbs/rdma_cm/rsocket/wire.h"

namespace verbena::rsocket {

/// The queue pair of one local address.
class DatagramQp {
 public:
  /// A datagram that came, header included; valid until the next call.
  using Arrived = std::span<const std::byte>;

  [[nodiscard]] static Result<std::unique_ptr<DatagramQp>, Errno> create(const sockaddr& local);
  ~DatagramQp();
  DatagramQp(const DatagramQp&) = delete;
  DatagramQp& operator=(const DatagramQp&) = delete;

  [[nodiscard]] std::uint32_t qpn() const { return id_->qp->qp_num; }
  /// Header and data.
  [[nodiscard]] std::size_t bytes_max() const { return bytes_max_; }
  [[nodiscard]] ibv_ah* create_ah(const sockaddr& to);
  /// EAGAIN if the send queue is full.
  [[nodiscard]] Errno send(ibv_ah* ah, std::uint32_t qpn, const DatagramHeader& header,
                           std::span<const iovec> parts);
  /// Hands over all that came.
  template <class Handler>
  void receive(Handler&& handler);

  [[nodiscard]] bool has_send_room() const { return !free_sends_.empty(); }
  void arm() { ibv_req_notify_cq(cq_, 0); }
  [[nodiscard]] int fd() const { return completions_->fd; }
  void disarm();

 private:
  DatagramQp() = default;
  [[nodiscard]] Errno open(const sockaddr& local);
  void post_receive(std::uint64_t index);

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::size_t bytes_max_ = 0;
  /// Receive buffers, and then send buffers.
  std::vector<std::byte> memory_;
  std::vector<std::uint64_t> free_sends_;
};

class DatagramSocket final : public Socket {
 public:
  [[nodiscard]] static Result<SocketPtr, Errno> create(int domain);
  ~DatagramSocket() override;

  [[nodiscard]] int number() const override { return udp_.fd(); }
  [[nodiscard]] Errno bind(const sockaddr& address, socklen_t length) override;
  [[nodiscard]] Errno listen(int) override { return EOPNOTSUPP; }
  [[nodiscard]] Result<SocketPtr, Errno> accept() override { return std::unexpected(EOPNOTSUPP); }
  [[nodiscard]] Errno connect(const sockaddr& address, socklen_t length) override;
  [[nodiscard]] Errno shutdown(int how) override;
  void close() override {}
  [[nodiscard]] Result<std::size_t, Errno> send(std::span<const iovec> parts, int flags,
                                                const sockaddr* to, socklen_t length) override;
  [[nodiscard]] Result<std::size_t, Errno> receive(std::span<const iovec> parts, int flags,
                                                   const Address& from) override;
  [[nodiscard]] short ready() override;
  void watch(std::vector<pollfd>& list) override;
  void look() override;
  [[nodiscard]] Errno name(sockaddr_storage& address) override { return udp_.name(address); }
  [[nodiscard]] Errno peer(sockaddr_storage& address) override { return udp_.peer(address); }
  [[nodiscard]] Errno set_option(int level, int option, const void* value,
                                 socklen_t length) override;
  [[nodiscard]] Errno option(int level, int option, void* value, socklen_t& length) override;

 private:
  /// An address that datagrams go to. IPv4 ones are mapped.
  using Key = std::pair<Gid, std::uint16_t>;
  struct Peer {
    sockaddr_storage address{};
    Gid local;
    DatagramQp* qp = nullptr;
    ibv_ah* ah = nullptr;
    std::uint32_t qpn = 0;
  };
  struct Datagram {
    sockaddr_storage from{};
    std::vector<std::byte> bytes;
  };

  DatagramSocket() = default;
  [[nodiscard]] Result<Peer*, Errno> peer_of(const sockaddr& address);
  /// Takes what came from everywhere.
  void take_all();
  void take_from_udp();
  void on_udp(std::span<const std::byte> bytes, const sockaddr& from);
  void on_datagram(std::span<const std::byte> bytes);
  void deliver(const sockaddr& from, std::span<const std::byte> bytes);
  [[nodiscard]] Result<std::size_t, Errno> send_by_udp(const Peer& peer, Operation operation,
                                                       std::span<const iovec> parts);
  [[nodiscard]] DatagramHeader header_for(const Peer& peer) const;

  std::mutex mutex_;
  kernel::DatagramSocket udp_;
  std::map<Gid, std::unique_ptr<DatagramQp>> qps_;
  std::map<Key, Peer> peers_;
  /// Whom connect() named.
  std::unique_ptr<sockaddr_storage> connected_;
  std::deque<Datagram> inbox_;
};

}  // namespace verbena::rsocket
