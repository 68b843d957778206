// What a device tells of itself: attributes, port, GID table, partition keys.

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "proto/work.h"
#include "verbs/context.h"
#include "verbs/errors.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {
namespace {

constexpr std::uint32_t port_count = 1;

// Codes of the port attributes (IBTA vol 1, 14.2.5.6 PortInfo); the header names none of them.
constexpr std::uint8_t phys_state_disabled = 3;
constexpr std::uint8_t phys_state_link_up = 5;
constexpr std::uint8_t width_4x = 2;
constexpr std::uint8_t speed_25_gbps = 32;
/// Of ibv_port_attr::flags: an address handle without a GRH is refused, as on all RoCE ports.
constexpr std::uint8_t port_flag_grh_required = 1;

/// Of ibv_device_cap_flags, what the NIC keeps. The rest is about counters and ports that it
/// doesn't have, or about raw packets.
constexpr std::uint32_t kept_cap_flags =
    IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE |
    IBV_DEVICE_XRC;

/// One tick is a nanosecond.
constexpr std::uint64_t core_clock_khz = 1'000'000;

bool is_port(std::uint32_t port) { return port == port_count; }

bool is_rnic(Context& context) {
  return context.opened.config.technology == nic::Technology::iwarp;
}

/// Of RoCE: the default partition is the only one.
int pkey_count(Context& context) { return is_rnic(context) ? 0 : 1; }

const std::vector<nic::GidEntry>& gid_table(Context& context) {
  return context.engine().peek().config().gids;
}

/// With the rows that are empty.
std::size_t gid_table_rows(Context& context) {
  const std::size_t rows = context.engine().peek().profile().gid_table_rows;
  return std::max(rows, gid_table(context).size());
}

int clamp_to_int(std::uint64_t value) {
  return static_cast<int>(std::min<std::uint64_t>(value, std::numeric_limits<int>::max()));
}

void fill_device_attr(Context& context, ibv_device_attr& attr) {
  const nic::DeviceProfile& profile = context.engine().peek().profile();
  const std::uint64_t guid = context.engine().peek().config().node_guid;
  attr = {};
  const std::size_t length = std::min(profile.fw_ver.size(), sizeof attr.fw_ver - 1);
  std::memcpy(attr.fw_ver, profile.fw_ver.data(), length);
  attr.node_guid = htobe64(guid);
  attr.sys_image_guid = htobe64(guid);
  attr.max_mr_size = profile.mr_bytes_max;
  attr.page_size_cap = profile.page_size_cap;
  attr.vendor_id = profile.vendor_id;
  attr.vendor_part_id = profile.vendor_part_id;
  attr.hw_ver = profile.hw_ver;
  attr.max_qp = clamp_to_int(profile.qp_max);
  attr.max_qp_wr = clamp_to_int(profile.qp_wr_max);
  attr.device_cap_flags = profile.cap_flags & kept_cap_flags;
  attr.max_sge = clamp_to_int(profile.sge_max);
  attr.max_sge_rd = clamp_to_int(profile.sge_read_max);
  attr.max_cq = clamp_to_int(profile.cq_max);
  attr.max_cqe = clamp_to_int(profile.cqe_max);
  attr.max_mr = clamp_to_int(profile.mr_max);
  attr.max_srq = clamp_to_int(profile.srq_max);
  attr.max_srq_wr = clamp_to_int(profile.srq_wr_max);
  attr.max_srq_sge = clamp_to_int(profile.srq_sge_max);
  attr.max_mw = clamp_to_int(profile.mw_max);
  attr.max_pd = clamp_to_int(profile.pd_max);
  attr.max_ah = clamp_to_int(profile.ah_max);
  attr.max_mcast_grp = clamp_to_int(profile.mcast_group_max);
  attr.max_mcast_qp_attach = clamp_to_int(profile.mcast_group_qp_max);
  attr.max_total_mcast_qp_attach =
      clamp_to_int(std::uint64_t{profile.mcast_group_max} * profile.mcast_group_qp_max);
  attr.max_qp_rd_atom = profile.qp_rd_atom_max;
  attr.max_qp_init_rd_atom = profile.qp_rd_atom_max;
  attr.max_res_rd_atom = clamp_to_int(profile.res_rd_atom_max.value_or(
      clamp_to_int(std::uint64_t{profile.qp_max} * profile.qp_rd_atom_max)));
  attr.atomic_cap = static_cast<ibv_atomic_cap>(profile.atomic_cap);
  attr.max_pkeys = profile.pkeys_max;
  attr.local_ca_ack_delay = profile.local_ca_ack_delay;
  attr.phys_port_cnt = port_count;
}

static_assert(nic::odp::implicit == IBV_ODP_SUPPORT_IMPLICIT);
static_assert(nic::odp::srq_recv == IBV_ODP_SUPPORT_SRQ_RECV);

/// By default everything: the NIC is a part of the process and reaches memory as its threads do.
ibv_odp_caps odp_caps(const nic::OdpCaps& caps) {
  return {.general_caps = caps.general,
          .per_transport_caps = {
              .rc_odp_caps = caps.rc, .uc_odp_caps = caps.uc, .ud_odp_caps = caps.ud}};
}

/// Of all queue pairs that send.
ibv_packet_pacing_caps pacing_caps(const nic::DeviceProfile& profile) {
  if (profile.rate_limit_kbps_max == 0) {
    return {};
  }
  return {.qp_rate_limit_min = 1,
          .qp_rate_limit_max = profile.rate_limit_kbps_max,
          .supported_qpts =
              1U << IBV_QPT_RC | 1U << IBV_QPT_UC | 1U << IBV_QPT_UD | 1U << IBV_QPT_XRC_SEND};
}

/// Copies as much of an extensible struct as the program knows, so that programs compiled against a
/// shorter or longer version of it work.
template <class Attr>
void copy_known_part(void* to, std::size_t bytes, const Attr& from) {
  std::memset(to, 0, bytes);
  std::memcpy(to, &from, std::min(bytes, sizeof from));
}

void fill_gid_entry(Context& context, std::uint32_t index, ibv_gid_entry& entry) {
  const nic::GidEntry& row = gid_table(context)[index];
  entry = {};
  std::memcpy(entry.gid.raw, row.gid.bytes.data(), sizeof entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = port_count;
  const bool is_v2 = row.type == nic::GidEntry::Type::roce_v2;
  // Linux has no type of its own for the rows of an iWARP device.
  entry.gid_type = is_rnic(context) ? IBV_GID_TYPE_IB
                   : is_v2          ? IBV_GID_TYPE_ROCE_V2
                                    : IBV_GID_TYPE_ROCE_V1;
}

}  // namespace

int query_port(ibv_context* base, std::uint8_t port, ibv_port_attr* attr,
               std::size_t attr_bytes) noexcept {
  Context& context = Context::of(base);
  if (!is_port(port)) {
    return EINVAL;
  }
  const nic::NicConfig& config = context.engine().peek().config();
  ibv_port_attr known{};
  const bool is_active = !context.is_dead() && context.engine().with_nic([](nic::Nic& nic, Time) {
    return nic.is_port_active();
  });
  known.state = is_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  known.max_mtu = IBV_MTU_4096;
  known.active_mtu = static_cast<ibv_mtu>(config.mtu_max);
  known.gid_tbl_len = clamp_to_int(gid_table_rows(context));
  const nic::DeviceProfile& profile = context.engine().peek().profile();
  known.port_cap_flags = profile.port_cap_flags;
  known.max_msg_sz = static_cast<std::uint32_t>(profile.send_bytes_max);
  known.pkey_tbl_len = static_cast<std::uint16_t>(pkey_count(context));
  known.max_vl_num = 1;
  known.active_width = width_4x;
  known.active_speed = speed_25_gbps;
  known.phys_state = is_active ? phys_state_link_up : phys_state_disabled;
  known.link_layer = IBV_LINK_LAYER_ETHERNET;
  known.flags = is_rnic(context) ? 0 : port_flag_grh_required;
  copy_known_part(attr, attr_bytes, known);
  return 0;
}

int query_device_ex(ibv_context* base, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t attr_bytes) noexcept {
  if (input != nullptr && input->comp_mask != 0) {
    return EINVAL;
  }
  ibv_device_attr_ex known{};
  fill_device_attr(Context::of(base), known.orig_attr);
  const nic::DeviceProfile& profile = Context::of(base).engine().peek().profile();
  if (profile.has_timestamps) {
    // Completions carry CLOCK_MONOTONIC, all 64 bits of it.
    known.completion_timestamp_mask = ~std::uint64_t{0};
    known.hca_core_clock = core_clock_khz;
  }
  known.device_cap_flags_ex = known.orig_attr.device_cap_flags;
  known.phys_port_cnt_ex = port_count;
  known.odp_caps = odp_caps(profile.odp);
  known.cq_mod_caps.max_cq_count = static_cast<std::uint16_t>(profile.cq_moderation_count_max);
  known.cq_mod_caps.max_cq_period = static_cast<std::uint16_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(profile.cq_moderation_period_max)
          .count());
  known.packet_pacing_caps = pacing_caps(profile);
  known.xrc_odp_caps = profile.odp.xrc;
  known.max_dm_size = profile.dm_bytes_max;
  copy_known_part(attr, attr_bytes, known);
  return 0;
}

int query_rt_values(ibv_context* base, ibv_values_ex* values) noexcept {
  if (!Context::of(base).engine().peek().profile().has_timestamps) {
    return EOPNOTSUPP;
  }
  const bool asks_for_clock = (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0;
  values->comp_mask = 0;
  if (asks_for_clock) {
    const auto now = ports::Engine::now().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
    values->raw_clock.tv_sec = seconds.count();
    values->raw_clock.tv_nsec = (now - seconds).count();
    values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  }
  return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT int ibv_query_device(ibv_context* base, ibv_device_attr* attr) {
  if (is_real(base)) {
    return real_verbs().ibv_query_device(base, attr);
  }
  fill_device_attr(Context::of(base), *attr);
  return 0;
}

// Programs compiled before 2020 come in here, with a struct that ends before port_cap_flags2.
VERBENA_EXPORT int ibv_query_port(ibv_context* base, std::uint8_t port,
                                  _compat_ibv_port_attr* attr) {
  if (is_real(base)) {
    return real_verbs().ibv_query_port(base, port, attr);
  }
  return query_port(base, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

VERBENA_EXPORT int ibv_query_gid(ibv_context* base, std::uint8_t port, int index, ibv_gid* gid) {
  if (is_real(base)) {
    return real_verbs().ibv_query_gid(base, port, index, gid);
  }
  Context& context = Context::of(base);
  if (!is_port(port) || index < 0 || static_cast<std::size_t>(index) >= gid_table_rows(context)) {
    return minus_one(EINVAL);
  }
  const auto& table = gid_table(context);
  const auto row = static_cast<std::size_t>(index);
  const Gid known = row < table.size() ? table[row].gid : Gid{};
  std::memcpy(gid->raw, known.bytes.data(), sizeof gid->raw);
  return 0;
}

VERBENA_EXPORT int _ibv_query_gid_ex(ibv_context* base, std::uint32_t port, std::uint32_t index,
                                     ibv_gid_entry* entry, std::uint32_t flags,
                                     std::size_t entry_bytes) {
  if (is_real(base)) {
    return real_verbs()._ibv_query_gid_ex(base, port, index, entry, flags, entry_bytes);
  }
  Context& context = Context::of(base);
  if (flags != 0) {
    return EOPNOTSUPP;
  }
  if (!is_port(port) || index >= gid_table_rows(context)) {
    return EINVAL;
  }
  if (index >= gid_table(context).size()) {
    return ENODATA;
  }
  ibv_gid_entry known;
  fill_gid_entry(context, index, known);
  copy_known_part(entry, entry_bytes, known);
  return 0;
}

VERBENA_EXPORT ssize_t _ibv_query_gid_table(ibv_context* base, ibv_gid_entry* entries,
                                            std::size_t entries_max, std::uint32_t flags,
                                            std::size_t entry_bytes) {
  if (is_real(base)) {
    return real_verbs()._ibv_query_gid_table(base, entries, entries_max, flags, entry_bytes);
  }
  Context& context = Context::of(base);
  const auto count = static_cast<std::uint32_t>(gid_table(context).size());
  if (flags != 0) {
    return -EOPNOTSUPP;
  }
  if (count > entries_max) {
    return -EINVAL;
  }
  auto* to = reinterpret_cast<std::byte*>(entries);
  for (std::uint32_t index = 0; index < count; ++index, to += entry_bytes) {
    ibv_gid_entry known;
    fill_gid_entry(context, index, known);
    copy_known_part(to, entry_bytes, known);
  }
  return count;
}

VERBENA_EXPORT int ibv_query_pkey(ibv_context* base, std::uint8_t port, int index, __be16* pkey) {
  if (is_real(base)) {
    return real_verbs().ibv_query_pkey(base, port, index, pkey);
  }
  if (!is_port(port) || index < 0 || index >= pkey_count(Context::of(base))) {
    return minus_one(EINVAL);
  }
  *pkey = htons(to_value(pkey_default));
  return 0;
}

VERBENA_EXPORT int ibv_get_pkey_index(ibv_context* base, std::uint8_t port, __be16 pkey) {
  if (is_real(base)) {
    return real_verbs().ibv_get_pkey_index(base, port, pkey);
  }
  if (!is_port(port) || pkey_count(Context::of(base)) == 0 ||
      pkey != htons(to_value(pkey_default))) {
    return minus_one(EINVAL);
  }
  return 0;
}

// A sibling of the public query in the private version node; ibv_devinfo and pyverbs use it. Its
// types are those of sysfs, numbered unlike ibv_gid_type: 0 is "IB/RoCE v1" (and an empty row), 1
// is "RoCE v2".
VERBENA_EXPORT int ibv_query_gid_type(ibv_context* base, std::uint8_t port, unsigned index,
                                      unsigned* type) {
  if (is_real(base)) {
    return real_verbs().ibv_query_gid_type(base, port, index, type);
  }
  Context& context = Context::of(base);
  if (!is_port(port) || index >= gid_table_rows(context)) {
    return minus_one(EINVAL);
  }
  const auto& table = gid_table(context);
  const bool is_v2 = index < table.size() && table[index].type == nic::GidEntry::Type::roce_v2;
  *type = is_v2 ? 1 : 0;
  return 0;
}
