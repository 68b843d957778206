// The script's conversation with whoever has the device: lines over TCP, as
// lab/conformance/scripted.h describes them.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nic_model/types.h"
#include "ports/sys.h"
#include "proto/work.h"

namespace verbena::cli {

class ScriptAgent {
 public:
  /// Connects to that port of 127.0.0.1, trying again for `limit` while nobody listens. The error
  /// is a sentence. Throws Interrupted (child.h).
  [[nodiscard]] static Result<ScriptAgent, std::string> connect(std::uint16_t port,
                                                                std::chrono::seconds limit);

  /// The longest line that the other side reads, without its end (lab/conformance/control.h).
  static constexpr std::size_t line_bytes_max = 510;

  /// Sends a line of at most that length.
  void say(std::string line);
  /// Reads what has come. To be called again and again.
  void turn();
  /// The next line that is neither a completion nor an event.
  [[nodiscard]] std::optional<std::string> next_answer();
  /// The connection is gone, or what comes isn't the protocol's.
  [[nodiscard]] bool is_gone() const { return is_gone_; }
  void add_descriptors(std::vector<pollfd>& descriptors) const;

  /// Those of the device since forget().
  [[nodiscard]] const std::vector<Completion>& completions() const { return completions_; }
  [[nodiscard]] const std::vector<nic::AsyncEventType>& events() const { return events_; }
  void forget();

 private:
  explicit ScriptAgent(ports::sys::Fd socket) : socket_(std::move(socket)) {}

  /// Whether somebody who speaks the protocol is there.
  [[nodiscard]] bool is_greeted();
  void take_line(std::string_view line);

  ports::sys::Fd socket_;
  bool is_gone_ = false;
  std::string unread_;
  std::deque<std::string> answers_;
  std::vector<Completion> completions_;
  std::vector<nic::AsyncEventType> events_;
};

}  // namespace verbena::cli
