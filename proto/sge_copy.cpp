#include "proto/sge_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace verbena {

namespace {

/// Calls `visit(sge, offset in it, bytes)` for the pieces of [offset, offset + bytes) of a message.
/// Returns false as soon as a visit does, or if the SGEs end early.
template <class Visit>
bool for_each_piece(std::span<const Sge> sges, std::uint64_t offset, std::uint64_t bytes,
                    Visit visit) {
  for (const Sge& sge : sges) {
    if (bytes == 0) {
      return true;
    }
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::uint64_t piece = std::min<std::uint64_t>(bytes, sge.length - offset);
    if (!visit(sge, offset, piece)) {
      return false;
    }
    bytes -= piece;
    offset = 0;
  }
  return bytes == 0;
}

}  // namespace

bool sges_permit(MemoryAccess& memory, PdId pd, std::span<const Sge> sges, Access needed) {
  return std::ranges::all_of(sges, [&](const Sge& sge) {
    return sge.length == 0 || memory.check_local(pd, sge.lkey, sge.addr, sge.length, needed);
  });
}

bool gather(MemoryAccess& memory, PdId pd, std::span<const Sge> sges, std::uint64_t offset,
            MutableBytes to) {
  return for_each_piece(
      sges, offset, to.size(), [&](const Sge& sge, std::uint64_t at, std::uint64_t bytes) {
        const auto host = memory.local(pd, sge.lkey, sge.addr + at, bytes, Access::none);
        if (!host) {
          return false;
        }
        std::memcpy(to.data(), *host, bytes);
        to = to.subspan(bytes);
        return true;
      });
}

bool scatter(MemoryAccess& memory, PdId pd, std::span<const Sge> sges, std::uint64_t offset,
             ByteView from) {
  return for_each_piece(
      sges, offset, from.size(), [&](const Sge& sge, std::uint64_t at, std::uint64_t bytes) {
        const auto host = memory.local(pd, sge.lkey, sge.addr + at, bytes, Access::local_write);
        if (!host) {
          return false;
        }
        place(*host, from.first(bytes));
        from = from.subspan(bytes);
        return true;
      });
}

namespace {

/// The widest power of two, up to 8 bytes, that ends at `end` naturally aligned and fits `bytes`.
std::size_t tail_width(const std::byte* end, std::size_t bytes) {
  std::size_t width = 8;
  while (width > bytes || reinterpret_cast<std::uintptr_t>(end) % width != 0) {
    width /= 2;
  }
  return width;
}

template <class Word>
void store_tail(std::byte* to, const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  std::atomic_ref(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_release);
}

}  // namespace

void place(std::byte* to, ByteView from) {
  if (from.empty()) {
    return;
  }
  // memcpy may write the tail first. So the tail is stored after the rest, and as one word where
  // it is aligned: a flag or sequence number that the application watches is never seen torn.
  const std::size_t width = tail_width(to + from.size(), from.size());
  const std::size_t body = from.size() - width;
  std::memcpy(to, from.data(), body);
  switch (width) {
    case 8:
      return store_tail<std::uint64_t>(to + body, from.data() + body);
    case 4:
      return store_tail<std::uint32_t>(to + body, from.data() + body);
    case 2:
      return store_tail<std::uint16_t>(to + body, from.data() + body);
    default:
      return store_tail<std::uint8_t>(to + body, from.data() + body);
  }
}

}  // namespace verbena
