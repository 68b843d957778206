#include "ports/stats_reader.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "ports/fabric.h"
#include "ports/stats_file.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

/// A file is read with pread() and not mapped: whoever made it could make it shorter at any time.
template <class T>
bool read_object(const sys::Fd& fd, std::size_t offset, T& object) {
  return sys::read_at(fd.get(), std::as_writable_bytes(std::span(&object, 1)), offset) ==
         static_cast<long>(sizeof(T));
}

/// The part of the header that never changes, as bytes: an atomic can't be copied.
struct HeaderImage {
  alignas(StatsHeader) std::array<std::byte, sizeof(StatsHeader)> bytes;

  [[nodiscard]] const StatsHeader& get() const {
    return *reinterpret_cast<const StatsHeader*>(bytes.data());
  }
};

std::string text_of(const std::array<char, stats_name_bytes>& field) {
  std::string text;
  for (const char character : field) {
    if (character == '\0') {
      break;
    }
    text += character >= ' ' && character <= '~' ? character : '?';
  }
  return text;
}

bool is_sound(const StatsHeader& header, std::uint64_t file_bytes) {
  return header.listed_qps >= listed_qps_min && header.listed_qps <= listed_qps_max &&
         file_bytes == stats_file_bytes(header.listed_qps);
}

std::optional<nic::QpType> type_of(std::uint8_t code) {
  const nic::QpType type{code};
  const bool known = type == nic::QpType::rc || type == nic::QpType::uc || nic::is_datagram(type) ||
                     type == nic::QpType::xrc_initiator || type == nic::QpType::xrc_target;
  return known ? std::optional(type) : std::nullopt;
}

std::optional<QpStatistics> statistics_of(const QpRecord& record) {
  const auto type = type_of(record.type);
  if (!type || record.state > static_cast<std::uint8_t>(nic::QpState::err)) {
    return std::nullopt;
  }
  return QpStatistics{.qpn = Qpn{to_value(record.qpn) & qpn_mask},
                      .type = *type,
                      .state = nic::QpState{record.state},
                      .peer_qpn = Qpn{to_value(record.peer_qpn) & qpn_mask},
                      .peer = record.peer,
                      .counters = record.counters};
}

/// The bytes of the current snapshot; nullopt if the file is not what its header says.
std::optional<std::vector<std::byte>> read_snapshot(const sys::Fd& fd, std::uint32_t listed_qps) {
  // The writer comes back to a snapshot after two of its intervals: a second attempt is rare.
  constexpr int attempts_max = 16;
  constexpr std::size_t number_at = offsetof(StatsHeader, published);
  std::vector<std::byte> bytes(snapshot_bytes(listed_qps));
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    if (!read_object(fd, number_at, before) || before == 0 ||
        sys::read_at(fd.get(), bytes, snapshot_offset(listed_qps, before)) !=
            static_cast<long>(bytes.size()) ||
        !read_object(fd, number_at, after)) {
      return std::nullopt;
    }
    if (before == after) {
      return bytes;
    }
  }
  return std::nullopt;
}

Result<DeviceStatistics, std::string> read_device(const std::string& path,
                                                  const FabricMember& member) {
  const auto failure = [&](std::string_view why) {
    return std::unexpected(
        fmt::format("process {} with {}: {}", member.pid, member.device_name, why));
  };
  auto fd = sys::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) {
    return failure(sys::error_text(-fd.error()));
  }
  struct stat status{};
  HeaderImage image{};
  if (sys::fstat(fd->get(), status) < 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != sys::effective_user_id() || !read_object(*fd, 0, image.bytes) ||
      image.get().magic != stats_magic) {
    return failure(path + " is no statistics file");
  }
  const StatsHeader& header = image.get();
  if (header.version != stats_version || header.names_hash != hash_of_counter_names()) {
    return failure("it runs another version of Verbena, which counts other things");
  }
  const auto bytes =
      is_sound(header, static_cast<std::uint64_t>(status.st_size)) && header.life == member.life
          ? read_snapshot(*fd, header.listed_qps)
          : std::nullopt;
  if (!bytes) {
    return failure(path + " is damaged");
  }
  SnapshotHead head{};
  std::memcpy(&head, bytes->data(), sizeof(head));
  DeviceStatistics device{
      .life = member.life,
      .pid = member.pid,
      .program = text_of(header.program),
      .device = text_of(header.device),
      .published = Time(Duration(head.time)),
      .objects = {.pds = head.pds, .mrs = head.mrs, .cqs = head.cqs, .qps = head.qps},
      .counters = head.counters,
      .ways = head.ways,
      .qps = {}};
  for (std::uint32_t i = 0; i < std::min(head.qps_listed, header.listed_qps); ++i) {
    QpRecord record{};
    std::memcpy(&record, bytes->data() + sizeof(SnapshotHead) + i * sizeof(record), sizeof(record));
    if (auto qp = statistics_of(record)) {
      device.qps.push_back(*qp);
    }
  }
  return device;
}

}  // namespace

std::string stats_path(const std::string& fabric_path, std::uint32_t slot) {
  return fmt::format("{}.{}.stats", fabric_path, slot);
}

Result<FabricStatistics, std::string> read_statistics(const std::string& fabric_path) {
  auto members = list_members(fabric_path);
  if (!members) {
    return std::unexpected(std::move(members.error()));
  }
  FabricStatistics statistics;
  for (const FabricMember& member : *members) {
    const std::string path = stats_path(fabric_path, member.slot);
    struct stat status{};
    if (sys::lstat(path, status) == -ENOENT) {
      continue;
    }
    auto device = read_device(path, member);
    if (device) {
      statistics.devices.push_back(std::move(*device));
    } else {
      statistics.failures.push_back(std::move(device.error()));
    }
  }
  return statistics;
}

}  // namespace verbena::ports
