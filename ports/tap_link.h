// A TAP interface of this host as a link: the device is a host of its own on the Ethernet behind
// the interface. The kernel is its neighbour, or a bridge that the interface is in.
//
// The interface has to be there: whoever makes it says whose it is (`ip tuntap add`), gives it
// addresses and sets it up. That needs CAP_NET_ADMIN; using it doesn't, for its owner.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ports/link.h"
#include "ports/sys.h"

namespace verbena::ports {

class TapLink final : public Link {
 public:
  /// `place.path` is the interface's name.
  [[nodiscard]] static Result<std::unique_ptr<Link>, std::string> open(const std::string& device,
                                                                       const LinkPlace& place);

  MutableBytes reserve(std::size_t bytes) override;
  void commit() override;
  void flush() override {}
  std::optional<ByteView> receive() override;
  [[nodiscard]] bool pending() const override { return false; }

  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override { return look_again_at_; }
  [[nodiscard]] bool is_up() const override { return is_up_; }
  /// The kernel takes a frame at once, or loses it.
  [[nodiscard]] bool waits_for_room() const override { return false; }
  [[nodiscard]] std::span<const int> descriptors() const override {
    return is_up_ ? std::span<const int>(&descriptor_, 1) : std::span<const int>();
  }

  bool repair() override;
  void close() override { tap_.reset(); }

 private:
  TapLink(std::string interface, sys::Fd tap);
  void look_whether_up();
  void note_error(int error);

  std::string interface_;
  sys::Fd tap_;
  int descriptor_;
  Time now_{};
  bool is_up_ = true;
  /// The interface was removed. One that is made under its name again is another.
  bool is_gone_ = false;
  Time look_again_at_ = time_never;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::size_t out_bytes_ = 0;
};

}  // namespace verbena::ports
