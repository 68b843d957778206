// Memory that the peer writes to directly: riomap() and riowrite().

#include <algorithm>
#include <boost/endian/conversion.hpp>

#include "verbs/rdma_cm/rsocket/memory.h"
#include "verbs/rdma_cm/rsocket/stream.h"

namespace verbena::rsocket {

Result<std::uint64_t, Errno> Stream::map(void* memory, std::size_t length, bool writable,
                                         std::uint64_t offset) {
  const std::lock_guard guard(mutex_);
  LocalMap* place = nullptr;
  if (writable) {
    // Entries of the peer's list, by their number.
    for (int i = 0; i < remote_map_entries_ && place == nullptr; ++i) {
      const auto taken = std::ranges::find_if(
          maps_, [&](const LocalMap& map) { return map.index == i && map.mr != nullptr; });
      if (taken == maps_.end()) {
        place = &maps_.emplace_back();
        place->index = i;
      }
    }
    if (place == nullptr) {
      return std::unexpected(ENOMEM);
    }
  } else {
    place = &maps_.emplace_back();
  }
  const int access = IBV_ACCESS_LOCAL_WRITE | (writable ? IBV_ACCESS_REMOTE_WRITE : 0);
  place->mr = ibv_reg_mr(id_.pd, memory, length, access);
  if (place->mr == nullptr) {
    const Errno error = errno;
    maps_.pop_back();
    return std::unexpected(error);
  }
  place->offset = offset;
  place->announced = !writable;
  process();
  return offset;
}

void Stream::announce_maps() {
  for (LocalMap& map : maps_) {
    if (map.announced || send_slots_ == 0 || sent_ == granted_) {
      continue;
    }
    MapEntry entry{.offset = map.offset,
                   .memory = {.address = address_of(map.mr->addr),
                              .key = map.mr->rkey,
                              .length = static_cast<std::uint32_t>(map.mr->length)}};
    if (swaps_bytes_) {
      boost::endian::endian_reverse_inplace(entry.offset);
      swap_bytes(entry.memory);
    }
    ibv_sge sge{.addr = address_of(&entry), .length = sizeof entry, .lkey = 0};
    const auto index = static_cast<std::uint32_t>(map.index);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr =
        remote_targets_.address + remote_targets_.length * sizeof(Sge) + index * sizeof(MapEntry);
    wr.wr.rdma.rkey = remote_targets_.key;
    --send_slots_;
    ++sent_;
    map.announced = true;
    post_with_message(wr, {.operation = Operation::map, .value = index}, 0);
  }
}

Errno Stream::unmap(const void* memory, std::size_t length) {
  const std::lock_guard guard(mutex_);
  const auto found = std::ranges::find_if(maps_, [&](const LocalMap& map) {
    return map.mr->addr == memory && map.mr->length == length;
  });
  if (found == maps_.end()) {
    return EINVAL;
  }
  ibv_dereg_mr(found->mr);
  maps_.erase(found);
  return 0;
}

Result<std::size_t, Errno> Stream::write_at(std::span<const std::byte> bytes, std::uint64_t offset,
                                            const Patience& patience) {
  std::unique_lock lock(mutex_);
  process();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::uint64_t at = offset + done;
    const auto map = std::ranges::find_if(remote_maps_, [&](const MapEntry& each) {
      return at >= each.offset && at - each.offset < each.memory.length;
    });
    if (map == remote_maps_.end()) {
      break;
    }
    const MapEntry entry = *map;
    Errno error = wait(lock, patience, [&] { return has_send_room() || !writable_; });
    error = error == 0 && !writable_ ? ECONNRESET : error;
    if (error != 0) {
      return done > 0 ? Result<std::size_t, Errno>(done) : std::unexpected(error);
    }
    const std::uint64_t inside = at - entry.offset;
    const std::size_t length = std::min({bytes.size() - done, write_bytes_max, send_free_,
                                         std::size_t{entry.memory.length - inside}});
    std::span from = bytes.subspan(done, length);
    post_from_ring(length,
                   {.address = entry.memory.address + inside, .key = entry.memory.key, .length = 0},
                   nullptr, [&](std::span<std::byte> piece) {
                     std::ranges::copy(from.first(piece.size()), piece.begin());
                     from = from.subspan(piece.size());
                   });
    done += length;
  }
  return done;
}

}  // namespace verbena::rsocket
