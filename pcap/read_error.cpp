#include "pcap/read_error.h"

#include <cstring>

namespace verbena::pcap {

ReadError system_error(std::uint64_t offset, int error_number) {
  std::string text = std::strerror(error_number);
  if (offset != 0) {
    text = "can't read on at byte " + std::to_string(offset) + ": " + text;
  }
  return {.kind = ReadError::Kind::system, .offset = offset, .text = text};
}

ReadError truncated_error(std::uint64_t end, std::uint64_t start, std::string_view what) {
  return {.kind = ReadError::Kind::truncated,
          .offset = end,
          .text = "truncated at byte " + std::to_string(end) + ", inside the " + std::string(what) +
                  " that begins at byte " + std::to_string(start)};
}

ReadError garbage_error(std::uint64_t offset, std::string_view what) {
  return {.kind = ReadError::Kind::garbage,
          .offset = offset,
          .text = "garbage at byte " + std::to_string(offset) + ": " + std::string(what)};
}

ReadError link_type_error(std::uint64_t offset, std::string_view link_type) {
  return {.kind = ReadError::Kind::unsupported,
          .offset = offset,
          .text = "the frames are not Ethernet but of link type " + std::string(link_type)};
}

}  // namespace verbena::pcap
