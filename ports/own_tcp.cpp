#include "ports/own_tcp.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ports/engine.h"
#include "ports/sys_event.h"
#include "proto/inet/tcp/frame.h"
#include "proto/inet/tcp/verdict.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using Guard = std::lock_guard<std::mutex>;

inet::TcpPlace place_of(const SocketAddress& address) {
  const auto gid = address_of(*address.get());
  return {.address = gid ? roce::ipv6_from_gid(*gid) : inet::Ipv6Address{},
          .port = gid ? port_of(address) : std::uint16_t{0}};
}

SocketAddress address_of(const inet::TcpPlace& place) {
  return socket_address(roce::gid_from_ipv6(place.address), place.port, 0);
}

int error_of(inet::TcpRefusal refusal) {
  switch (refusal) {
    case inet::TcpRefusal::port_in_use:
      return -EADDRINUSE;
    case inet::TcpRefusal::no_such_address:
      return -EADDRNOTAVAIL;
    case inet::TcpRefusal::no_route:
      return -ENETUNREACH;
    case inet::TcpRefusal::too_many:
      return -ENFILE;
  }
  return -EINVAL;
}

int result_of(const Result<void, inet::TcpRefusal>& result) {
  return result ? 0 : error_of(result.error());
}

inet::TcpStack::Settings completed(inet::TcpStack::Settings settings) {
  if (!settings.draw) {
    settings.draw = sys::random_bits;
  }
  return settings;
}

}  // namespace

// --- The network

OwnTcp::OwnTcp(inet::TcpStack::Settings settings) : stack_(completed(std::move(settings))) {}

Result<std::unique_ptr<TcpSocket>, int> OwnTcp::socket(int /*family*/) {
  auto signal = sys::event();
  if (!signal) {
    return std::unexpected(signal.error());
  }
  auto socket = std::make_unique<OwnSocket>(shared_from_this(), std::move(*signal));
  const Guard guard(mutex_);
  const auto opened = stack_.open(*socket);
  if (!opened) {
    return std::unexpected(error_of(opened.error()));
  }
  socket->socket_ = *opened;
  return socket;
}

bool OwnTcp::waits_for_engine() {
  const Guard guard(mutex_);
  return stack_.wants_transmit();
}

bool OwnTcp::has_delivered() {
  const Guard guard(mutex_);
  return stack_.has_delivered();
}

RxVerdict OwnTcp::on_frame(Time now, ByteView frame) {
  const auto tcp = inet::parse_tcp_frame(frame);
  const Guard guard(mutex_);
  if (!tcp || !tcp->checksum_is_good()) {
    ++checksums_wrong_;
    return {.kind = RxVerdict::Kind::dropped, .check = RxCheck::frame};
  }
  const auto outcome = stack_.on_segment(now, tcp->source, tcp->destination, tcp->segment);
  return inet::verdict_of(outcome.verdict, outcome.expected, tcp->segment.header.sequence.value());
}

void OwnTcp::on_timer(Time now) {
  const Guard guard(mutex_);
  stack_.on_timer(now);
}

Time OwnTcp::next_timeout() {
  const Guard guard(mutex_);
  return stack_.next_timeout();
}

void OwnTcp::transmit(Time now, inet::TcpPacketSink& sink) {
  const Guard guard(mutex_);
  stack_.transmit(now, sink);
}

void OwnTcp::add_to(PortStatistics& statistics) {
  const Guard guard(mutex_);
  const inet::TcpStack::Counters& counters = stack_.counters();
  statistics.segments_refused = checksums_wrong_ + counters.addresses_refused;
  statistics.segments_of_strangers = counters.strangers;
  statistics.connections_ignored = counters.syns_dropped + counters.half_open_evicted;
}

// --- A socket

OwnSocket::OwnSocket(std::shared_ptr<OwnTcp> tcp, sys::Fd signal)
    : tcp_(std::move(tcp)), signal_(std::move(signal)) {}

OwnSocket::~OwnSocket() {
  if (socket_ != nullptr) {
    const Guard guard(tcp_->mutex_);
    tcp_->stack_.close(*socket_, Engine::now(), resets_);
  }
}

void OwnSocket::update() {
  if (const bool wanted = has_something(); wanted != is_set_) {
    is_set_ = wanted;
    if (wanted) {
      sys::set_event(signal_.get());
    } else {
      sys::clear_event(signal_.get());
    }
  }
}

bool OwnSocket::has_something() const {
  const inet::TcpConnection* const tcp = connection();
  if (tcp == nullptr) {
    return socket_->listens && tcp_->stack_.has_somebody(*socket_);
  }
  const inet::TcpState state = tcp->state();
  if (is_connecting_) {
    return state != inet::TcpState::syn_sent && state != inet::TcpState::syn_received;
  }
  const bool is_over = state == inet::TcpState::closed || tcp->peer_has_ended();
  return !tcp->readable().empty() || (is_over && !end_is_told_) ||
         (blocked_bytes_ > 0 &&
          (tcp->write_room() >= blocked_bytes_ || state == inet::TcpState::closed));
}

int OwnSocket::end_error() const {
  switch (connection()->end()) {
    case inet::TcpEnd::refused:
      return -ECONNREFUSED;
    case inet::TcpEnd::reset:
      return -ECONNRESET;
    case inet::TcpEnd::timed_out:
      return -ETIMEDOUT;
    case inet::TcpEnd::aborted:
      return -ECONNABORTED;
    case inet::TcpEnd::none:
      break;
  }
  return 0;
}

int OwnSocket::set_reuse(bool value) {
  const Guard guard(tcp_->mutex_);
  socket_->shares_port = value;
  return 0;
}

int OwnSocket::bind(const SocketAddress& address) {
  const Guard guard(tcp_->mutex_);
  if (connection() != nullptr) {
    return 0;  // It was connected, and keeps what it has.
  }
  return result_of(tcp_->stack_.bind(*socket_, place_of(address)));
}

int OwnSocket::listen(int backlog) {
  const Guard guard(tcp_->mutex_);
  return result_of(tcp_->stack_.listen(*socket_, static_cast<std::size_t>(std::max(backlog, 1))));
}

Result<std::unique_ptr<TcpSocket>, int> OwnSocket::accept() {
  auto signal = sys::event();
  if (!signal) {
    return std::unexpected(signal.error());
  }
  auto accepted = std::make_unique<OwnSocket>(tcp_, std::move(*signal));
  const Guard guard(tcp_->mutex_);
  accepted->socket_ = tcp_->stack_.accept(*socket_, *accepted);
  update();
  if (accepted->socket_ == nullptr) {
    return std::unexpected(-EAGAIN);
  }
  accepted->update();
  return accepted;
}

int OwnSocket::connect(const SocketAddress& address) {
  const Guard guard(tcp_->mutex_);
  const int result = result_of(tcp_->stack_.connect(*socket_, place_of(address), Engine::now()));
  if (result < 0) {
    return result;
  }
  is_connecting_ = true;
  update();
  return -EINPROGRESS;
}

int OwnSocket::take_error() {
  const Guard guard(tcp_->mutex_);
  const inet::TcpConnection* const tcp = connection();
  if (tcp == nullptr || !has_something()) {
    return 0;
  }
  is_connecting_ = false;
  const int error = tcp->state() == inet::TcpState::closed ? end_error() : 0;
  end_is_told_ = error != 0;
  update();
  return error;
}

SocketAddress OwnSocket::local() const {
  const Guard guard(tcp_->mutex_);
  return address_of(socket_->local);
}

SocketAddress OwnSocket::remote() const {
  const Guard guard(tcp_->mutex_);
  const inet::TcpConnection* const tcp = connection();
  const bool is_there = tcp != nullptr && tcp->state() >= inet::TcpState::established;
  return is_there ? address_of(socket_->remote) : SocketAddress{};
}

int OwnSocket::segment_bytes() const {
  const Guard guard(tcp_->mutex_);
  return connection() != nullptr ? static_cast<int>(connection()->mss()) : -ENOTCONN;
}

int OwnSocket::send(ByteView bytes) {
  const Guard guard(tcp_->mutex_);
  const inet::TcpConnection* const tcp = connection();
  if (tcp == nullptr || is_connecting_) {
    return -ENOTCONN;
  }
  if (tcp->state() == inet::TcpState::closed) {
    const int error = end_error();
    blocked_bytes_ = 0;
    end_is_told_ = true;
    update();
    return error != 0 ? error : -EPIPE;
  }
  const bool is_written = tcp_->stack_.write_unit(*socket_, bytes);
  blocked_bytes_ = is_written ? 0 : bytes.size();
  update();
  return is_written ? static_cast<int>(bytes.size()) : -EAGAIN;
}

int OwnSocket::receive(MutableBytes room) {
  const Guard guard(tcp_->mutex_);
  const inet::TcpConnection* const tcp = connection();
  if (tcp == nullptr || is_connecting_) {
    return -ENOTCONN;
  }
  std::size_t received = 0;
  while (received < room.size() && !tcp->readable().empty()) {
    const ByteView piece = tcp->readable();
    const std::size_t bytes = std::min(piece.size(), room.size() - received);
    copy_bytes(room.subspan(received), piece.first(bytes));
    tcp_->stack_.consume(*socket_, bytes);
    received += bytes;
  }
  int result = static_cast<int>(received);
  if (received == 0) {
    const bool is_closed = tcp->state() == inet::TcpState::closed;
    end_is_told_ = end_is_told_ || is_closed || tcp->peer_has_ended();
    result = is_closed ? end_error() : (tcp->peer_has_ended() ? 0 : -EAGAIN);
  }
  update();
  return result;
}

int OwnSocket::end_sending() {
  const Guard guard(tcp_->mutex_);
  if (connection() == nullptr || is_connecting_) {
    return -ENOTCONN;
  }
  tcp_->stack_.end_sending(*socket_, Engine::now());
  update();
  return 0;
}

std::uint32_t OwnSocket::room_event() const { return EPOLLIN; }

}  // namespace verbena::ports
