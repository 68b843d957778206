// The TCP header (RFC 9293, 3.1) as a struct, and reading it out of hostile bytes.
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace verbena::inet {

struct TcpHeader {
  static constexpr std::uint8_t flag_fin = 0x01;
  static constexpr std::uint8_t flag_syn = 0x02;
  static constexpr std::uint8_t flag_rst = 0x04;
  static constexpr std::uint8_t flag_psh = 0x08;
  static constexpr std::uint8_t flag_ack = 0x10;

  boost::endian::big_uint16_buf_t source_port{};
  boost::endian::big_uint16_buf_t destination_port{};
  boost::endian::big_uint32_buf_t sequence{};
  boost::endian::big_uint32_buf_t acknowledgement{};
  std::uint8_t data_offset = 0;  ///< Words of header with options, in the upper four bits.
  std::uint8_t flags = 0;
  boost::endian::big_uint16_buf_t window{};
  boost::endian::big_uint16_buf_t checksum{};
  boost::endian::big_uint16_buf_t urgent{};

  [[nodiscard]] std::size_t header_bytes() const { return std::size_t{data_offset} / 16 * 4; }
  [[nodiscard]] bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
};
inline constexpr std::size_t tcp_header_bytes = 20;
static_assert(is_wire_struct<TcpHeader, tcp_header_bytes>);

struct TcpSegment {
  TcpHeader header;
  ByteView options;
  ByteView payload;
};

struct TcpError {
  enum class Kind : std::uint8_t {
    truncated,    ///< Shorter than a header. expected/got: bytes.
    data_offset,  ///< Less than a header, or more than there is (got). In bytes.
  };
  Kind kind{};
  std::size_t expected = 0;
  std::size_t got = 0;
};
/// "TCP header of 40 bytes, only 32 are there".
[[nodiscard]] std::string describe(const TcpError& error);

/// `bytes` is the payload of an IP packet. Does not look at the checksum.
[[nodiscard]] Result<TcpSegment, TcpError> parse_tcp(ByteView bytes);

}  // namespace verbena::inet
