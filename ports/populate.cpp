#include "ports/populate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

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

bool populate_pages(std::uintptr_t start, std::size_t bytes, int advice) {
  int failed = 0;
  do {
    failed = ::madvise(reinterpret_cast<void*>(start), bytes, advice);
  } while (failed != 0 && errno == EINTR);
  return failed == 0;
}

struct Mapping {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
};

/// A line of /proc/self/maps, see proc_pid_maps(5): "55d0c1a0-55d0c2b0 rw-p ...".
Mapping mapping_of(const std::string& line) {
  constexpr int hexadecimal = 16;
  Mapping mapping;
  const char* const line_end = line.data() + line.size();
  const auto [dash, error] = std::from_chars(line.data(), line_end, mapping.start, hexadecimal);
  if (error == std::errc{} && dash != line_end) {
    std::from_chars(dash + 1, line_end, mapping.end, hexadecimal);
  }
  return mapping;
}

/// The first and the last page of each mapping, and that there is no gap between them. What the
/// kernel grants there it grants in between, but for the end of a file, which is at the end.
bool populate_edges(std::uintptr_t first, std::uintptr_t end, std::size_t page, int advice) {
  std::ifstream maps("/proc/self/maps");
  std::uintptr_t reached = first;
  for (std::string line; reached < end && std::getline(maps, line);) {
    const Mapping mapping = mapping_of(line);
    if (mapping.end <= reached) {
      continue;
    }
    if (mapping.start > reached) {
      return false;
    }
    const std::uintptr_t last = std::min(mapping.end, end) - page;
    if (!populate_pages(reached, page, advice) || !populate_pages(last, page, advice)) {
      return false;
    }
    reached = last + page;
  }
  return reached == end;
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
  const bool is_there = aligned_end - aligned_first > populated_bytes_max
                            ? populate_edges(aligned_first, aligned_end, page, advice)
                            : populate_pages(aligned_first, aligned_end - aligned_first, advice);
  // Whatever it was, unmapped (ENOMEM), not permitted (EINVAL) or beyond the end of a file
  // (EFAULT): pinning the pages for a real NIC fails with EFAULT.
  return is_there ? 0 : EFAULT;
}

}  // namespace verbena::ports
