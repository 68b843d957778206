// Queue pairs by number, in blocks of numbers that the Nic was given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "nic_model/qp.h"

namespace verbena::nic {

class QpTable {
 public:
  QpTable();
  void add_block(Qpn first, std::uint32_t count);
  /// A number that no queue pair has, and that was not in use for as long as possible: a late
  /// packet shall not meet a new queue pair under an old number. nullopt if all are taken.
  [[nodiscard]] std::optional<Qpn> take_number();
  /// `qp->qpn` came from take_number().
  Qp& insert(std::unique_ptr<Qp> qp);
  void erase(Qp& qp);
  [[nodiscard]] Qp* find(Qpn qpn) const;
  [[nodiscard]] std::uint32_t count() const { return count_; }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const Block& block : blocks_) {
      for (const auto& qp : block.qps) {
        if (qp) {
          visit(*qp);
        }
      }
    }
  }

 private:
  struct Block {
    std::uint32_t first;
    std::vector<std::unique_ptr<Qp>> qps;
    /// Where the search for a free number goes on.
    std::uint32_t next = 0;
    /// Numbers with a meaning of their own, which nobody is given by chance.
    bool reserved = false;
  };

  [[nodiscard]] std::unique_ptr<Qp>* slot(Qpn qpn);

  std::vector<Block> blocks_;
  std::uint32_t count_ = 0;
};

}  // namespace verbena::nic
