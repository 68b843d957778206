#include "proto/roce/icrc_solve.h"

#include <array>
#include <boost/endian/buffers.hpp>

#include "proto/inet/headers.h"
#include "proto/roce/icrc.h"

namespace verbena::roce {
namespace {

// Polynomials over GF(2) modulo the CRC's, as CRC-32 registers hold them: the coefficient of x^0 is
// the highest bit, that of x^31 the lowest.
constexpr std::uint32_t one = 0x8000'0000;
/// x^32 modulo the polynomial: 0x04C11DB7, reflected.
constexpr std::uint32_t reduction = 0xEDB8'8320;

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a & 1) != 0 ? (a >> 1) ^ reduction : a >> 1;
}

/// The polynomial ends with x^0, so that x^-1 is the rest of it divided by x.
constexpr std::uint32_t over_x(std::uint32_t a) {
  return (a & one) != 0 ? ((a ^ reduction) << 1) | 1 : a << 1;
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1, b = times_x(b)) {
    product ^= (a & bit) != 0 ? b : 0;
  }
  return product;
}

/// An IPv4 packet has at most 2^16 bytes.
constexpr std::size_t exponent_bits = 16;
using Powers = std::array<std::uint32_t, exponent_bits>;

/// base^(8 * 2^k).
constexpr Powers byte_powers(std::uint32_t base) {
  Powers powers{};
  for (int doubling = 0; doubling < 3; ++doubling) {
    base = multiply(base, base);
  }
  for (std::uint32_t& power : powers) {
    power = base;
    base = multiply(base, base);
  }
  return powers;
}

constexpr Powers forward = byte_powers(times_x(one));
constexpr Powers backward = byte_powers(over_x(one));
static_assert(multiply(forward.back(), backward.back()) == one);

/// What moves a difference over `bytes` bytes.
std::uint32_t power(const Powers& powers, std::size_t bytes) {
  std::uint32_t product = one;
  for (std::size_t k = 0; k < powers.size(); ++k) {
    if (((bytes >> k) & 1) != 0) {
      product = multiply(product, powers[k]);
    }
  }
  return product;
}

constexpr std::size_t identification_offset = offsetof(inet::Ipv4Header, identification);
constexpr std::size_t packet_bytes_min = network_and_bth_bytes(Version::v2_ipv4) + icrc_bytes;
constexpr std::size_t packet_bytes_max = 0xFFFF;

/// Bytes from the identification to the ICRC.
std::size_t moved_bytes(ByteView packet) {
  return packet.size() - icrc_bytes - identification_offset;
}

using Big16 = boost::endian::big_uint16_buf_t;
/// A CRC register takes the first byte in its lowest bits.
using Little16 = boost::endian::little_uint16_buf_t;

}  // namespace

std::optional<std::uint16_t> IdentificationSolver::solve(ByteView packet) {
  if (packet.size() < packet_bytes_min || packet.size() > packet_bytes_max) {
    return std::nullopt;
  }
  const ByteView field = packet.subspan(identification_offset);
  const std::uint32_t difference =
      icrc(Version::v2_ipv4, packet.first(packet.size() - icrc_bytes)) ^
      load_icrc(packet.last(icrc_bytes));
  if (difference == 0) {
    return read_struct<Big16>(field).value();
  }
  if (const std::size_t bytes = moved_bytes(packet); bytes != bytes_) {
    bytes_ = bytes;
    inverse_ = power(backward, bytes);
  }
  const std::uint32_t moved = multiply(inverse_, difference);
  if (moved > 0xFFFF) {
    return std::nullopt;
  }
  const auto was = read_struct<Little16>(field).value();
  return read_struct<Big16>(bytes_of(Little16(static_cast<std::uint16_t>(was ^ moved)))).value();
}

void change_identification(MutableBytes packet, std::uint16_t identification) {
  VERBENA_CHECK(packet.size() >= packet_bytes_min && packet.size() <= packet_bytes_max);
  const MutableBytes field = packet.subspan(identification_offset);
  const std::uint32_t before = read_struct<Little16>(field).value();
  auto header = read_struct<inet::Ipv4Header>(packet);
  // RFC 1624: the checksum follows by the difference of the words.
  std::uint32_t sum =
      0xFFFFU - header.checksum.value() + 0xFFFFU - header.identification.value() + identification;
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  header.identification = identification;
  header.checksum = static_cast<std::uint16_t>(~sum);
  write_struct(packet, header);
  const std::uint32_t difference = before ^ read_struct<Little16>(field).value();
  const MutableBytes end = packet.last(icrc_bytes);
  store_icrc(end, load_icrc(end) ^ multiply(power(forward, moved_bytes(packet)), difference));
}

}  // namespace verbena::roce
