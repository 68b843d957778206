#include "cli/tcp_follower.h"

#include <algorithm>

namespace verbena::cli {

std::size_t TcpFollower::add(std::uint32_t sequence, bool is_syn, ByteView payload,
                             std::vector<std::byte>& out) {
  if (is_syn) {
    // A SYN takes a sequence number of its own (RFC 9293, 3.4). Again: another connection.
    *this = TcpFollower();
    next_ = ++sequence;
  }
  if (payload.empty() || is_lost_) {
    return 0;
  }
  if (!next_) {
    next_ = sequence;
  }
  // Serial arithmetic: what lies before the next byte was seen already.
  const auto distance = static_cast<std::int32_t>(sequence - *next_);
  if (distance > 0) {
    auto& slot = waiting_[position_ + static_cast<std::uint64_t>(distance)];
    if (slot.size() < payload.size()) {
      waiting_bytes_ += payload.size() - slot.size();
      slot.assign(payload.begin(), payload.end());
    }
    is_lost_ = waiting_bytes_ > waiting_bytes_max;
    return 0;
  }
  const auto take = [&](ByteView bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    position_ += bytes.size();
    *next_ += static_cast<std::uint32_t>(bytes.size());
  };
  const auto seen = static_cast<std::size_t>(-std::int64_t{distance});
  const ByteView news = payload.subspan(std::min(seen, payload.size()));
  take(news);
  while (!waiting_.empty() && waiting_.begin()->first <= position_) {
    const auto first = waiting_.extract(waiting_.begin());
    const ByteView bytes = first.mapped();
    waiting_bytes_ -= bytes.size();
    const auto known = static_cast<std::size_t>(position_ - first.key());
    if (known < bytes.size()) {
      take(bytes.subspan(known));
    }
  }
  return news.size();
}

}  // namespace verbena::cli
