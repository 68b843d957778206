#include "nic_model/device_profile.h"

namespace verbena::nic {

const DeviceProfile& default_profile() noexcept {
  static constexpr DeviceProfile profile{};
  return profile;
}

}  // namespace verbena::nic
