// libpcap reads from a FILE. Ours is unbuffered and takes its bytes from a ByteSource, which knows
// the exact offset of every record, also in a pipe.
#include "pcap/classic_reader.h"

#include <pcap/pcap.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

namespace verbena::pcap {
namespace {

ssize_t read_cookie(void* cookie, char* to, std::size_t size) {
  auto& bytes = *static_cast<ByteSource*>(cookie);
  const std::size_t got = bytes.read(std::as_writable_bytes(std::span(to, size)));
  return got == 0 && bytes.error_number() != 0 ? -1 : static_cast<ssize_t>(got);
}

struct PcapCloser {
  void operator()(pcap_t* handle) const { pcap_close(handle); }
};

/// What went wrong in the record or header that begins at `start`. libpcap calls a file that ends
/// too early "truncated"; everything else that it refuses is garbage.
ReadError explain(const ByteSource& bytes, std::uint64_t start, const char* message) {
  if (bytes.error_number() != 0) {
    return system_error(bytes.offset(), bytes.error_number());
  }
  if (std::strstr(message, "truncated") != nullptr) {
    return truncated_error(bytes.offset(), start, start == 0 ? "file header" : "packet");
  }
  return garbage_error(start, message);
}

}  // namespace

struct ClassicReader::Handle {
  explicit Handle(ByteSource source) : bytes(std::move(source)) {}

  ByteSource bytes;
  std::unique_ptr<pcap_t, PcapCloser> pcap;
};

ClassicReader::ClassicReader(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
ClassicReader::~ClassicReader() = default;

Result<std::unique_ptr<ClassicReader>, ReadError> ClassicReader::open(ByteSource bytes) {
  auto handle = std::make_unique<Handle>(std::move(bytes));
  std::FILE* file =
      fopencookie(&handle->bytes, "rb",
                  {.read = read_cookie, .write = nullptr, .seek = nullptr, .close = nullptr});
  if (file == nullptr) {
    return std::unexpected(system_error(0, errno));
  }
  std::setvbuf(file, nullptr, _IONBF, 0);
  std::array<char, PCAP_ERRBUF_SIZE> message{};
  handle->pcap.reset(
      pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, message.data()));
  if (handle->pcap == nullptr) {
    std::fclose(file);
    return std::unexpected(explain(handle->bytes, 0, message.data()));
  }
  if (const int link = pcap_datalink(handle->pcap.get()); link != DLT_EN10MB) {
    const char* name = pcap_datalink_val_to_name(link);
    return std::unexpected(link_type_error(0, name != nullptr ? name : std::to_string(link)));
  }
  return std::unique_ptr<ClassicReader>(new ClassicReader(std::move(handle)));
}

Result<std::optional<Packet>, ReadError> ClassicReader::next() {
  const std::uint64_t start = handle_->bytes.offset();
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int outcome = pcap_next_ex(handle_->pcap.get(), &header, &data);
  if (outcome == PCAP_ERROR_BREAK) {
    return std::nullopt;
  }
  if (outcome != 1) {
    return std::unexpected(explain(handle_->bytes, start, pcap_geterr(handle_->pcap.get())));
  }
  // With PCAP_TSTAMP_PRECISION_NANO, tv_usec counts nanoseconds.
  const auto time =
      std::chrono::seconds(header->ts.tv_sec) + std::chrono::nanoseconds(header->ts.tv_usec);
  return Packet{.time = UnixTime(time),
                .frame = std::as_bytes(std::span(data, header->caplen)),
                .wire_bytes = header->len,
                .offset = start};
}

}  // namespace verbena::pcap
