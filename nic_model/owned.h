// Lists of objects that the Nic owns.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace verbena::nic {

/// Takes an object out of the list that owns it. The order doesn't matter: nothing iterates over
/// these lists.
template <class T>
void erase_owned(std::vector<std::unique_ptr<T>>& owner, const T& object) {
  const auto at = std::ranges::find(owner, &object, &std::unique_ptr<T>::get);
  VERBENA_CHECK(at != owner.end());
  std::swap(*at, owner.back());
  owner.pop_back();
}

}  // namespace verbena::nic
