// The attributes of the NIC's objects, as the verbs know them (IBTA vol 1, chapters 10 and 11), in
// our own types. The values of the enumerators and mask bits are those of the verbs ABI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/gid.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"
#include "proto/memory_access.h"

namespace verbena::nic {

/// Why a command failed. The verbs layer turns each into an errno.
enum class NicError : std::uint8_t {
  /// An argument is out of its range or contradicts the object's state (EINVAL).
  invalid_argument,
  /// A limit of the device is reached (ENOMEM).
  limit_reached,
  /// Other objects still use this one (EBUSY; IBTA C11-17).
  busy,
  /// Not offered by this device (EOPNOTSUPP).
  unsupported,
  /// No QPN left: give the Nic another block (add_qpn_block) and call again.
  qpns_exhausted,
};

/// `gsi` is the general services interface, QPN 1: a UD queue pair of which a Nic has one, for a
/// connection manager (its Q_Key is qkey_gsi). The verbs have no such type; the value is that of
/// the kernel's ib_qp_type.
/// `xrc_initiator` only sends and `xrc_target` only receives (IBTA vol 1, annex A14).
enum class QpType : std::uint8_t {
  gsi = 1,
  rc = 2,
  uc = 3,
  ud = 4,
  xrc_initiator = 9,
  xrc_target = 10,
};

/// UD in all but its number.
[[nodiscard]] constexpr bool is_datagram(QpType type) {
  return type == QpType::ud || type == QpType::gsi;
}

/// The Q_Key of QPN 1 (IBTA vol 1, 3.5.3 and 16.3.1).
inline constexpr Qkey qkey_gsi{0x8001'0000};

/// Queue pair states (IBTA vol 1, 10.3.1).
enum class QpState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, err };

[[nodiscard]] const char* name_of(QpState state) noexcept;

/// Path MTU as the verbs code it: 256 << (code - 1) bytes.
enum class Mtu : std::uint8_t { mtu_256 = 1, mtu_512, mtu_1024, mtu_2048, mtu_4096 };

[[nodiscard]] constexpr std::uint32_t mtu_bytes(Mtu mtu) {
  return std::uint32_t{128} << static_cast<unsigned>(mtu);
}

/// Which attributes a modify_qp() carries: bit values of ibv_qp_attr_mask.
namespace qp_attr_mask {
inline constexpr std::uint32_t state = 1U << 0;
inline constexpr std::uint32_t cur_state = 1U << 1;
inline constexpr std::uint32_t en_sqd_async_notify = 1U << 2;
inline constexpr std::uint32_t access_flags = 1U << 3;
inline constexpr std::uint32_t pkey_index = 1U << 4;
inline constexpr std::uint32_t port = 1U << 5;
inline constexpr std::uint32_t qkey = 1U << 6;
inline constexpr std::uint32_t av = 1U << 7;
inline constexpr std::uint32_t path_mtu = 1U << 8;
inline constexpr std::uint32_t timeout = 1U << 9;
inline constexpr std::uint32_t retry_cnt = 1U << 10;
inline constexpr std::uint32_t rnr_retry = 1U << 11;
inline constexpr std::uint32_t rq_psn = 1U << 12;
inline constexpr std::uint32_t max_qp_rd_atomic = 1U << 13;
inline constexpr std::uint32_t alt_path = 1U << 14;
inline constexpr std::uint32_t min_rnr_timer = 1U << 15;
inline constexpr std::uint32_t sq_psn = 1U << 16;
inline constexpr std::uint32_t max_dest_rd_atomic = 1U << 17;
inline constexpr std::uint32_t path_mig_state = 1U << 18;
inline constexpr std::uint32_t cap = 1U << 19;
inline constexpr std::uint32_t dest_qpn = 1U << 20;
inline constexpr std::uint32_t rate_limit = 1U << 25;
}  // namespace qp_attr_mask

/// Address vector (IBTA vol 1, 11.2.2.1). RoCE needs a GRH always.
struct AddressVector {
  Gid dgid;
  std::uint32_t flow_label = 0;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t sl = 0;
  std::uint8_t port = 1;
  bool has_grh = false;
};

/// Path migration (IBTA vol 1, 17.2.8): values of ibv_mig_state.
enum class PathMigState : std::uint8_t { migrated = 0, rearm = 1, armed = 2 };

struct QpAttr {
  QpState state = QpState::reset;
  QpState cur_state = QpState::reset;
  bool en_sqd_async_notify = false;
  Access access_flags = Access::none;
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 1;
  Qkey qkey{};
  AddressVector av;
  Mtu path_mtu = Mtu::mtu_1024;
  /// ACK timeout code: 4.096 us * 2^timeout, 0 = never.
  std::uint8_t timeout = 0;
  std::uint8_t retry_cnt = 0;
  /// 7 = without end.
  std::uint8_t rnr_retry = 0;
  Psn rq_psn;
  Psn sq_psn;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  /// RNR NAK timer code (IBTA vol 1, table 45); 0 means 655.36 ms, not "fastest".
  std::uint8_t min_rnr_timer = 0;
  Qpn dest_qpn{};
  /// The second way to the peer.
  AddressVector alt_av;
  std::uint16_t alt_pkey_index = 0;
  std::uint8_t alt_port = 0;
  /// As timeout.
  std::uint8_t alt_timeout = 0;
  PathMigState path_mig_state = PathMigState::migrated;
};

struct QpCaps {
  std::uint32_t send_wr_max = 0;
  std::uint32_t recv_wr_max = 0;
  std::uint32_t send_sge_max = 0;
  std::uint32_t recv_sge_max = 0;
  std::uint32_t inline_bytes_max = 0;
};

/// A row of the GID table.
struct GidEntry {
  Gid gid;
  enum class Type : std::uint8_t { roce_v1, roce_v2 } type = Type::roce_v2;
  /// The VLAN that it is on, 1 to 4094: what it sends is tagged, with the service level as the
  /// priority, and what it receives must be. Without one, a tag has no VLAN (identifier 0).
  std::optional<std::uint16_t> vlan{};
};

/// Brings demand-paged memory into existence before it is touched. The owner of a Nic knows how;
/// the Nic knows when.
class Pager {
 public:
  virtual ~Pager() = default;
  /// False if the memory isn't there, or not for writing. At most memory_piece_bytes_max bytes.
  [[nodiscard]] virtual bool make_present(std::byte* start, std::uint64_t bytes,
                                          bool for_writing) noexcept = 0;
};

/// Brings memory to where it outlives a loss of power. The owner of a Nic knows how; a FLUSH tells
/// when.
class PersistentStore {
 public:
  virtual ~PersistentStore() = default;
  /// False if it can't be done.
  [[nodiscard]] virtual bool make_persistent(std::byte* start, std::uint64_t bytes) noexcept = 0;
};

/// What connections of a Nic are made of: packets in frames, or FPDUs in byte streams.
enum class Technology : std::uint8_t { roce, iwarp };

/// What the owner decides when it creates a Nic.
struct NicConfig {
  /// An iWARP device has only reliable connections, and they are streams.
  Technology technology = Technology::roce;
  std::uint64_t node_guid = 0;
  /// MTU of the port; a QP's path MTU may not exceed it.
  Mtu mtu_max = Mtu::mtu_4096;
  std::vector<GidEntry> gids;
  /// The ACK timer of a QP never runs shorter than this. Hardware has such a floor as well; in real
  /// time it absorbs the time for which the peer's process is not scheduled. 0 in the simulator.
  Duration ack_timeout_min{0};
  /// For regions registered with on_demand; must outlive the Nic. Without one, all of their memory
  /// is taken to be there.
  Pager* pager = nullptr;
  /// For regions registered with flush_persistent; must outlive the Nic. Without one, there are no
  /// such regions.
  PersistentStore* persistent_store = nullptr;
};

/// The Ethernet address of a port with that IPv4 address: 02:00 and then the address. Where there
/// is no ARP (in the host fabric and behind a UDP socket) both ends derive it alike.
[[nodiscard]] inet::MacAddress mac_of(inet::Ipv4Address address);
/// The Ethernet address of a GID: a group's own, or that of an IPv4 address, or the one that is in
/// a link-local address, or else 02:01 and the last 32 bits.
[[nodiscard]] inet::MacAddress mac_of(const Gid& gid);

/// Asynchronous events: values of ibv_event_type.
enum class AsyncEventType : std::uint8_t {
  cq_err = 0,
  qp_fatal = 1,
  qp_req_err = 2,
  qp_access_err = 3,
  comm_est = 4,
  sq_drained = 5,
  path_mig = 6,
  path_mig_err = 7,
  device_fatal = 8,
  port_active = 9,
  port_err = 10,
  srq_limit_reached = 15,
  qp_last_wqe_reached = 16,
  gid_change = 18,
};

[[nodiscard]] const char* name_of(AsyncEventType type) noexcept;
/// Whether a number is one of the enumerators.
[[nodiscard]] bool is_known(AsyncEventType type) noexcept;
/// All of them.
inline constexpr std::array async_event_types = {AsyncEventType::cq_err,
                                                 AsyncEventType::qp_fatal,
                                                 AsyncEventType::qp_req_err,
                                                 AsyncEventType::qp_access_err,
                                                 AsyncEventType::comm_est,
                                                 AsyncEventType::sq_drained,
                                                 AsyncEventType::path_mig,
                                                 AsyncEventType::path_mig_err,
                                                 AsyncEventType::device_fatal,
                                                 AsyncEventType::port_active,
                                                 AsyncEventType::port_err,
                                                 AsyncEventType::srq_limit_reached,
                                                 AsyncEventType::qp_last_wqe_reached,
                                                 AsyncEventType::gid_change};

}  // namespace verbena::nic
