// An event that a program has fetched.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"
#include "verbs/rdma_cm/abi.h"
#include "verbs/rdma_cm/cm_id.h"

namespace verbena::rdma_cm {

struct FetchedEvent : rdma_cm_event {
  CmId* owner = nullptr;
  Multicast* multicast = nullptr;
  /// Programs are told the length in 8 bits.
  std::array<std::byte, 255> private_data{};

  /// What doesn't fit is cut off.
  void set_private_data(ByteView from) {
    const std::size_t length = std::min(from.size(), private_data.size());
    std::memcpy(private_data.data(), from.data(), length);
    param.conn.private_data = private_data.data();
    param.conn.private_data_len = static_cast<std::uint8_t>(length);
  }
};
static_assert(offsetof(rdma_conn_param, private_data) == offsetof(rdma_ud_param, private_data));
static_assert(offsetof(rdma_conn_param, private_data_len) ==
              offsetof(rdma_ud_param, private_data_len));

/// How datagrams reach that GID from where the identifier is.
[[nodiscard]] ibv_ah_attr address_of_peer(const CmId& id, const Gid& gid);

/// "port 7174 of 10.0.0.2".
[[nodiscard]] std::string peer_text(CmId& id);

}  // namespace verbena::rdma_cm
