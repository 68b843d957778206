// QEMU's `-netdev dgram` over UNIX sockets: each datagram is a frame. QEMU's local.path is our
// REMOTE, its remote.path our LOCAL. Either may start first, and come back; what is sent while the
// other isn't there is lost.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ports/link.h"
#include "ports/link_socket.h"

namespace verbena::ports {

class QemuDatagram final : public Link {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Link>, std::string> open(const std::string& device,
                                                                       const LinkPlace& place);

  MutableBytes reserve(std::size_t bytes) override;
  void commit() override;
  void flush() override { static_cast<void>(send_waiting()); }
  std::optional<ByteView> receive() override;
  [[nodiscard]] bool pending() const override { return false; }

  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override { return retry_at_; }
  /// Whether anybody is there shows only when something is sent.
  [[nodiscard]] bool is_up() const override { return true; }
  /// The other end's queue is what is full, and nobody tells when it isn't any more.
  [[nodiscard]] bool waits_for_room() const override { return false; }
  [[nodiscard]] std::span<const int> descriptors() const override { return {&descriptor_, 1}; }

  bool repair() override;
  void close() override;

 private:
  QemuDatagram(std::string device, LinkPlace place);
  [[nodiscard]] Result<void, std::string> bind();
  /// False if the frame still waits.
  [[nodiscard]] bool send_waiting();

  std::string device_;
  LinkPlace place_;
  LinkSocket socket_;
  SocketFile file_;
  int descriptor_ = -1;
  Time now_{};
  Time retry_at_ = time_never;

  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::size_t out_bytes_ = 0;
  bool is_waiting_ = false;
  bool is_full_ = false;
  bool told_absent_ = false;
};

}  // namespace verbena::ports
