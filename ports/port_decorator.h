// A port in front of a port, which does what that one does: whoever stands in between overrides
// what is his.
#pragma once

#include <memory>
#include <utility>

#include "ports/port.h"

namespace verbena::ports {

class PortDecorator : public Port {
 public:
  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override {
    return inner_->reserve(route, bytes);
  }
  [[nodiscard]] WayFields way_fields() const override { return inner_->way_fields(); }
  void commit(const PacketNote& note) override { inner_->commit(note); }
  [[nodiscard]] bool is_unread(const FrameRoute& route) override {
    return inner_->is_unread(route);
  }
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override {
    return inner_->poll_receive(handler, frames_max);
  }
  void flush() override { inner_->flush(); }
  bool prepare_sleep() override { return inner_->prepare_sleep(); }
  void finish_sleep() override { inner_->finish_sleep(); }
  [[nodiscard]] int fd() const override { return inner_->fd(); }
  void wake() override { inner_->wake(); }
  void begin_batch(Time now) override { inner_->begin_batch(now); }
  void set_membership(const nic::Membership& membership) override {
    inner_->set_membership(membership);
  }
  [[nodiscard]] Time next_deadline() const override { return inner_->next_deadline(); }
  void remark(std::string_view what) override { inner_->remark(what); }
  void record_lost(ByteView frame, std::string_view what) override {
    inner_->record_lost(frame, what);
  }
  [[nodiscard]] PortStatistics statistics() const override { return inner_->statistics(); }
  void abandon() override { inner_->abandon(); }

 protected:
  explicit PortDecorator(std::unique_ptr<Port> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<Port> inner_;
};

}  // namespace verbena::ports
