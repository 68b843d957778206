// QEMU's `-netdev stream` over a UNIX socket: each frame behind its length, four bytes, the most
// significant first. Either end may listen, QEMU's or ours, and either may start first:
//
//            ┌─ somebody listens at PATH ─▶ connected ─┐
//   down ────┤                                         ├─▶ up ── hangs up, or ──▶ down, and again
//            └─ nobody does ─▶ listening ─▶ accepted ──┘         talks nonsense
//
// Who listens looks every now and then whether somebody else took the place at PATH, as QEMU does
// (`server=on` removes what it finds there), and connects. While a link is up nobody else can come
// in: the file is gone until the peer is.
//
// Two locks make sure that of several processes of a user one connects and one listens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ports/link.h"
#include "ports/link_socket.h"

namespace verbena::ports {

class QemuStream final : public Link {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Link>, std::string> open(const std::string& device,
                                                                       const LinkPlace& place);
  ~QemuStream() override;

  MutableBytes reserve(std::size_t bytes) override;
  void commit() override;
  void flush() override;
  std::optional<ByteView> receive() override;
  [[nodiscard]] bool pending() const override { return arrived_frame().has_value(); }

  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override { return is_up() ? time_never : next_attempt_; }
  [[nodiscard]] bool is_up() const override { return state_ == State::up; }
  [[nodiscard]] bool waits_for_room() const override { return is_full_; }
  [[nodiscard]] std::span<const int> descriptors() const override;

  bool repair() override;
  void close() override;

 private:
  enum class State : std::uint8_t { down, listening, up };
  /// Why there is no link yet.
  struct Obstacle {
    /// Another process has it; that may pass.
    bool is_busy = false;
    std::string reason{};
  };

  QemuStream(std::string device, LinkPlace place);

  /// Connects, or listens if nobody else does.
  [[nodiscard]] Result<void, Obstacle> attempt();
  /// True if it connected, false if nobody listens.
  [[nodiscard]] Result<bool, Obstacle> try_connect();
  [[nodiscard]] Result<void, Obstacle> try_listen();
  void accept_peer();
  void set_socket(LinkSocket socket, State state);
  void drop_socket();
  void go_up(LinkSocket socket, std::string_view how);
  void go_down(std::string_view reason);
  void stop_listening();

  /// Where in `in_` the frame is that has arrived whole. Without one: nullopt.
  [[nodiscard]] std::optional<ByteView> arrived_frame() const;
  [[nodiscard]] bool length_makes_sense() const;
  /// False if nothing more has come.
  [[nodiscard]] bool read_more();

  std::string device_;
  LinkPlace place_;
  State state_ = State::down;
  /// Listening or connected; none while down.
  LinkSocket socket_;
  SocketFile file_;
  LinkSocket lock_;
  /// socket_'s, or -1.
  int descriptor_ = -1;
  Time now_{};
  Time next_attempt_{};

  /// Both of a fixed size: [in_begin_, in_end_) has arrived, [out_begin_, out_end_) waits.
  std::vector<std::byte> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  std::vector<std::byte> out_;
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
  std::size_t reserved_bytes_ = 0;
  /// Frames that were committed since the last time when none waited.
  std::uint64_t frames_waiting_ = 0;
  bool is_full_ = false;
};

}  // namespace verbena::ports
