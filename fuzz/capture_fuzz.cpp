// One hostile capture file, pcap or pcapng: packets, then an end or an error at an offset in it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "pcap/reader.h"

namespace verbena {
namespace {

/// Reads every byte, so that ASan sees one that isn't there.
void touch(ByteView bytes) {
  volatile unsigned sum = 0;
  for (const std::byte byte : bytes) {
    sum = sum + std::to_integer<unsigned>(byte);
  }
}

void check_capture(ByteView file) {
  auto reader = pcap::Reader::from_bytes(file);
  if (!reader) {
    return;
  }
  for (;;) {
    const auto packet = reader->next();
    if (!packet || !*packet) {
      return;
    }
    VERBENA_CHECK((*packet)->offset < file.size());
    VERBENA_CHECK((*packet)->frame.size() <= file.size());
    touch((*packet)->frame);
    touch(std::as_bytes(std::span((*packet)->interface_name)));
    for (const std::string_view comment : (*packet)->comments) {
      touch(std::as_bytes(std::span(comment)));
    }
  }
}

}  // namespace
}  // namespace verbena

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbena::check_capture(std::as_bytes(std::span(data, size)));
  return 0;
}
