#include "verbs/rdma_cm/rsocket/stream_socket.h"

#include <algorithm>
#include <cstring>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/rsocket/acceptor.h"
#include "verbs/rdma_cm/rsocket/keep_alive.h"

namespace verbena::rsocket {

namespace {

constexpr int resolve_timeout_ms = 2000;
constexpr std::uint8_t retries_max = 7;
/// What waits looks around so often, whatever it waits for.
constexpr Patience::Milliseconds sleep_max(200);

rdma_conn_param connection_param(const ConnectData& data) {
  rdma_conn_param param{};
  param.private_data = &data;
  param.private_data_len = sizeof data;
  param.flow_control = 1;
  param.retry_count = retries_max;
  param.rnr_retry_count = retries_max;
  return param;
}

bool read_connect_data(const rdma_conn_param& param, ConnectData& data) {
  if (param.private_data == nullptr || param.private_data_len < sizeof data) {
    return false;
  }
  std::memcpy(&data, param.private_data, sizeof data);
  return data.version == protocol_version;
}

Errno copy_address(const sockaddr& from, sockaddr_storage& to) {
  if (!rdma_cm::is_known_family(from)) {
    to = {};
    to.ss_family = from.sa_family;
    return 0;
  }
  rdma_cm::copy_address(to, from);
  return 0;
}

}  // namespace

// --- Life

Result<SocketPtr, Errno> StreamSocket::create(int domain) {
  std::shared_ptr<StreamSocket> made(new StreamSocket);
  if (const Errno error = made->open_channel()) {
    return std::unexpected(error);
  }
  if (rdma_create_id(made->channel_, &made->id_, nullptr, RDMA_PS_TCP) != 0) {
    return std::unexpected(errno);
  }
  made->id_->route.addr.src_addr.sa_family = static_cast<sa_family_t>(domain);
  return made;
}

StreamSocket::~StreamSocket() {
  stream_.reset();
  if (id_ != nullptr) {
    rdma_destroy_id(id_);
  }
  if (channel_ != nullptr) {
    rdma_destroy_event_channel(channel_);
  }
  if (number_ >= 0) {
    kernel::close(number_);
  }
}

Errno StreamSocket::open_channel() {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) {
    return errno;
  }
  kernel::set_nonblocking(channel_->fd);
  return 0;
}

void StreamSocket::close() {
  std::shared_ptr<Stream> stream;
  std::vector<std::shared_ptr<StreamSocket>> dropped;
  {
    const std::lock_guard guard(mutex_);
    stream = state_ == State::connected ? stream_ : nullptr;
    state_ = State::closed;
    dropped = std::move(coming_);
    dropped.insert(dropped.end(), accepted_.begin(), accepted_.end());
    accepted_.clear();
  }
  Acceptor::instance().remove(*this);
  if (stream) {
    static_cast<void>(stream->shutdown(true, true));
    rdma_disconnect(id_);
  }
  for (const auto& socket : dropped) {
    socket->close();
  }
}

// --- Listening

Errno StreamSocket::bind(const sockaddr& address, socklen_t /*length*/) {
  const std::lock_guard guard(mutex_);
  if (state_ != State::fresh) {
    return EINVAL;
  }
  sockaddr_storage copy{};
  copy_address(address, copy);
  if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&copy)) != 0) {
    return errno;
  }
  state_ = State::bound;
  return 0;
}

Errno StreamSocket::listen(int backlog) {
  {
    const std::lock_guard guard(mutex_);
    if (state_ == State::listening) {
      return 0;
    }
    if (state_ != State::bound && state_ != State::fresh) {
      return EINVAL;
    }
    tokens_ = std::make_unique<verbs::EventFd>();
    if (tokens_->fd() < 0) {
      return EMFILE;
    }
    if (rdma_listen(id_, backlog) != 0) {
      return errno;
    }
    state_ = State::listening;
  }
  return Acceptor::instance().add(shared_from_this());
}

void StreamSocket::take_requests() {
  rdma_cm_event* event = nullptr;
  const std::lock_guard guard(mutex_);
  while (state_ == State::listening && rdma_get_cm_event(channel_, &event) == 0) {
    const rdma_cm_event_type type = event->event;
    rdma_cm_id& id = *event->id;
    rdma_conn_param param = event->param.conn;
    ConnectData theirs;
    const bool is_ours = type == RDMA_CM_EVENT_CONNECT_REQUEST && read_connect_data(param, theirs);
    param.private_data = &theirs;
    rdma_ack_cm_event(event);
    if (is_ours) {
      on_request(id, param);
    } else if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      rdma_reject(&id, nullptr, 0);
      rdma_destroy_id(&id);
    } else if (type == RDMA_CM_EVENT_ESTABLISHED) {
      on_established(id);
    } else {
      std::erase_if(coming_, [&](const auto& each) { return each->id_ == &id; });
    }
  }
}

void StreamSocket::on_request(rdma_cm_id& id, const rdma_conn_param& param) {
  std::shared_ptr<StreamSocket> fresh(new StreamSocket);
  fresh->id_ = &id;
  fresh->sizes_ = sizes_;
  fresh->keep_alive_ = keep_alive_;
  fresh->keep_alive_idle_s_ = keep_alive_idle_s_;
  std::memcpy(&fresh->theirs_, param.private_data, sizeof fresh->theirs_);
  auto stream = Stream::create(id, sizes_);
  if (stream && fresh->open_channel() == 0) {
    fresh->stream_ = std::move(*stream);
    const ConnectData ours = fresh->stream_->offer();
    rdma_conn_param answer = connection_param(ours);
    answer.initiator_depth = param.initiator_depth;
    answer.responder_resources = param.responder_resources;
    // Pushed first: its next event comes to this channel.
    coming_.push_back(fresh);
    if (rdma_accept(&id, &answer) == 0) {
      return;
    }
    coming_.pop_back();
  }
  rdma_reject(&id, nullptr, 0);
}

void StreamSocket::on_established(rdma_cm_id& id) {
  const auto found =
      std::ranges::find_if(coming_, [&](const auto& each) { return each->id_ == &id; });
  if (found == coming_.end()) {
    return;
  }
  const std::shared_ptr<StreamSocket> fresh = std::move(*found);
  coming_.erase(found);
  if (rdma_migrate_id(&id, fresh->channel_) != 0 || fresh->stream_->begin(fresh->theirs_) != 0) {
    return;
  }
  fresh->state_ = State::connected;
  fresh->start_keep_alive();
  accepted_.push_back(fresh);
  tokens_->signal();
}

Result<SocketPtr, Errno> StreamSocket::accept() {
  verbs::EventFd* tokens = nullptr;
  {
    const std::lock_guard guard(mutex_);
    if (state_ != State::listening) {
      return std::unexpected(EINVAL);
    }
    tokens = tokens_.get();
  }
  const Patience patience = patience_to_receive(0);
  for (;;) {
    std::array<pollfd, 1> wait{{{.fd = tokens->fd(), .events = POLLIN, .revents = 0}}};
    const bool is_over = patience.is_over();
    if (const Errno error =
            kernel::poll(wait, static_cast<int>(patience.left(sleep_max).count()))) {
      return std::unexpected(error);
    }
    const std::lock_guard guard(mutex_);
    if (state_ != State::listening) {
      return std::unexpected(EINVAL);
    }
    if (!accepted_.empty()) {
      tokens->take_back(1);
      const std::shared_ptr<StreamSocket> socket = accepted_.front();
      accepted_.pop_front();
      socket->number_ = kernel::duplicate(socket->channel_->fd);
      return socket->number_ >= 0 ? Result<SocketPtr, Errno>(socket) : std::unexpected(EMFILE);
    }
    if (is_over) {
      return std::unexpected(EAGAIN);
    }
  }
}

// --- Connecting

Errno StreamSocket::connect(const sockaddr& address, socklen_t /*length*/) {
  {
    const std::lock_guard guard(mutex_);
    if (state_ == State::connecting) {
      return EALREADY;
    }
    if (state_ != State::fresh && state_ != State::bound) {
      return state_ == State::connected ? EISCONN : EINVAL;
    }
    sockaddr_storage to{};
    copy_address(address, to);
    if (rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&to), resolve_timeout_ms) !=
        0) {
      return errno;
    }
    state_ = State::connecting;
  }
  return wait_until_connected(patience_to_send(0));
}

void StreamSocket::advance() {
  rdma_cm_event* event = nullptr;
  while (state_ == State::connecting && rdma_get_cm_event(channel_, &event) == 0) {
    on_event(*event);
    rdma_ack_cm_event(event);
  }
}

void StreamSocket::on_event(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(id_, resolve_timeout_ms) != 0) {
        fail(errno);
      }
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (const Errno error = start_connection()) {
        fail(error);
      }
      break;
    case RDMA_CM_EVENT_ESTABLISHED: {
      ConnectData theirs;
      if (!read_connect_data(event.param.conn, theirs) || stream_->begin(theirs) != 0) {
        fail(ENOTSUP);
      } else {
        state_ = State::connected;
        start_keep_alive();
      }
      break;
    }
    case RDMA_CM_EVENT_REJECTED:
      fail(ECONNREFUSED);
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      fail(EHOSTUNREACH);
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      fail(ETIMEDOUT);
      break;
    default:
      fail(ECONNRESET);
      break;
  }
}

Errno StreamSocket::start_connection() {
  auto stream = Stream::create(*id_, sizes_);
  if (!stream) {
    return stream.error();
  }
  stream_ = std::move(*stream);
  const ConnectData ours = stream_->offer();
  rdma_conn_param param = connection_param(ours);
  return rdma_connect(id_, &param) == 0 ? 0 : errno;
}

void StreamSocket::fail(Errno error) {
  error_ = error;
  state_ = State::failed;
}

Errno StreamSocket::wait_until_connected(const Patience& patience) {
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      advance();
      if (state_ != State::connecting) {
        return state_ == State::connected ? 0 : std::exchange(error_, 0);
      }
    }
    if (patience.is_over()) {
      return EINPROGRESS;
    }
    std::array<pollfd, 1> wait{{{.fd = channel_->fd, .events = POLLIN, .revents = 0}}};
    if (const Errno error =
            kernel::poll(wait, static_cast<int>(patience.left(sleep_max).count()))) {
      return error;
    }
  }
}

Result<std::shared_ptr<Stream>, Errno> StreamSocket::connected_stream(const Patience& patience) {
  {
    const std::lock_guard guard(mutex_);
    if (state_ == State::connected) {
      return stream_;
    }
    if (state_ != State::connecting) {
      return std::unexpected(state_ == State::failed && error_ != 0 ? std::exchange(error_, 0)
                                                                    : ENOTCONN);
    }
  }
  if (const Errno error = wait_until_connected(patience)) {
    return std::unexpected(error == EINPROGRESS ? EAGAIN : error);
  }
  return stream_;
}

// --- The stream

void StreamSocket::start_keep_alive() {
  if (keep_alive_ && state_ == State::connected) {
    // Without them the connection is as good as it was.
    static_cast<void>(
        KeepAlive::instance().add(weak_from_this(), std::chrono::seconds(keep_alive_idle_s_)));
  }
}

bool StreamSocket::send_keep_alive() {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard guard(mutex_);
    stream = keep_alive_ && state_ == State::connected ? stream_ : nullptr;
  }
  if (stream) {
    stream->send_keep_alive();
  }
  return stream != nullptr;
}

Errno StreamSocket::shutdown(int how) {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard guard(mutex_);
    if (state_ != State::connected) {
      return ENOTCONN;
    }
    stream = stream_;
  }
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) {
    return EINVAL;
  }
  return stream->shutdown(how != SHUT_WR, how != SHUT_RD);
}

Result<std::size_t, Errno> StreamSocket::send(std::span<const iovec> parts, int flags,
                                              const sockaddr* to, socklen_t /*length*/) {
  if (to != nullptr) {
    return std::unexpected(EISCONN);
  }
  const Patience patience = patience_to_send(flags);
  const auto stream = connected_stream(patience);
  return stream ? (*stream)->send(parts, patience) : std::unexpected(stream.error());
}

Result<std::size_t, Errno> StreamSocket::receive(std::span<const iovec> parts, int flags,
                                                 const Address& from) {
  const Patience patience = patience_to_receive(flags);
  const auto stream = connected_stream(patience);
  if (!stream) {
    return std::unexpected(stream.error());
  }
  if (from.length != nullptr) {
    *from.length = 0;  // As TCP: a stream's bytes have no address.
  }
  return (*stream)->receive(
      parts, {.peek = (flags & MSG_PEEK) != 0, .all = (flags & MSG_WAITALL) != 0}, patience);
}

short StreamSocket::ready() {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard guard(mutex_);
    advance();
    switch (state_) {
      case State::connected:
        stream = stream_;
        break;
      case State::listening:
        return accepted_.empty() ? 0 : POLLIN;
      case State::failed:
        return POLLIN | POLLOUT | POLLERR | POLLHUP;
      case State::connecting:
        return 0;
      default:
        return POLLOUT | POLLHUP;
    }
  }
  return stream->ready();
}

void StreamSocket::watch(std::vector<pollfd>& list) {
  const std::lock_guard guard(mutex_);
  list.push_back({.fd = state_ == State::listening ? tokens_->fd() : channel_->fd,
                  .events = POLLIN,
                  .revents = 0});
  if (state_ == State::connected) {
    stream_->arm();
    list.push_back({.fd = stream_->fd(), .events = POLLIN, .revents = 0});
  }
}

void StreamSocket::look() {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard guard(mutex_);
    stream = state_ == State::connected ? stream_ : nullptr;
  }
  if (stream) {
    stream->disarm();
    stream->take_cm_events();
  }
}

Errno StreamSocket::name(sockaddr_storage& address) {
  return copy_address(*rdma_get_local_addr(id_), address);
}

Errno StreamSocket::peer(sockaddr_storage& address) {
  {
    const std::lock_guard guard(mutex_);
    if (state_ != State::connected) {
      return ENOTCONN;
    }
  }
  return copy_address(*rdma_get_peer_addr(id_), address);
}

// --- Mapped memory

Result<std::uint64_t, Errno> StreamSocket::map(void* memory, std::size_t length, bool writable,
                                               std::uint64_t offset) {
  const auto stream = connected_stream(Patience::endless());
  return stream ? (*stream)->map(memory, length, writable, offset)
                : std::unexpected(stream.error());
}

Errno StreamSocket::unmap(const void* memory, std::size_t length) {
  const auto stream = connected_stream(Patience::endless());
  return stream ? (*stream)->unmap(memory, length) : stream.error();
}

Result<std::size_t, Errno> StreamSocket::write_at(std::span<const std::byte> bytes,
                                                  std::uint64_t offset, int flags) {
  const Patience patience = patience_to_send(flags);
  const auto stream = connected_stream(patience);
  return stream ? (*stream)->write_at(bytes, offset, patience) : std::unexpected(stream.error());
}

}  // namespace verbena::rsocket
