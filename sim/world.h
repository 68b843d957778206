// What all parts of a simulated world share. Internal to sim/; Simulation owns it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "faults/injector.h"
#include "proto/verdict.h"
#include "sim/capture.h"
#include "sim/event_queue.h"
#include "sim/frame.h"
#include "sim/trace.h"

namespace verbena::sim {

/// Watches frames, beside trace and capture: for checks that hold at every moment.
class FrameObserver {
 public:
  virtual ~FrameObserver() = default;
  virtual void on_sent(Time now, const Frame& frame) = 0;
  /// `verdict` is what the host's NIC made of it.
  virtual void on_arrived(Time now, StationId at, const Frame& frame, const RxVerdict& verdict) = 0;
};

struct World {
  explicit World(std::uint64_t seed) : faults({}, seed, Time{}) {}

  Time now{};
  EventQueue queue;
  FramePool frames;
  Trace trace;
  faults::FaultInjector faults;
  Capture* capture = nullptr;
  FrameObserver* observer = nullptr;
  std::uint64_t next_frame = 1;
};

/// A thing that links end at: a host, a scripted peer or a switch.
class Station {
 public:
  Station(World& world, StationId id, std::string name)
      : world_(world), id_(id), name_(std::move(name)) {}
  virtual ~Station() = default;
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  [[nodiscard]] StationId id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// A frame has arrived. The station owns it now.
  virtual void receive(FrameRef frame) = 0;
  /// Hosts originate frames; faults and captures are applied there. Switches only pass them on.
  [[nodiscard]] virtual bool is_host() const = 0;
  /// The link of a host has room again.
  virtual void on_room() {}

 protected:
  World& world_;

 private:
  StationId id_;
  std::string name_;
};

}  // namespace verbena::sim
