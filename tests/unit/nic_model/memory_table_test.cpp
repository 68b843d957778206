// The memory table against a model so simple that it can be read: whatever is registered, bound,
// changed and taken away, an access is granted exactly if the model grants it, over all 64 bits of
// address and length.
#include "nic_model/memory_table.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "base/prng.h"

namespace verbena::test {

using nic::MemoryTable;
using nic::Mr;
using nic::Mw;
using nic::MwType;
using nic::Pd;

namespace {

constexpr Access remote_all = Access::remote_write | Access::remote_read | Access::remote_atomic;
constexpr Access flush_all = Access::flush_global | Access::flush_persistent;

constexpr Access operator&(Access a, Access b) { return Access{to_value(a) & to_value(b)}; }

/// Wide enough that no sum of the model wraps.
__extension__ using Wide = unsigned __int128;

/// One key as the model sees it.
struct Granted {
  PdId pd{};
  std::optional<Qpn> qpn{};
  Access access = Access::none;
  bool for_sges = true;
  Wide first = 0;
  Wide length = 0;
  std::uintptr_t host = 0;
};

/// Addresses and lengths where arithmetic goes wrong if it does.
std::uint64_t draw_number(Prng& prng) {
  static constexpr std::uint64_t corners[] = {
      0,          1,          4095,       4096,         4097,      0x7FFF'FFFF,
      1ULL << 31, 1ULL << 32, 1ULL << 63, ~0ULL - 4096, ~0ULL - 1, ~0ULL};
  const std::uint64_t corner = corners[prng.below(std::size(corners))];
  return prng.below(4) == 0 ? prng.next() : corner + prng.below(17) - 8;
}

/// Any of those that decide over an access.
Access draw_access(Prng& prng) {
  return Access{static_cast<std::uint32_t>(prng.below(64) | prng.below(4) << 8)};
}

/// Remembers what it was asked for.
struct Store final : nic::PersistentStore {
  bool make_persistent(std::byte* start, std::uint64_t bytes) noexcept override {
    first = reinterpret_cast<std::uintptr_t>(start);
    length = bytes;
    return true;
  }
  std::uintptr_t first = 0;
  std::uint64_t length = 0;
};

class Model {
 public:
  explicit Model(std::uint64_t seed)
      : prng_(seed), table_(nic::default_profile(), nullptr, &store_, seed) {}

  void step() {
    switch (prng_.below(10)) {
      case 0:
        return add_region();
      case 1:
        return add_window();
      case 2:
        return bind();
      case 3:
        return prng_.below(4) == 0 ? remove() : void();
      case 4:
        return prng_.below(4) == 0 ? invalidate() : void();
      case 5:
        return change_region();
      case 6:
        return flush();
      default:
        return look();
    }
  }

 private:
  [[nodiscard]] Pd& draw_pd() { return pds_[prng_.below(2)]; }
  [[nodiscard]] Qpn draw_qpn() { return Qpn{static_cast<std::uint32_t>(prng_.below(2))}; }

  void add_region() {
    Pd& pd = draw_pd();
    const Va iova{draw_number(prng_)};
    // The Nic refuses ranges that wrap; the table is never asked for one.
    const std::uint64_t length = std::min(draw_number(prng_), ~std::uint64_t{0} - to_value(iova));
    const auto host = reinterpret_cast<std::byte*>(prng_.next() >> 20);
    const Access access = draw_access(prng_);
    Mr* const mr =
        *table_.add({.host = host, .length = length, .iova = iova, .access = access, .pd = &pd});
    regions_.push_back(mr);
    granted_[to_value(mr->rkey)] = {.pd = pd.id,
                                    .access = access,
                                    .first = to_value(iova),
                                    .length = length,
                                    .host = reinterpret_cast<std::uintptr_t>(host)};
  }

  void change_region() {
    if (regions_.empty()) {
      return;
    }
    Mr& mr = *regions_[prng_.below(regions_.size())];
    if (mr.windows > 0) {
      return;
    }
    mr.iova = Va{draw_number(prng_)};
    mr.length = std::min(draw_number(prng_), ~std::uint64_t{0} - to_value(mr.iova));
    mr.access = draw_access(prng_);
    mr.pd = &draw_pd();
    table_.update(mr);
    granted_[to_value(mr.rkey)] = {.pd = mr.pd->id,
                                   .access = mr.access,
                                   .first = to_value(mr.iova),
                                   .length = mr.length,
                                   .host = reinterpret_cast<std::uintptr_t>(mr.host)};
  }

  void add_window() {
    const auto type = prng_.below(2) == 0 ? MwType::type_1 : MwType::type_2;
    windows_.push_back(*table_.add_window(draw_pd(), type));
  }

  void bind() {
    if (regions_.empty() || windows_.empty()) {
      return;
    }
    Mw& mw = *windows_[prng_.below(windows_.size())];
    const Mr& mr = *regions_[prng_.below(regions_.size())];
    const MemoryUser user{.pd = mw.pd->id, .qpn = draw_qpn()};
    const Rkey before = mw.rkey;
    const bool was_bound = mw.region != nullptr;
    const WindowBinding binding{
        .key = Rkey{(to_value(before) & 0xFFFF'FF00) | static_cast<std::uint8_t>(prng_.next())},
        .region = mr.lkey,
        .addr = mr.iova + prng_.below(mr.length == ~0ULL ? mr.length : mr.length + 1),
        .length = prng_.below(3) == 0 ? draw_number(prng_) : prng_.below(64),
        .access = draw_access(prng_)};
    const bool is_type_1 = mw.type == MwType::type_1;
    const bool may = may_bind(mw, mr, binding, was_bound);
    REQUIRE(table_.bind(user, binding).has_value() == may);
    if (!may) {
      return;
    }
    if (was_bound) {
      granted_.erase(to_value(before));
    }
    if (binding.length == 0) {
      return;
    }
    const bool zero_based = allows(binding.access, Access::zero_based);
    granted_[to_value(binding.key)] = {
        .pd = mw.pd->id,
        .qpn = is_type_1 ? std::nullopt : std::optional(user.qpn),
        .access = binding.access & (remote_all | (mr.access & flush_all)),
        .for_sges = false,
        .first = zero_based ? 0 : to_value(binding.addr),
        .length = binding.length,
        .host =
            reinterpret_cast<std::uintptr_t>(mr.host) + to_value(binding.addr) - to_value(mr.iova)};
  }

  [[nodiscard]] static bool may_bind(const Mw& mw, const Mr& mr, const WindowBinding& binding,
                                     bool was_bound) {
    const bool is_type_1 = mw.type == MwType::type_1;
    if (is_type_1 && binding.length == 0) {
      return true;
    }
    const bool writes = allows(binding.access, Access::remote_write) ||
                        allows(binding.access, Access::remote_atomic);
    const Wide end = static_cast<Wide>(to_value(binding.addr)) + binding.length;
    return (is_type_1 || !was_bound) && binding.length > 0 && mr.pd == mw.pd &&
           allows(mr.access, Access::mw_bind) && !allows(mr.access, Access::zero_based) &&
           (!writes || allows(mr.access, Access::local_write)) &&
           !(is_type_1 && allows(binding.access, Access::zero_based)) &&
           end <= static_cast<Wide>(to_value(mr.iova)) + mr.length;
  }

  void remove() {
    if (prng_.below(2) == 0 && !windows_.empty()) {
      const std::size_t at = prng_.below(windows_.size());
      granted_.erase(to_value(windows_[at]->rkey));
      table_.remove(*windows_[at]);
      windows_.erase(windows_.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    if (regions_.empty()) {
      return;
    }
    const std::size_t at = prng_.below(regions_.size());
    if (regions_[at]->windows == 0) {
      granted_.erase(to_value(regions_[at]->rkey));
      table_.remove(*regions_[at]);
      regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  void invalidate() {
    const std::uint32_t key = draw_key();
    const MemoryUser user{.pd = draw_pd().id, .qpn = draw_qpn()};
    const auto found = granted_.find(key);
    const bool may =
        found != granted_.end() && found->second.qpn == user.qpn && found->second.pd == user.pd;
    REQUIRE(table_.invalidate(user, Rkey{key}).has_value() == may);
    if (may) {
      granted_.erase(found);
    }
  }

  /// Mostly a key that opens something, or one beside it.
  [[nodiscard]] std::uint32_t draw_key() {
    if (granted_.empty() || prng_.below(8) == 0) {
      return static_cast<std::uint32_t>(prng_.next());
    }
    auto at = granted_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(prng_.below(granted_.size())));
    return prng_.below(8) == 0 ? at->first + 1 : at->first;
  }

  void look() {
    const std::uint32_t key = draw_key();
    const MemoryUser user{.pd = draw_pd().id, .qpn = draw_qpn()};
    const auto found = granted_.find(key);
    std::uint64_t va = draw_number(prng_);
    std::uint64_t length = draw_number(prng_);
    if (found != granted_.end() && prng_.below(2) == 0) {
      va = static_cast<std::uint64_t>(found->second.first + found->second.length / 2);
      length = prng_.below(64);
    }
    const Access needed = prng_.below(4) == 0 ? draw_access(prng_) : Access::none;
    for (const bool for_sge : {true, false}) {
      const bool may =
          found != granted_.end() && permits(found->second, user, for_sge, va, length, needed);
      const auto host = for_sge ? table_.local(user.pd, Lkey{key}, Va{va}, length, needed)
                                : table_.remote(user, Rkey{key}, Va{va}, length, needed);
      REQUIRE(host.has_value() == may);
      const auto checked = for_sge ? table_.check_local(user.pd, Lkey{key}, Va{va}, length, needed)
                                   : table_.check_remote(user, Rkey{key}, Va{va}, length, needed);
      REQUIRE(checked.has_value() == may);
      if (may) {
        const auto offset = static_cast<std::uintptr_t>(va - found->second.first);
        REQUIRE(reinterpret_cast<std::uintptr_t>(*host) == found->second.host + offset);
      }
    }
  }

  void flush() {
    const std::uint32_t key = draw_key();
    const MemoryUser user{.pd = draw_pd().id, .qpn = draw_qpn()};
    const auto found = granted_.find(key);
    const Flush what{.global_visibility = prng_.below(2) == 0,
                     .persistence = prng_.below(2) == 0,
                     .whole = prng_.below(2) == 0,
                     .length = static_cast<std::uint32_t>(draw_number(prng_))};
    std::uint64_t va = draw_number(prng_);
    if (found != granted_.end() && prng_.below(2) == 0) {
      va = static_cast<std::uint64_t>(found->second.first);
    }
    const Access needed = (what.global_visibility ? Access::flush_global : Access::none) |
                          (what.persistence ? Access::flush_persistent : Access::none);
    bool may = found != granted_.end();
    if (may) {
      const auto first = static_cast<std::uint64_t>(found->second.first);
      may = permits(found->second, user, false, what.whole ? first : va,
                    what.whole ? 0 : what.length, needed);
    }
    REQUIRE(table_.flush(user, Rkey{key}, Va{va}, what).has_value() == may);
    if (may && what.persistence) {
      const auto& granted = found->second;
      const auto offset = static_cast<std::uintptr_t>(va - granted.first);
      REQUIRE(store_.first == granted.host + (what.whole ? 0 : offset));
      REQUIRE(store_.length == (what.whole ? granted.length : what.length));
    }
  }

  [[nodiscard]] static bool permits(const Granted& granted, const MemoryUser& user, bool for_sge,
                                    std::uint64_t va, std::uint64_t length, Access needed) {
    const Wide begin = va;
    return (!for_sge || granted.for_sges) && granted.pd == user.pd &&
           (for_sge || !granted.qpn || *granted.qpn == user.qpn) &&
           allows(granted.access, needed) && begin >= granted.first &&
           begin + length <= granted.first + granted.length;
  }

  Prng prng_;
  Pd pds_[2] = {{.id = PdId{1}}, {.id = PdId{2}}};
  Store store_;
  MemoryTable table_;
  std::vector<Mr*> regions_;
  std::vector<Mw*> windows_;
  std::map<std::uint32_t, Granted> granted_;
};

}  // namespace

TEST_CASE("keys, rights and ranges are granted exactly as a simple model grants them") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Model model(seed);
    for (int i = 0; i < 1000; ++i) {
      INFO("seed " << seed << ", step " << i);
      model.step();
    }
  }
}

}  // namespace verbena::test
