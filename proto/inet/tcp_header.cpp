#include "proto/inet/tcp_header.h"

#include <fmt/format.h>

namespace verbena::inet {

std::string describe(const TcpError& error) {
  if (error.kind == TcpError::Kind::truncated) {
    return fmt::format("TCP header needs {} bytes, {} are there", error.expected, error.got);
  }
  return fmt::format("TCP header of {} bytes, {} are there", error.expected, error.got);
}

Result<TcpSegment, TcpError> parse_tcp(ByteView bytes) {
  if (bytes.size() < tcp_header_bytes) {
    return std::unexpected(TcpError{
        .kind = TcpError::Kind::truncated, .expected = tcp_header_bytes, .got = bytes.size()});
  }
  const auto header = read_struct<TcpHeader>(bytes);
  const std::size_t header_bytes = header.header_bytes();
  if (header_bytes < tcp_header_bytes || header_bytes > bytes.size()) {
    return std::unexpected(TcpError{
        .kind = TcpError::Kind::data_offset, .expected = header_bytes, .got = bytes.size()});
  }
  return TcpSegment{.header = header,
                    .options = bytes.subspan(tcp_header_bytes, header_bytes - tcp_header_bytes),
                    .payload = bytes.subspan(header_bytes)};
}

}  // namespace verbena::inet
