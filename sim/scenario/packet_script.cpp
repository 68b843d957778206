#include "sim/scenario/packet_script.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "proto/roce/gid.h"
#include "sim/scenario/stage.h"
#include "sim/scenario/story.h"
#include "sim/scenario/story_listener.h"

namespace verbena::sim {
namespace {

/// Why a scenario is no script; nullopt if it may be one.
std::optional<std::string_view> obstacle(const Scenario& scenario) {
  if (scenario.technology != nic::Technology::roce) {
    return "its connections are iWARP's";
  }
  if (scenario.encapsulation != nic::GidEntry::Type::roce_v2 ||
      !roce::ipv4_from_gid(scenario.hosts.front().gid)) {
    return "it isn't about RoCE v2 over IPv4, which the wire to another device is";
  }
  if (scenario.hosts.size() != 2 || scenario.hosts[0].has_nic == scenario.hosts[1].has_nic) {
    return "it hasn't one host with a NIC and one scripted peer";
  }
  if (scenario.connections.size() != 1) {
    return "it hasn't exactly one connection";
  }
  const ConnectionSpec& connection = scenario.connections.front();
  if (connection.uses_cm || connection.service == ib::Service::xrc) {
    return "its connection is made by the story, or an XRC one";
  }
  if (!scenario.srqs.empty() || !scenario.windows.empty()) {
    return "it has shared receive queues or windows";
  }
  if (!scenario.faults.empty()) {
    return "it has faults";
  }
  return std::nullopt;
}

/// Writes down what the story does, and what the NIC answers.
class Recorder final : public StoryListener, public FrameObserver {
 public:
  Recorder(StationId device, PacketScript& script) : device_(device), script_(script) {}

  void set_story(const Story& story) { story_ = &story; }
  [[nodiscard]] const std::string& unsuitable() const { return unsuitable_; }

  void on_transport(ByteView transport, RawPeer::Icrc icrc) override {
    ScriptStep& step = add(ScriptStep::Kind::packet);
    step.bytes.assign(transport.begin(), transport.end());
    step.bad_icrc = icrc == RawPeer::Icrc::bad;
  }
  void on_frame(ByteView frame) override {
    add(ScriptStep::Kind::frame).bytes.assign(frame.begin(), frame.end());
  }
  void on_receive(const RecvWr& request) override {
    ScriptStep& step = add(ScriptStep::Kind::receive);
    step.wr_id = request.wr_id;
    step.sges.assign(request.sges.begin(), request.sges.end());
  }
  void on_send(const SendWr& request) override {
    ScriptStep& step = add(ScriptStep::Kind::send);
    step.wr_id = request.wr_id;
    step.sges.assign(request.sges.begin(), request.sges.end());
    step.request = request;
    step.request.sges = {};
    step.request.address = nullptr;
  }
  void on_waited() override { add(ScriptStep::Kind::wait); }
  void on_other(const Line& step) override {
    if (unsuitable_.empty()) {
      unsuitable_ = fmt::format("'{}' can't be told to another device", step.text());
    }
  }

  void on_sent(Time /*now*/, const Frame& frame) override {
    if (frame.origin == device_) {
      script_.answers.frames.push_back(frame.bytes);
    }
  }
  void on_arrived(Time /*now*/, StationId /*at*/, const Frame& /*frame*/,
                  const RxVerdict& /*verdict*/) override {}

 private:
  ScriptStep& add(ScriptStep::Kind kind) {
    ScriptStep step;
    step.kind = kind;
    step.packets = script_.answers.frames.size();
    step.completions = story_->completions()[static_cast<std::size_t>(device_)].size();
    return script_.steps.emplace_back(std::move(step));
  }

  StationId device_;
  PacketScript& script_;
  const Story* story_ = nullptr;
  std::string unsuitable_;
};

void describe_device(Stage& stage, const Scenario& scenario, std::size_t device,
                     PacketScript& script) {
  const Connection& connection = stage.connections().front();
  const std::size_t side = connection.ends[0].host == device ? 0 : 1;
  script.connection = scenario.connections.front();
  script.device_psn = connection.ends[side].first_psn;
  script.device_qpn = connection.ends[side].qpn;
  script.peer_psn = connection.ends[1 - side].first_psn;
  script.peer_qpn = connection.ends[1 - side].qpn;
  for (const Region& region : stage.regions()) {
    script.regions.push_back(
        {.spec = *region.spec, .va = region.va(), .lkey = region.lkey, .rkey = region.rkey});
  }
  script.arena_bytes = stage.hosts()[device].node->arena().size();
}

void note_outcome(Stage& stage, const Story& story, std::size_t device, PacketScript& script) {
  for (const auto& told : story.completions()[device]) {
    script.answers.completions.push_back(told.what);
  }
  for (const auto& told : story.events()[device]) {
    script.answers.events.push_back(told.what);
  }
  const Connection& connection = stage.connections().front();
  script.answers.state =
      nic::state_of(*connection.ends[connection.ends[0].host == device ? 0 : 1].qp);
  const MutableBytes arena = stage.hosts()[device].node->arena();
  for (const ScriptRegion& region : script.regions) {
    const ByteView bytes = arena.subspan(region.spec.offset, region.spec.bytes);
    script.answers.memories.emplace_back(bytes.begin(), bytes.end());
  }
}

Result<PacketScript, std::string> read(const Scenario& scenario) {
  const std::size_t device = scenario.hosts[0].has_nic ? 0 : 1;
  PacketScript script;
  Stage stage(scenario, scenario.seed);
  stage.simulation().trace().set_recording(true);
  describe_device(stage, scenario, device, script);
  Recorder recorder(stage.hosts()[device].node->id(), script);
  Story story(stage);
  recorder.set_story(story);
  story.set_listener(recorder);
  stage.simulation().set_observer(&recorder);
  story.tell();
  if (!recorder.unsuitable().empty()) {
    return std::unexpected(recorder.unsuitable());
  }
  if (!story.is_told()) {
    return std::unexpected(
        fmt::format("its story stands still at '{}'", story.waiting_step().text()));
  }
  note_outcome(stage, story, device, script);
  return script;
}

}  // namespace

Result<PacketScript, std::string> read_script(const Scenario& scenario) {
  if (const auto why = obstacle(scenario)) {
    return std::unexpected(std::string(*why));
  }
  try {
    return read(scenario);
  } catch (const ScenarioError& error) {
    return std::unexpected(explain(scenario.file, error));
  }
}

}  // namespace verbena::sim
