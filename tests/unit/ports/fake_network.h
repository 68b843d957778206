// The innermost port of those that stand in front of each other: a network that a test holds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ports/port.h"

namespace verbena::ports::test {

/// The network: keeps what is sent and gives out what a test puts in. Numbers frames as a kernel
/// does.
class Network final : public Port {
 public:
  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override {
    last_route = route;
    reserved_.assign(full ? 0 : bytes, std::byte{0});
    return reserved_;
  }
  [[nodiscard]] WayFields way_fields() const override {
    return {.identification = static_cast<std::uint16_t>(sent.size())};
  }
  [[nodiscard]] bool is_unread(const FrameRoute& /*route*/) override { return unread; }
  void commit(const PacketNote& /*note*/) override {
    sent.push_back(reserved_);
    remarks.push_back(std::exchange(remark_, {}));
  }
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t /*frames_max*/) override {
    const auto frames = std::exchange(arriving, {});
    for (const auto& frame : frames) {
      handler.on_frame(frame);
      remarks.push_back(std::exchange(remark_, {}));
    }
    return static_cast<std::uint32_t>(frames.size());
  }
  void flush() override {}
  bool prepare_sleep() override { return true; }
  void finish_sleep() override {}
  [[nodiscard]] int fd() const override { return -1; }
  void wake() override {}
  void begin_batch(Time /*now*/) override {}
  void remark(std::string_view what) override { remark_ = what; }
  void set_membership(const nic::Membership& /*membership*/) override { ++memberships; }
  void record_lost(ByteView /*frame*/, std::string_view what) override { lost.emplace_back(what); }
  [[nodiscard]] PortStatistics statistics() const override { return {}; }
  void abandon() override {}

  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> arriving;
  std::vector<std::string> remarks;
  std::vector<std::string> lost;
  FrameRoute last_route;
  bool full = false;
  bool unread = false;
  int memberships = 0;

 private:
  std::vector<std::byte> reserved_;
  std::string remark_;
};

}  // namespace verbena::ports::test
