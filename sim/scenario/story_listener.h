// Hears what the steps of a story do, as they do it. Internal to sim/scenario/.
#pragma once

#include "base/bytes.h"
#include "proto/work.h"
#include "sim/raw_peer.h"
#include "sim/scenario/words.h"

namespace verbena::sim {

class StoryListener {
 public:
  virtual ~StoryListener() = default;
  /// A scripted peer sends bytes from the BTH to the end of the pad.
  virtual void on_transport(ByteView transport, RawPeer::Icrc icrc) = 0;
  /// A scripted peer sends a whole frame.
  virtual void on_frame(ByteView frame) = 0;
  /// A receive request or a work request was posted, to the queue pair's own queues.
  virtual void on_receive(const RecvWr& request) = 0;
  virtual void on_send(const SendWr& request) = 0;
  /// What was waited for is there.
  virtual void on_waited() = 0;
  /// Any other step, before it is done.
  virtual void on_other(const Line& step) = 0;
};

}  // namespace verbena::sim
