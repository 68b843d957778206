#include "cli/script_agent.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "cli/child.h"

namespace verbena::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::string_view greeting = "verbena-scripted 1";
/// QEMU's network accepts for a guest in which nobody listens yet: an agent speaks first.
constexpr milliseconds greeting_limit{2000};
/// Far above the longest line.
constexpr std::size_t unread_max = 65536;
/// Of ibv_wc_flags.
constexpr unsigned wc_with_imm = 2;
constexpr unsigned wc_with_inv = 8;

ports::sys::Fd try_connect(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ports::sys::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return fd;
}

}  // namespace

Result<ScriptAgent, std::string> ScriptAgent::connect(std::uint16_t port, seconds limit) {
  const auto deadline = steady_clock::now() + limit;
  do {
    ScriptAgent agent(try_connect(port));
    if (agent.socket_ && agent.is_greeted()) {
      return agent;
    }
    pause_between_looks();
  } while (steady_clock::now() < deadline);
  return std::unexpected(fmt::format(
      "nobody who has the device was to be heard at 127.0.0.1:{} for {} s", port, limit.count()));
}

bool ScriptAgent::is_greeted() {
  const auto deadline = steady_clock::now() + greeting_limit;
  while (!is_gone_ && steady_clock::now() < deadline) {
    turn();
    if (const auto line = next_answer()) {
      return *line == greeting;
    }
    pause_between_looks();
  }
  return false;
}

void ScriptAgent::say(std::string line) {
  VERBENA_CHECK(line.size() <= line_bytes_max);
  line += '\n';
  // A line is far shorter than a socket's buffer.
  const auto sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
  is_gone_ = is_gone_ || sent != static_cast<ssize_t>(line.size());
}

void ScriptAgent::turn() {
  std::array<char, 4096> buffer{};
  while (!is_gone_) {
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      break;
    }
    if (count <= 0) {
      is_gone_ = true;
      break;
    }
    unread_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  std::size_t begin = 0;
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
    take_line(std::string_view(unread_).substr(begin, end - begin));
    begin = end + 1;
  }
  unread_.erase(0, begin);
  is_gone_ = is_gone_ || unread_.size() > unread_max;
}

void ScriptAgent::take_line(std::string_view line) {
  const std::string text(line);
  unsigned status = 0;
  unsigned opcode = 0;
  unsigned flags = 0;
  unsigned type = 0;
  Completion completion;
  if (std::sscanf(text.c_str(), "wc %" SCNu64 " %u %u %u %x %x", &completion.wr_id, &status,
                  &opcode, &completion.byte_len, &flags, &completion.imm_or_rkey) == 6) {
    completion.status = static_cast<WcStatus>(status);
    completion.opcode = static_cast<WcOpcode>(opcode);
    completion.with_imm = (flags & wc_with_imm) != 0;
    completion.with_inv = (flags & wc_with_inv) != 0;
    completions_.push_back(completion);
  } else if (std::sscanf(text.c_str(), "event %u", &type) == 1) {
    events_.push_back(static_cast<nic::AsyncEventType>(type));
  } else {
    answers_.push_back(text);
  }
}

std::optional<std::string> ScriptAgent::next_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  std::string answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

void ScriptAgent::add_descriptors(std::vector<pollfd>& descriptors) const {
  descriptors.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
}

void ScriptAgent::forget() {
  completions_.clear();
  events_.clear();
}

}  // namespace verbena::cli
