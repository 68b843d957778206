// The byte stream of a connected socket: a queue pair, and two rings of memory. wire.h says what
// the ends tell each other.
//
//   send():    program ─copy─▶ send ring ─RDMA write─▶ the peer's receive ring
//   receive(): program ◀─copy─ receive ring
//
// Any thread may call any function. Only one sleeps on the completion channel; others sleep until
// that one has looked at what came.
#pragma once

#include <sys/uio.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "verbs/rdma_cm/abi.h"
#include "verbs/rdma_cm/rsocket/patience.h"
#include "verbs/rdma_cm/rsocket/wire.h"

namespace verbena::rsocket {

using rdma_cm::Errno;

/// What a program can choose before the connection is made; the defaults are rdma-core's.
struct StreamSizes {
  std::uint32_t send_bytes = 1U << 17;
  std::uint32_t receive_bytes = 1U << 17;
  std::uint16_t sends = 384;
  std::uint16_t receives = 384;
  std::uint16_t inline_bytes = 64;
  std::uint16_t map_entries = 0;
};

struct ReceiveFlags {
  bool peek = false;
  /// Waits for all that was asked for.
  bool all = false;
};

class Stream {
 public:
  /// Makes the queue pair of an identifier, which must outlive the stream and whose event channel
  /// must not block.
  [[nodiscard]] static Result<std::unique_ptr<Stream>, Errno> create(rdma_cm_id& id,
                                                                     const StreamSizes& sizes);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Our part of the private data.
  [[nodiscard]] ConnectData offer() const;
  /// The connection is made. ENOTSUP if the peer's part makes no sense.
  [[nodiscard]] Errno begin(const ConnectData& theirs);

  /// How many bytes were taken: all of them if it may wait and nothing happens. EAGAIN if there
  /// was no room for any in time, ECONNRESET if the peer takes no more.
  [[nodiscard]] Result<std::size_t, Errno> send(std::span<const iovec> parts,
                                                const Patience& patience);
  /// 0 at the end of the stream, EAGAIN if nothing came in time.
  [[nodiscard]] Result<std::size_t, Errno> receive(std::span<const iovec> parts,
                                                   const ReceiveFlags& flags,
                                                   const Patience& patience);
  /// A message that says nothing, if it can be sent at once.
  void send_keep_alive();
  /// Ends one direction or both, and waits until the peer has all that was sent.
  [[nodiscard]] Errno shutdown(bool receiving, bool sending);

  /// What poll() would say, of all events.
  [[nodiscard]] short ready();
  /// From now on fd() becomes readable when something comes.
  void arm();
  [[nodiscard]] int fd() const { return channel_->fd; }
  /// fd() was readable: takes the notification away.
  void disarm();
  /// Takes events of the connection manager: the peer may be gone.
  void take_cm_events();

  /// Memory that the peer may write to with write_at(). Where it begins for the peer, or ENOMEM if
  /// the peer has no entry for it left.
  [[nodiscard]] Result<std::uint64_t, Errno> map(void* memory, std::size_t length, bool writable,
                                                 std::uint64_t offset);
  [[nodiscard]] Errno unmap(const void* memory, std::size_t length);
  /// Into memory that the peer has mapped. How many bytes were taken; fewer where its maps end.
  [[nodiscard]] Result<std::size_t, Errno> write_at(std::span<const std::byte> bytes,
                                                    std::uint64_t offset, const Patience& patience);

 private:
  static constexpr std::size_t write_bytes_max = 65536;

  /// A ring of registered memory.
  struct Ring {
    std::vector<std::byte> bytes;
    ibv_mr* mr = nullptr;
    std::size_t offset = 0;
  };
  struct LocalMap {
    ibv_mr* mr = nullptr;
    /// In the peer's list; -1 for one that is only ours.
    int index = -1;
    std::uint64_t offset = 0;
    bool announced = false;
  };

  Stream(rdma_cm_id& id, const StreamSizes& sizes);
  [[nodiscard]] Errno open();
  [[nodiscard]] Errno create_queue_pair();
  /// For the message that comes next; without immediate data, in that place of arrived_.
  [[nodiscard]] Errno post_receive(std::uint32_t place);

  /// Until test(), or EAGAIN when the patience is over, EINTR after a signal.
  [[nodiscard]] Errno wait(std::unique_lock<std::mutex>& lock, const Patience& patience,
                           const std::function<bool()>& test);
  [[nodiscard]] Errno sleep(std::unique_lock<std::mutex>& lock, const Patience& patience);
  /// Looks at what came, and gives the peer room.
  void process();
  void on_message(const ibv_wc& wc);
  void on_sent(const ibv_wc& wc);
  void on_data(std::uint32_t length);
  /// The next offer of memory, if it has been written.
  void take_target();
  void on_control(Control control);
  /// The peer has broken the protocol, or the queue pair has failed.
  void fail(Errno error);

  [[nodiscard]] bool can_send() const;
  [[nodiscard]] bool has_send_room() const;
  [[nodiscard]] bool has_data() const { return !messages_.empty(); }
  [[nodiscard]] bool all_sent() const;
  void give_room();
  void announce_maps();

  /// Copies into the send ring, and posts a write of it. With a message, the peer hears of it.
  void post_from_ring(std::size_t length, const Sge& to, const Message* message,
                      const std::function<void(std::span<std::byte>)>& fill);
  void post(ibv_send_wr& wr, std::uint64_t wr_id);
  /// A write, which may be of nothing, and a message about it.
  void post_with_message(ibv_send_wr& write, const Message& message, std::uint64_t wr_id);
  void post_control(const Message& message, std::span<const std::byte> bytes, std::uint64_t address,
                    std::uint32_t key);

  rdma_cm_id& id_;
  const StreamSizes sizes_;
  /// Messages are the immediate data of writes; on iWARP, SENDs of their own behind them.
  const bool has_immediate_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable looked_;
  bool someone_sleeps_ = false;

  bool connected_ = false;
  /// The peer may send, and its consumer wants to hear it; and the other way round.
  bool readable_ = false;
  bool writable_ = false;
  Errno error_ = 0;
  bool swaps_bytes_ = false;

  // Sending.
  Ring send_ring_;
  std::size_t send_free_ = 0;
  std::uint32_t send_slots_ = 0;
  std::uint32_t controls_in_flight_ = 0;
  std::uint16_t sent_ = 0;
  std::uint16_t granted_ = 0;
  /// Where the peer writes its offers, and behind them its maps.
  std::vector<std::uint64_t> offers_;
  ibv_mr* offers_mr_ = nullptr;
  std::array<Sge, targets> target_{};
  std::uint32_t target_in_use_ = 0;
  std::uint32_t next_target_ = 1;
  std::vector<MapEntry> remote_maps_;

  // Receiving.
  Ring receive_ring_;
  /// Where messages come that are SENDs, in the byte order of their sender.
  std::vector<std::uint32_t> arrived_;
  ibv_mr* messages_mr_ = nullptr;
  /// Lengths of what came and was not wholly read.
  std::deque<std::uint32_t> messages_;
  std::size_t unread_ = 0;
  /// Read, and not offered again.
  std::size_t free_ = 0;
  std::size_t offer_at_ = 0;
  std::uint16_t read_ = 0;
  std::uint16_t grant_again_at_ = 0;
  /// The peer's list of targets.
  Sge remote_targets_;
  std::uint32_t remote_target_ = 1;
  std::uint16_t remote_map_entries_ = 0;

  std::vector<LocalMap> maps_;
};

}  // namespace verbena::rsocket
