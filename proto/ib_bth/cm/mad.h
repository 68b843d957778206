// Management datagrams: what every MAD has in common. They travel as UD packets between the QP1s
// of two ports (the general services interface), always 256 bytes long.
// Read first: IBTA vol 1, 13.4.2 (MAD header), 13.5.2 (GSI).
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"

namespace verbena::ib::cm {

inline constexpr std::size_t mad_bytes = 256;
inline constexpr std::size_t mad_header_bytes = 24;

/// The common MAD header (13.4.2). Fields are big-endian by type.
struct MadHeader {
  std::uint8_t base_version = 0;
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;
  boost::endian::big_uint16_buf_t status{};
  boost::endian::big_uint16_buf_t class_specific{};
  boost::endian::big_uint64_buf_t transaction_id{};
  boost::endian::big_uint16_buf_t attribute_id{};
  boost::endian::big_uint16_buf_t reserved{};
  boost::endian::big_uint32_buf_t attribute_modifier{};
};
static_assert(is_wire_struct<MadHeader, mad_header_bytes>);

inline constexpr std::uint8_t mad_base_version = 1;
inline constexpr std::uint8_t class_subnet_administration = 0x03;
/// Communication management (16.7): class 7, version 2, and all its messages are Sends.
inline constexpr std::uint8_t class_communication_management = 0x07;
inline constexpr std::uint8_t cm_class_version = 2;
inline constexpr std::uint8_t method_send = 0x03;

}  // namespace verbena::ib::cm
