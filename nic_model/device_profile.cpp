#include "nic_model/device_profile.h"

#include <algorithm>
#include <array>

#include "nic_model/profiles/cx5.h"
#include "nic_model/profiles/e810.h"
#include "nic_model/profiles/minimal.h"
#include "nic_model/profiles/rxe.h"
#include "nic_model/profiles/siw.h"
#include "proto/work.h"

namespace verbena::nic {

namespace {

constexpr DeviceProfile verbena_profile{};

constexpr std::array<const DeviceProfile*, 6> known = {
    &verbena_profile, &profiles::cx5, &profiles::e810,
    &profiles::rxe,   &profiles::siw, &profiles::minimal,
};

/// A profile takes away, it doesn't add.
constexpr bool is_possible(const DeviceProfile* profile) {
  return profile->sge_max <= sges_of_any_profile && profile->srq_sge_max <= sges_of_any_profile &&
         profile->sge_read_max <= profile->sge_max && profile->send_bytes_max <= message_bytes_max;
}
static_assert(std::ranges::all_of(known, is_possible));

}  // namespace

const DeviceProfile& default_profile() noexcept { return verbena_profile; }

std::span<const DeviceProfile* const> all_profiles() noexcept { return known; }

const DeviceProfile* find_profile(std::string_view name) noexcept {
  const auto found = std::ranges::find(known, name, &DeviceProfile::name);
  return found == known.end() ? nullptr : *found;
}

}  // namespace verbena::nic
