#include "nic_model/qp_table.h"

#include <optional>
#include <utility>

#include "base/check.h"

namespace verbena::nic {

QpTable::QpTable() {
  add_block(qpn_gsi, 1);
  blocks_.back().reserved = true;
}

void QpTable::add_block(Qpn first, std::uint32_t count) {
  VERBENA_CHECK(std::uint64_t{to_value(first)} + count <= std::uint64_t{qpn_mask} + 1);
  Block& block = blocks_.emplace_back();
  block.first = to_value(first);
  block.qps.resize(count);
}

std::optional<Qpn> QpTable::take_number() {
  for (Block& block : blocks_) {
    const auto size = static_cast<std::uint32_t>(block.qps.size());
    for (std::uint32_t tried = 0; tried < size && !block.reserved; ++tried) {
      const std::uint32_t at = block.next;
      block.next = (block.next + 1) % size;
      if (!block.qps[at]) {
        return Qpn{block.first + at};
      }
    }
  }
  return std::nullopt;
}

Qp& QpTable::insert(std::unique_ptr<Qp> qp) {
  std::unique_ptr<Qp>* const place = slot(qp->qpn);
  VERBENA_CHECK(place != nullptr && !*place);
  *place = std::move(qp);
  ++count_;
  return **place;
}

void QpTable::erase(Qp& qp) {
  std::unique_ptr<Qp>* const place = slot(qp.qpn);
  VERBENA_CHECK(place != nullptr && place->get() == &qp);
  place->reset();
  --count_;
}

Qp* QpTable::find(Qpn qpn) const {
  for (const Block& block : blocks_) {
    const std::uint32_t at = to_value(qpn) - block.first;
    if (at < block.qps.size()) {
      return block.qps[at].get();
    }
  }
  return nullptr;
}

std::unique_ptr<Qp>* QpTable::slot(Qpn qpn) {
  for (Block& block : blocks_) {
    const std::uint32_t at = to_value(qpn) - block.first;
    if (at < block.qps.size()) {
      return &block.qps[at];
    }
  }
  return nullptr;
}

}  // namespace verbena::nic
