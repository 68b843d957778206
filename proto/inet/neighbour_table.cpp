#include "proto/inet/neighbour_table.h"

#include <algorithm>
#include <tuple>

namespace verbena::inet {

NeighbourTable::Entry* NeighbourTable::entry_of(const Ipv6Address& address) {
  if (last_hit_ < entries_.size() && entries_[last_hit_].address == address) {
    return &entries_[last_hit_];
  }
  const auto found = std::ranges::find(entries_, address, &Entry::address);
  if (found == entries_.end()) {
    return nullptr;
  }
  last_hit_ = static_cast<std::size_t>(found - entries_.begin());
  return &*found;
}

NeighbourTable::Entry& NeighbourTable::add(const Ipv6Address& address, bool wanted, Time now) {
  if (entries_.size() < neighbours_max) {
    entries_.push_back({});
  } else {
    ++evicted_;
    // Those that nobody looked for go first, then the one that was not used for the longest time.
    const auto oldest = std::ranges::min_element(
        entries_, {}, [](const Entry& entry) { return std::tuple(entry.wanted, entry.last_used); });
    std::swap(*oldest, entries_.back());
  }
  Entry& entry = entries_.back();
  entry = {.address = address, .wanted = wanted, .last_used = now};
  return entry;
}

void NeighbourTable::ask(Entry& entry, State state, Time now) {
  entry.state = state;
  entry.questions = 0;
  entry.until = now;
  next_timeout_ = std::min(next_timeout_, now);
}

NeighbourAnswer NeighbourTable::find(const Ipv6Address& address, Time now) {
  using Kind = NeighbourAnswer::Kind;
  Entry* entry = entry_of(address);
  if (entry == nullptr) {
    entry = &add(address, true, now);
    ask(*entry, State::asked, now);
  }
  entry->wanted = true;
  entry->last_used = now;
  if (entry->state == State::given_up && entry->until <= now) {
    ask(*entry, State::asked, now);
  } else if (entry->state == State::known && entry->until <= now) {
    ask(*entry, State::probed, now);
  }
  switch (entry->state) {
    case State::asked:
      return {.kind = Kind::pending};
    case State::known:
    case State::probed:
      return {.kind = Kind::known, .mac = entry->mac};
    case State::given_up:
      break;
  }
  return {};
}

void NeighbourTable::learn(const Ipv6Address& address, const MacAddress& mac, bool wanted,
                           Time now) {
  Entry* entry = entry_of(address);
  if (entry == nullptr) {
    if (!wanted) {
      return;
    }
    entry = &add(address, false, now);
  }
  entry->mac = mac;
  entry->state = State::known;
  entry->until = now + neighbour_validity;
  next_timeout_ = time_of_next_question();
}

Time NeighbourTable::time_of_next_question() const {
  Time next = time_never;
  for (const Entry& entry : entries_) {
    if (entry.state == State::asked || entry.state == State::probed) {
      next = std::min(next, entry.until);
    }
  }
  return next;
}

std::optional<NeighbourTable::Question> NeighbourTable::next_question(Time now) {
  if (now < next_timeout_) {
    return std::nullopt;
  }
  std::optional<Question> question;
  for (Entry& entry : entries_) {
    if (entry.state != State::asked && entry.state != State::probed) {
      continue;
    }
    if (entry.until <= now && entry.questions >= neighbour_questions_max) {
      entry.state = State::given_up;
      entry.until = now + neighbour_failure_validity;
      ++given_up_;
      continue;
    }
    if (entry.until <= now && !question) {
      ++entry.questions;
      entry.until = now + neighbour_question_interval;
      question = Question{.address = entry.address};
      if (entry.state == State::probed) {
        question->mac = entry.mac;
      }
    }
  }
  next_timeout_ = time_of_next_question();
  return question;
}

void NeighbourTable::forget_failures() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.state == State::given_up; });
}

}  // namespace verbena::inet
