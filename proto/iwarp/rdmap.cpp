#include "proto/iwarp/rdmap.h"

namespace verbena::iwarp {
namespace {

constexpr bool is_indexed_by_opcode() {
  for (std::size_t i = 0; i < rdmap_table.size(); ++i) {
    if (static_cast<std::size_t>(rdmap_table.at(i).opcode) != i) {
      return false;
    }
  }
  return true;
}
static_assert(is_indexed_by_opcode());

}  // namespace

const RdmapInfo* find_rdmap_info(std::uint8_t opcode) noexcept {
  return opcode < rdmap_table.size() ? &rdmap_table.at(opcode) : nullptr;
}

const RdmapInfo& rdmap_info(RdmapOpcode opcode) noexcept {
  return rdmap_table.at(static_cast<std::size_t>(opcode));
}

}  // namespace verbena::iwarp
