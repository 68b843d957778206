// Enumerators in words, and static rates in numbers. The words are those of rdma-core, because
// programs print them and people search for them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "verbs/abi.h"

namespace verbena::verbs {
namespace {

constexpr const char* unknown = "unknown";

constexpr std::array node_types = {
    unknown,
    "InfiniBand channel adapter",
    "InfiniBand switch",
    "InfiniBand router",
    "iWARP NIC",
    "usNIC",
    "usNIC UDP",
    "unspecified",
};
static_assert(node_types.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array port_states = {
    "no state change (NOP)", "down", "init", "armed", "active", "active defer",
};
static_assert(port_states.size() == IBV_PORT_ACTIVE_DEFER + 1);

constexpr std::array event_types = {
    "CQ error",
    "local work queue catastrophic error",
    "invalid request local work queue error",
    "local access violation work queue error",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration request error",
    "local catastrophic error",
    "port active",
    "port error",
    "LID change",
    "P_Key change",
    "SM change",
    "SRQ catastrophic error",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration",
    "GID table change",
    "WQ fatal",
};
static_assert(event_types.size() == IBV_EVENT_WQ_FATAL + 1);

constexpr std::array wc_statuses = {
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
    "TM error",
    "TM software rendezvous",
};
static_assert(wc_statuses.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

template <std::size_t size>
const char* name_of(const std::array<const char*, size>& names, int value) {
  return value >= 0 && static_cast<std::size_t>(value) < size
             ? names[static_cast<std::size_t>(value)]
             : unknown;
}

/// Static rates (IBTA vol 1, 14.2.5.18 and annex A5): data rate in Mb/s, and as a multiple of
/// 2.5 Gb/s where it is one (0 where not).
struct Rate {
  ibv_rate rate;
  int mbps;
  int multiple;
};

constexpr std::array rates = {
    Rate{IBV_RATE_2_5_GBPS, 2500, 1},       Rate{IBV_RATE_5_GBPS, 5000, 2},
    Rate{IBV_RATE_10_GBPS, 10000, 4},       Rate{IBV_RATE_20_GBPS, 20000, 8},
    Rate{IBV_RATE_30_GBPS, 30000, 12},      Rate{IBV_RATE_40_GBPS, 40000, 16},
    Rate{IBV_RATE_60_GBPS, 60000, 24},      Rate{IBV_RATE_80_GBPS, 80000, 32},
    Rate{IBV_RATE_120_GBPS, 120000, 48},    Rate{IBV_RATE_14_GBPS, 14062, 0},
    Rate{IBV_RATE_56_GBPS, 56250, 0},       Rate{IBV_RATE_112_GBPS, 112500, 0},
    Rate{IBV_RATE_168_GBPS, 168750, 0},     Rate{IBV_RATE_25_GBPS, 25781, 0},
    Rate{IBV_RATE_100_GBPS, 103125, 0},     Rate{IBV_RATE_200_GBPS, 206250, 0},
    Rate{IBV_RATE_300_GBPS, 309375, 0},     Rate{IBV_RATE_28_GBPS, 28125, 11},
    Rate{IBV_RATE_50_GBPS, 53125, 20},      Rate{IBV_RATE_400_GBPS, 425000, 160},
    Rate{IBV_RATE_600_GBPS, 637500, 240},   Rate{IBV_RATE_800_GBPS, 850000, 320},
    Rate{IBV_RATE_1200_GBPS, 1275000, 480},
};

template <class Member>
const Rate* find_rate(Member member, auto value) {
  const auto found = std::ranges::find(rates, value, member);
  return found == rates.end() ? nullptr : &*found;
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena::verbs;

VERBENA_EXPORT const char* ibv_node_type_str(ibv_node_type type) {
  return name_of(node_types, type);
}

VERBENA_EXPORT const char* ibv_port_state_str(ibv_port_state state) {
  return name_of(port_states, static_cast<int>(state));
}

VERBENA_EXPORT const char* ibv_event_type_str(ibv_event_type type) {
  return name_of(event_types, static_cast<int>(type));
}

VERBENA_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  return name_of(wc_statuses, static_cast<int>(status));
}

VERBENA_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  const Rate* found = find_rate(&Rate::rate, rate);
  return found == nullptr || found->multiple == 0 ? -1 : found->multiple;
}

VERBENA_EXPORT ibv_rate mult_to_ibv_rate(int multiple) {
  const Rate* found = multiple <= 0 ? nullptr : find_rate(&Rate::multiple, multiple);
  return found == nullptr ? IBV_RATE_MAX : found->rate;
}

VERBENA_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  const Rate* found = find_rate(&Rate::rate, rate);
  return found == nullptr ? -1 : found->mbps;
}

VERBENA_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  const Rate* found = find_rate(&Rate::mbps, mbps);
  return found == nullptr ? IBV_RATE_MAX : found->rate;
}
