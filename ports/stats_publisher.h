// Publishes what a device counts, in the file of its slot (stats_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "nic_model/nic.h"
#include "ports/port.h"
#include "ports/stats_file.h"
#include "ports/sys.h"

namespace verbena::ports {

class StatsPublisher {
 public:
  /// `fabric_path` and `life` tell whose file it is. Nothing is made before the first snapshot.
  StatsPublisher(std::string fabric_path, SlotLife life, std::string device_name);

  /// Makes a snapshot current. The file is made anew when there are more queue pairs than it has
  /// room for. Without space for it, what is known stays as it was.
  void publish(Time now, const nic::Nic& nic, const PortStatistics& ways);
  /// Forgets the file, and makes no other; whoever clears the slot removes its name. From then on
  /// publish() does nothing: threads of a program that exits may go on, and a file that came after
  /// the slot was cleared would stay.
  void close() {
    is_closed_ = true;
    memory_.reset();
  }

 private:
  /// False if there is no file to write to.
  bool make_room(std::uint32_t qps);
  /// A file that has no name yet.
  bool make_file(std::uint32_t listed_qps);
  void write_snapshot(Time now, const nic::Nic& nic, const PortStatistics& ways,
                      std::uint64_t number);

  [[nodiscard]] StatsHeader& header() const;

  std::string fabric_path_;
  SlotLife life_;
  std::string device_name_;
  sys::SharedMemory memory_;
  /// Open until the file has its name, which it gets with its first snapshot.
  sys::Fd unnamed_;
  /// The size that there was no space for.
  std::uint32_t refused_qps_ = listed_qps_max + 1;
  bool is_closed_ = false;
  std::vector<const nic::Qp*> qps_;
};

}  // namespace verbena::ports
