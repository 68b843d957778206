// Opens a capture and tells by its first four bytes which reader it needs.
#include "pcap/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/ids.h"
#include "pcap/byte_source.h"
#include "pcap/classic_reader.h"
#include "pcap/pcapng_format.h"
#include "pcap/pcapng_reader.h"

namespace verbena::pcap {
namespace {

/// First words of classic pcap files: microseconds, nanoseconds, and Kuznetzov's variant, which
/// libpcap reads as well. The other byte order is as good.
constexpr std::array<std::uint32_t, 3> classic_magics{0xA1B2'C3D4, 0xA1B2'3C4D, 0xA1B2'CD34};

bool is_classic(std::uint32_t magic) {
  return std::ranges::any_of(classic_magics, [magic](std::uint32_t known) {
    return magic == known || magic == __builtin_bswap32(known);
  });
}

}  // namespace

Result<Reader, ReadError> Reader::open(const std::string& path) {
  const int fd = path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                             : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return std::unexpected(system_error(0, errno));
  }
  return from_source(ByteSource(fd));
}

Result<Reader, ReadError> Reader::from_bytes(ByteView bytes) {
  return from_source(ByteSource(bytes));
}

Result<Reader, ReadError> Reader::from_source(ByteSource bytes) {
  const ByteView head = bytes.peek(sizeof(std::uint32_t));
  if (bytes.error_number() != 0) {
    return std::unexpected(system_error(0, bytes.error_number()));
  }
  if (head.size() < sizeof(std::uint32_t)) {
    return std::unexpected(ReadError{.kind = ReadError::Kind::truncated,
                                     .offset = head.size(),
                                     .text = head.empty() ? "the file is empty"
                                                          : "the file ends at byte " +
                                                                std::to_string(head.size()) +
                                                                ": no capture is that short"});
  }
  const auto magic = read_struct<std::uint32_t>(head);
  if (magic == to_value(BlockType::section_header)) {
    return Reader(std::make_unique<PcapngReader>(std::move(bytes)));
  }
  if (is_classic(magic)) {
    auto classic = ClassicReader::open(std::move(bytes));
    if (!classic) {
      return std::unexpected(std::move(classic.error()));
    }
    return Reader(std::move(*classic));
  }
  return std::unexpected(
      ReadError{.kind = ReadError::Kind::unsupported,
                .offset = 0,
                .text = "not a capture: it begins like neither pcap nor pcapng"});
}

}  // namespace verbena::pcap
