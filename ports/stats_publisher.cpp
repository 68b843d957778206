#include "ports/stats_publisher.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "ports/fabric_layout.h"
#include "ports/log.h"

namespace verbena::ports {

namespace {

void write_name(std::array<char, stats_name_bytes>& field, std::string_view name) {
  // The file is made of zeros, and one of them stays behind the name.
  std::copy_n(name.begin(), std::min(name.size(), field.size() - 1), field.begin());
}

void write_record(QpRecord& record, const nic::Nic& nic, const nic::Qp& qp) {
  const nic::QpAttr attr = nic.query_qp(qp);
  record.qpn = nic::qpn_of(qp);
  record.peer_qpn = attr.dest_qpn;
  record.peer = attr.av.dgid;
  record.type = static_cast<std::uint8_t>(nic::type_of(qp));
  record.state = static_cast<std::uint8_t>(nic::state_of(qp));
  record.counters = nic::counters_of(qp).values();
}

}  // namespace

StatsPublisher::StatsPublisher(std::string fabric_path, SlotLife life, std::string device_name)
    : fabric_path_(std::move(fabric_path)), life_(life), device_name_(std::move(device_name)) {}

StatsHeader& StatsPublisher::header() const {
  return *reinterpret_cast<StatsHeader*>(memory_.bytes().data());
}

void StatsPublisher::publish(Time now, const nic::Nic& nic, const PortStatistics& ways) {
  if (is_closed_ || !make_room(nic.object_counts().qps)) {
    return;
  }
  const std::uint64_t number = header().published.load(std::memory_order_relaxed) + 1;
  write_snapshot(now, nic, ways, number);
  header().published.store(number, std::memory_order_release);
  if (unnamed_) {
    const std::string path = stats_path(fabric_path_, slot_of(life_));
    static_cast<void>(sys::unlink(path));
    static_cast<void>(sys::link_unnamed(unnamed_.get(), path));
    unnamed_.reset();
  }
}

bool StatsPublisher::make_room(std::uint32_t qps) {
  const std::uint32_t wanted = std::clamp(std::bit_ceil(qps), listed_qps_min, listed_qps_max);
  const bool has_file = !memory_.bytes().empty();
  if (has_file && header().listed_qps >= wanted) {
    return true;
  }
  if (wanted < refused_qps_ && make_file(wanted)) {
    return true;
  }
  if (!has_file && refused_qps_ > listed_qps_max) {
    report(fmt::format("no space for {}: verbena top and verbena counters won't see this process",
                       stats_path(fabric_path_, slot_of(life_))));
  }
  refused_qps_ = std::min(refused_qps_, wanted);
  return has_file;
}

bool StatsPublisher::make_file(std::uint32_t listed_qps) {
  const std::string directory = fabric_path_.substr(0, fabric_path_.rfind('/'));
  const std::size_t bytes = stats_file_bytes(listed_qps);
  auto fd = sys::open(directory, O_TMPFILE | O_RDWR, 0600);
  if (!fd || sys::allocate(fd->get(), bytes) < 0) {
    return false;
  }
  auto memory = sys::SharedMemory::map(fd->get(), bytes);
  if (!memory) {
    return false;
  }
  memory_ = std::move(*memory);
  unnamed_ = std::move(*fd);
  StatsHeader& made = *std::construct_at(&header());
  made.magic = stats_magic;
  made.version = stats_version;
  made.names_hash = hash_of_counter_names();
  made.life = life_;
  made.listed_qps = listed_qps;
  write_name(made.program, program_invocation_short_name);
  write_name(made.device, device_name_);
  return true;
}

void StatsPublisher::write_snapshot(Time now, const nic::Nic& nic, const PortStatistics& ways,
                                    std::uint64_t number) {
  const std::uint32_t room = header().listed_qps;
  std::byte* const place = memory_.bytes().subspan(snapshot_offset(room, number)).data();
  auto& head = *reinterpret_cast<SnapshotHead*>(place);
  auto* const records = reinterpret_cast<QpRecord*>(place + sizeof(SnapshotHead));
  const auto objects = nic.object_counts();
  qps_.resize(room);
  const auto listed = static_cast<std::uint32_t>(nic.list_qps(qps_));
  head = {.time = now.time_since_epoch().count(),
          .pds = objects.pds,
          .mrs = objects.mrs,
          .cqs = objects.cqs,
          .qps = objects.qps,
          .qps_listed = listed,
          .reserved = 0,
          .counters = nic.counters().values(),
          .ways = values_of(ways)};
  for (std::uint32_t i = 0; i < listed; ++i) {
    write_record(records[i], nic, *qps_[i]);
  }
}

}  // namespace verbena::ports
