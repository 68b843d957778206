// A host with a NIC: the very Nic of nic_model/, driven in virtual time, and memory for it to work
// on. The application is whoever calls the Nic's commands and then drive().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "proto/packet_sink.h"
#include "sim/channel.h"
#include "sim/event_queue.h"
#include "sim/tcp_host.h"
#include "sim/world.h"

namespace verbena::sim {

class Node;

/// Hears what a node's NIC reports. It may give commands, also to other nodes; the nodes' NICs are
/// driven on after it returns.
class Application {
 public:
  virtual ~Application() = default;
  virtual void on_completion(Node& node, const Completion& completion) = 0;
  virtual void on_async_event(Node& node, const nic::AsyncEvent& event) = 0;
};

/// Something of the node's software that works its NIC beside the application.
class NodeService {
 public:
  virtual ~NodeService() = default;
  /// Does what there is to do. False if there was nothing.
  virtual bool serve(Time now) = 0;
  /// When it has something to do by itself.
  [[nodiscard]] virtual Time next_deadline() const = 0;
};

struct NodeConfig {
  std::string name;
  /// The node's address: row 0 of its GID table, and what packets from it are carried by.
  Gid gid;
  /// A second row of the GID table, for connections that may migrate.
  std::optional<Gid> alternate_gid{};
  nic::GidEntry::Type encapsulation = nic::GidEntry::Type::roce_v2;
  /// iwarp: the address is an IPv4 one, and the host has TCP.
  nic::Technology technology = nic::Technology::roce;
  /// See nic::DeviceProfile::has_rdmap_extensions. Here both ends are ours, unless a scenario wants
  /// to show what happens when one hasn't got them.
  bool rdmap_extensions = true;
  std::size_t arena_bytes = 1U << 20;
  std::uint32_t cqe = 1U << 16;
  /// QPNs that its queue pairs get, in order.
  Qpn first_qpn{0x11};
  std::uint32_t qpn_count = 4096;
  nic::Mtu mtu_max = nic::Mtu::mtu_4096;
};

/// Keys and packets name the arena's first byte by this address, on every machine.
inline constexpr Va arena_va{0x10'0000};

class Node final : public Station,
                   public EventHandler,
                   public nic::PersistentStore,
                   private FrameSink {
 public:
  Node(World& world, StationId id, const NodeConfig& config, std::uint64_t seed);

  [[nodiscard]] bool is_host() const override { return true; }
  [[nodiscard]] nic::Nic& nic() { return nic_; }
  [[nodiscard]] const nic::Nic& nic() const { return nic_; }
  /// Of an iWARP host.
  [[nodiscard]] TcpHost& tcp() { return *tcp_; }
  [[nodiscard]] nic::Pd& pd() { return *pd_; }
  /// Where all of the node's queue pairs complete. The node polls it.
  [[nodiscard]] nic::Cq& cq() { return *cq_; }
  [[nodiscard]] const Gid& gid() const { return gids().front().gid; }
  /// All of its addresses.
  [[nodiscard]] const std::vector<nic::GidEntry>& gids() const { return nic_.config().gids; }
  [[nodiscard]] MutableBytes arena() { return {arena_.get(), arena_bytes_}; }
  [[nodiscard]] Time now() const { return world_.now; }

  void set_application(Application* application) { application_ = application; }
  /// Must live as long as the node is driven.
  void set_service(NodeService* service) { service_ = service; }
  /// The link; a node has one.
  void attach(Channel& channel) { channel_ = &channel; }
  [[nodiscard]] Channel& channel() { return *channel_; }

  /// Must follow commands to the NIC: sends, hands out completions and events, sets the timer.
  void drive();
  /// The node's processor stands still: nothing is received, sent or timed until resume(). Frames
  /// that arrive wait.
  void pause() { paused_ = true; }
  void resume();
  /// The processor stands still for ever, and memory holds what was made persistent and zeros.
  void lose_power();
  /// Of the arena.
  bool make_persistent(std::byte* start, std::uint64_t bytes) noexcept override;
  /// What the arena will hold after a loss of power; empty if nothing was ever made persistent.
  [[nodiscard]] ByteView persistent() const { return persistent_; }

  void receive(FrameRef frame) override;
  void on_room() override { drive(); }
  void on_event(Time now, std::uint64_t token) override;

 private:
  // FrameSink: the NIC's way out.
  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;

  void take_frame(FrameRef frame);
  void run_timers();
  void transmit();
  [[nodiscard]] Time next_timeout() const;
  bool hand_out_completions();
  bool hand_out_events();
  void set_timer();

  std::size_t arena_bytes_;
  std::unique_ptr<std::byte[]> arena_;
  /// What of the arena outlives a loss of power; empty if nothing does.
  std::vector<std::byte> persistent_;
  nic::Nic nic_;
  nic::Pd* pd_;
  nic::Cq* cq_;
  std::unique_ptr<TcpHost> tcp_;
  Application* application_ = nullptr;
  NodeService* service_ = nullptr;
  Channel* channel_ = nullptr;
  bool driving_ = false;
  bool drive_again_ = false;
  bool paused_ = false;
  bool timer_was_due_ = false;
  std::deque<FrameRef> while_paused_;
  Time timer_at_ = time_never;
  /// The reservation that has not been committed.
  FrameRef reserved_{};
  bool has_reserved_ = false;
};

/// "wr 7: rdma_write success, 2500 bytes".
[[nodiscard]] std::string describe(const Completion& completion);
[[nodiscard]] std::string_view name_of(WcOpcode opcode) noexcept;

}  // namespace verbena::sim
