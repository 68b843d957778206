#include "proto/iwarp/fpdu_writer.h"

#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <cstring>

#include "base/check.h"
#include "base/crc.h"

namespace verbena::iwarp {
namespace {

struct Marker {
  boost::endian::big_uint16_buf_t reserved{};
  /// FPDUPTR: the distance back to the ULPDU length.
  boost::endian::big_uint16_buf_t fpdu_distance{};
};
static_assert(is_wire_struct<Marker, mpa_marker_bytes>);

}  // namespace

void FpduWriter::finish(MutableBytes fpdu, std::size_t ulpdu_bytes) {
  VERBENA_CHECK(ulpdu_bytes <= ulpdu_bytes_max && fpdu.size() == size_of(ulpdu_bytes));
  const std::size_t plain_bytes = fpdu_bytes(ulpdu_bytes);
  const MutableBytes plain = fpdu.last(plain_bytes);
  write_struct(plain, boost::endian::big_uint16_buf_t(static_cast<std::uint16_t>(ulpdu_bytes)));
  const MutableBytes rest = plain.subspan(ulpdu_length_bytes + ulpdu_bytes);
  std::ranges::fill(rest, std::byte{0});
  if (plain_bytes != fpdu.size()) {
    insert_markers(fpdu, plain_bytes);
  }
  if (format_.crc) {
    const MutableBytes crc = fpdu.last(mpa_crc_bytes);
    const ByteView covered = ByteView(fpdu).first(fpdu.size() - mpa_crc_bytes);
    write_struct(crc, boost::endian::little_uint32_buf_t(crc32c(0, covered)));
  }
  position_ += fpdu.size();
}

/// The plain FPDU lies at the end of `fpdu`. Its pieces move to the front, each by the markers that
/// are still to come behind it, so that none is overwritten before it moved.
void FpduWriter::insert_markers(MutableBytes fpdu, std::size_t plain_bytes) const {
  const std::byte* from = fpdu.data() + (fpdu.size() - plain_bytes);
  const auto past = static_cast<std::size_t>(position_ % mpa_marker_interval_bytes);
  std::size_t to_marker = past == 0 ? 0 : mpa_marker_interval_bytes - past;
  const std::size_t begin = past == 0 ? mpa_marker_bytes : 0;
  for (std::size_t at = 0; at < fpdu.size();) {
    const std::size_t piece = std::min(to_marker, fpdu.size() - at);
    std::memmove(fpdu.data() + at, from, piece);
    from += piece;
    at += piece;
    if (at < fpdu.size()) {
      const std::size_t distance = at < begin ? 0 : at - begin;
      Marker marker;
      marker.fpdu_distance = static_cast<std::uint16_t>(distance);
      write_struct(fpdu.subspan(at), marker);
      at += mpa_marker_bytes;
    }
    to_marker = mpa_marker_interval_bytes - mpa_marker_bytes;
  }
}

}  // namespace verbena::iwarp
