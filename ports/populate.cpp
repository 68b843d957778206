#include "ports/populate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace verbena::ports {
namespace {

/// mincore() fails with ENOMEM where nothing is mapped; protections it doesn't tell.
bool is_mapped(std::uintptr_t start, std::size_t bytes, std::size_t page) {
  std::array<unsigned char, 4096> residency;
  const std::size_t step = residency.size() * page;
  for (std::size_t done = 0; done < bytes; done += step) {
    auto* part = reinterpret_cast<void*>(start + done);
    if (::mincore(part, std::min(step, bytes - done), residency.data()) != 0) {
      return false;
    }
  }
  return true;
}

/// MADV_POPULATE_* exist since Linux 5.14; before, they are invalid arguments for every memory.
bool kernel_can_populate() {
  static const bool can = [] {
    alignas(4096) static std::array<unsigned char, 4096> probe;
    return ::madvise(probe.data(), probe.size(), MADV_POPULATE_READ) == 0;
  }();
  return can;
}

class ProcessPager final : public nic::Pager {
 public:
  bool make_present(std::byte* start, std::uint64_t bytes, bool for_writing) noexcept override {
    // The Nic may run inside a verb of the program's that leaves errno alone.
    const int errno_before = errno;
    const bool present = populate(start, bytes, for_writing) == 0;
    errno = errno_before;
    return present;
  }
};

}  // namespace

nic::Pager& process_pager() noexcept {
  static ProcessPager pager;
  return pager;
}

int populate(void* start, std::size_t bytes, bool for_writing) noexcept {
  const auto page = static_cast<std::size_t>(::getpagesize());
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  if (bytes == 0 || first + bytes < first || first + bytes + page < first) {
    return EINVAL;
  }
  const std::uintptr_t aligned_first = first & ~(page - 1);
  const std::uintptr_t aligned_end = (first + bytes + page - 1) & ~(page - 1);
  if (!kernel_can_populate()) {
    return is_mapped(aligned_first, aligned_end - aligned_first, page) ? 0 : EFAULT;
  }
  const int advice = for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  int failed = 0;
  do {
    failed = ::madvise(reinterpret_cast<void*>(aligned_first), aligned_end - aligned_first, advice);
  } while (failed != 0 && errno == EINTR);
  // Whatever it was, unmapped (ENOMEM), not permitted (EINVAL) or beyond the end of a file
  // (EFAULT): pinning the pages for a real NIC fails with EFAULT.
  return failed == 0 ? 0 : EFAULT;
}

}  // namespace verbena::ports
