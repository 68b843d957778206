#include "ports/qemu_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "ports/log.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

using FrameLength = boost::endian::big_uint32_buf_t;
constexpr std::size_t length_bytes = sizeof(FrameLength);

/// Room for what the other end sends in one batch, and for a frame of the greatest length.
constexpr std::size_t buffer_bytes = std::size_t{256} << 10;
static_assert(buffer_bytes > 2 * (link_frame_bytes_max + length_bytes));

/// How often somebody is looked for while nobody is at the other end.
constexpr Duration attempt_interval = 100ms;
/// For how long a program waits for another that is about to leave the link, and how often it
/// looks.
constexpr Duration patience_with_others = 3s;
constexpr Duration look_interval = 10ms;
/// Who comes while somebody is there is turned away.
constexpr int backlog = 1;

}  // namespace

Result<std::unique_ptr<Link>, std::string> QemuStream::open(const std::string& device,
                                                            const LinkPlace& place) {
  std::unique_ptr<QemuStream> link(new QemuStream(device, place));
  for (auto looks = patience_with_others / look_interval;; --looks) {
    const auto tried = link->attempt();
    if (tried) {
      return link;
    }
    if (!tried.error().is_busy || looks <= 0) {
      return std::unexpected(tried.error().reason);
    }
    static_cast<void>(sys::poll(nullptr, 0, look_interval));
  }
}

QemuStream::QemuStream(std::string device, LinkPlace place)
    : device_(std::move(device)), place_(std::move(place)), in_(buffer_bytes), out_(buffer_bytes) {}

QemuStream::~QemuStream() {
  if (is_up() && out_begin_ < out_end_) {
    static_cast<void>(
        sys::send(socket_.fd(), ByteView(out_).subspan(out_begin_, out_end_ - out_begin_)));
  }
}

void QemuStream::set_socket(LinkSocket socket, State state) {
  socket_ = std::move(socket);
  descriptor_ = socket_.fd();
  state_ = state;
}

void QemuStream::drop_socket() {
  socket_.reset();
  descriptor_ = -1;
  state_ = State::down;
}

Result<void, QemuStream::Obstacle> QemuStream::attempt() {
  const auto connected = try_connect();
  if (!connected) {
    return std::unexpected(connected.error());
  }
  return *connected ? Result<void, Obstacle>{} : try_listen();
}

namespace {

std::string occupied(const LinkPlace& place) {
  return fmt::format(
      "another program of yours is on the link {}: one can be at a time; end it, or give this one "
      "a link of its own",
      place.to_text());
}

}  // namespace

Result<bool, QemuStream::Obstacle> QemuStream::try_connect() {
  auto lock = take_link_lock(place_.path + " connects");
  if (!lock) {
    return std::unexpected(Obstacle{.is_busy = true, .reason = occupied(place_)});
  }
  auto socket = sys::unix_stream_socket();
  const int result = socket ? sys::connect_unix(socket->get(), place_.path) : socket.error();
  if (result == -ENOENT || result == -ECONNREFUSED) {
    return false;
  }
  if (result < 0) {
    // Somebody who has more callers than he takes.
    return std::unexpected(
        Obstacle{.is_busy = result == -EAGAIN,
                 .reason = fmt::format("can't connect to {}: {}", place_.path,
                                       result == -EAGAIN ? "whoever listens there takes nobody now"
                                                         : sys::error_text(-result))});
  }
  lock_ = std::move(*lock);
  go_up(LinkSocket(std::move(*socket)), "connected");
  return true;
}

Result<void, QemuStream::Obstacle> QemuStream::try_listen() {
  auto lock = take_link_lock(place_.path + " listens");
  if (!lock) {
    return std::unexpected(Obstacle{.is_busy = true, .reason = occupied(place_)});
  }
  const auto refuse = [&](int error) {
    return std::unexpected(
        Obstacle{.reason = fmt::format("can't listen at {}: {}; the directory must exist and be "
                                       "yours to write, and what is there must be a socket",
                                       place_.path, sys::error_text(error))});
  };
  if (!remove_stale_socket(place_.path)) {
    return refuse(EADDRINUSE);
  }
  auto socket = sys::unix_stream_socket();
  if (!socket) {
    return refuse(-socket.error());
  }
  if (const int result = sys::bind_unix_private(socket->get(), place_.path); result < 0) {
    return refuse(-result);
  }
  file_ = SocketFile(place_.path);
  if (const int result = sys::listen(socket->get(), backlog); result < 0) {
    file_.remove();
    return refuse(-result);
  }
  lock_ = std::move(*lock);
  set_socket(LinkSocket(std::move(*socket)), State::listening);
  log(LogLevel::info, device_, std::nullopt, fmt::format("listens at {}", place_.path));
  return {};
}

void QemuStream::accept_peer() {
  if (auto peer = sys::accept(socket_.fd())) {
    stop_listening();
    go_up(LinkSocket(std::move(*peer)), "accepted");
  }
}

void QemuStream::stop_listening() {
  // The file first, so that nobody connects to a socket that is about to close.
  file_.remove();
  drop_socket();
}

void QemuStream::go_up(LinkSocket socket, std::string_view how) {
  set_socket(std::move(socket), State::up);
  in_begin_ = in_end_ = out_begin_ = out_end_ = 0;
  frames_waiting_ = 0;
  is_full_ = false;
  log(LogLevel::info, device_, std::nullopt, fmt::format("{}: {}", place_.to_text(), how));
}

void QemuStream::go_down(std::string_view reason) {
  log(LogLevel::info, device_, std::nullopt, fmt::format("{}: {}", place_.to_text(), reason));
  why_down_ = reason;
  counters_.frames_lost += frames_waiting_;
  frames_waiting_ = 0;
  in_begin_ = in_end_ = out_begin_ = out_end_ = 0;
  is_full_ = false;
  drop_socket();
  lock_.reset();
  next_attempt_ = now_ + attempt_interval;
}

void QemuStream::begin_batch(Time now) {
  now_ = now;
  if (is_up() || now < next_attempt_) {
    return;
  }
  next_attempt_ = now + attempt_interval;
  if (state_ == State::listening && !file_.is_there()) {
    stop_listening();
  }
  if (state_ == State::down) {
    lock_.reset();
    static_cast<void>(attempt());
  }
}

std::span<const int> QemuStream::descriptors() const {
  return {&descriptor_, descriptor_ >= 0 ? 1U : 0U};
}

MutableBytes QemuStream::reserve(std::size_t bytes) {
  VERBENA_CHECK(bytes <= link_frame_bytes_max);
  if (!is_up()) {
    return {};
  }
  if (out_end_ + length_bytes + bytes > out_.size()) {
    flush();
    // What is left goes to the front.
    std::copy(out_.begin() + static_cast<std::ptrdiff_t>(out_begin_),
              out_.begin() + static_cast<std::ptrdiff_t>(out_end_), out_.begin());
    out_end_ -= std::exchange(out_begin_, 0);
  }
  if (!is_up() || out_end_ + length_bytes + bytes > out_.size()) {
    return {};
  }
  reserved_bytes_ = bytes;
  return MutableBytes(out_).subspan(out_end_ + length_bytes, bytes);
}

void QemuStream::commit() {
  write_struct(MutableBytes(out_).subspan(out_end_),
               FrameLength(static_cast<std::uint32_t>(reserved_bytes_)));
  out_end_ += length_bytes + reserved_bytes_;
  ++frames_waiting_;
}

void QemuStream::flush() {
  while (is_up() && out_begin_ < out_end_) {
    const int sent =
        sys::send(socket_.fd(), ByteView(out_).subspan(out_begin_, out_end_ - out_begin_));
    if (sent == -EAGAIN) {
      counters_.times_blocked += is_full_ ? 0 : 1;
      is_full_ = true;
      return;
    }
    if (sent < 0) {
      go_down(sent == -EPIPE || sent == -ECONNRESET ? "the other end hung up"
                                                    : sys::error_text(-sent));
      return;
    }
    out_begin_ += static_cast<std::size_t>(sent);
  }
  out_begin_ = out_end_ = 0;
  frames_waiting_ = 0;
  is_full_ = false;
}

bool QemuStream::length_makes_sense() const {
  if (in_end_ - in_begin_ < length_bytes) {
    return true;
  }
  return read_struct<FrameLength>(ByteView(in_).subspan(in_begin_)).value() <= link_frame_bytes_max;
}

std::optional<ByteView> QemuStream::arrived_frame() const {
  const ByteView arrived = ByteView(in_).subspan(in_begin_, in_end_ - in_begin_);
  if (arrived.size() < length_bytes) {
    return std::nullopt;
  }
  const std::size_t frame_bytes = read_struct<FrameLength>(arrived).value();
  if (frame_bytes > arrived.size() - length_bytes) {
    return std::nullopt;
  }
  return arrived.subspan(length_bytes, frame_bytes);
}

bool QemuStream::read_more() {
  if (in_begin_ > 0) {
    // Less than a frame.
    std::copy(in_.begin() + static_cast<std::ptrdiff_t>(in_begin_),
              in_.begin() + static_cast<std::ptrdiff_t>(in_end_), in_.begin());
    in_end_ -= std::exchange(in_begin_, 0);
  }
  const int received = sys::receive(socket_.fd(), MutableBytes(in_).subspan(in_end_));
  if (received == -EAGAIN) {
    return false;
  }
  if (received <= 0) {
    go_down(received == 0 || received == -ECONNRESET ? "the other end hung up"
                                                     : sys::error_text(-received));
    return false;
  }
  in_end_ += static_cast<std::size_t>(received);
  return true;
}

std::optional<ByteView> QemuStream::receive() {
  if (state_ == State::listening) {
    accept_peer();
  }
  while (is_up()) {
    if (!length_makes_sense()) {
      go_down(fmt::format("it brought a frame of more than {} bytes, which is none of QEMU's",
                          link_frame_bytes_max));
      break;
    }
    if (const auto frame = arrived_frame()) {
      in_begin_ += length_bytes + frame->size();
      return frame;
    }
    if (!read_more()) {
      break;
    }
  }
  return std::nullopt;
}

bool QemuStream::repair() {
  if (socket_.is_intact() && lock_.is_intact()) {
    return false;
  }
  if (state_ == State::listening) {
    stop_listening();
  }
  go_down("the program closed its descriptor");
  return true;
}

void QemuStream::close() {
  file_.forget();
  drop_socket();
  lock_.reset();
}

}  // namespace verbena::ports
