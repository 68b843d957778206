// A connection of the target: capsules in, data by RDMA READ and RDMA WRITE, completions out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "examples/nvmf/rdma.h"
#include "examples/nvmf/session.h"

namespace nvmf {

// What connections over one device share.
class TargetDevice {
 public:
  TargetDevice(ibv_context* context, Storage& storage);

  [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_.get(); }
  [[nodiscard]] const Region& storage() const { return storage_; }
  [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }

 private:
  ibv_device_attr attributes_;
  OwnedPd pd_;
  OwnedCompChannel channel_;
  Region storage_;
};

// The host may have as many commands under way as the queue has entries; there is a slot for each.
// A slot's receive is posted again right before its completion is sent, so that no capsule finds
// none.
class TargetQueue {
 public:
  // `id` is of a connection request that is going to be accepted, and belongs to the queue if the
  // constructor returns. Throws a Failure.
  TargetQueue(TargetDevice& device, rdma_cm_id* id, const CmRequest& request, Subsystem& subsystem,
              Portal portal);
  ~TargetQueue();
  TargetQueue(const TargetQueue&) = delete;
  TargetQueue& operator=(const TargetQueue&) = delete;

  void accept(const rdma_conn_param& offered);
  // After an event of its completion queue: does all there is to do. Throws a Failure when the
  // connection is of no more use.
  void on_completions();

  [[nodiscard]] const Session& session() const { return session_; }

 private:
  struct Slot {
    Command command;
    Plan plan;
    Sgl sgl;
    std::uint32_t received_bytes = 0;
  };

  void on_completion(const ibv_wc& wc);
  void begin(std::size_t index);
  void move_data(std::size_t index);
  void take_from_capsule(std::size_t index);
  void post_receive(std::size_t index);
  void post_read(std::size_t index);
  // With a RDMA WRITE in front of the SEND if there are data for the host.
  void respond(std::size_t index, const Outcome& outcome, bool has_data = false);
  [[nodiscard]] ibv_send_wr data_request(std::size_t index, ibv_wr_opcode opcode, ibv_sge& sge);

  TargetDevice& device_;
  const std::size_t entries_;
  const std::size_t capsule_bytes_;
  Session session_;
  Pieces capsules_;
  Pieces pages_;
  std::vector<Slot> slots_;
  OwnedCq cq_;
  OwnedId id_;
  // Commands whose requests the send queue has room for, and those that wait for it.
  std::size_t room_;
  std::deque<std::size_t> waiting_;
};

}  // namespace nvmf
