#include "proto/iwarp/fpdu_receiver.h"

#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <cstring>

#include "base/crc.h"

namespace verbena::iwarp {

std::string_view name_of(FpduError error) noexcept {
  return error == FpduError::crc ? "wrong CRC" : "marker that doesn't point to its FPDU";
}

FpduReceiver::FpduReceiver(FpduFormat format, OnBadCrc on_bad_crc)
    : format_(format),
      on_bad_crc_(on_bad_crc),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(fpdu_stream_bytes_max)) {}

Result<std::optional<Fpdu>, FpduError> FpduReceiver::next(ByteView& stream) {
  if (error_) {
    return std::unexpected(*error_);
  }
  ByteView bytes;
  const auto whole = size_of(stream);
  if (buffered_ == 0 && whole && *whole <= stream.size()) {
    bytes = stream.first(*whole);
    stream = stream.subspan(*whole);
  } else {
    // First what tells the size, then the rest.
    buffer(stream, header_offset() + ulpdu_length_bytes);
    const auto size = size_of({buffer_.get(), buffered_});
    if (!size) {
      return std::nullopt;
    }
    buffer(stream, *size);
    if (buffered_ < *size) {
      return std::nullopt;
    }
    bytes = {buffer_.get(), buffered_};
    buffered_ = 0;
  }
  auto fpdu = deliver(bytes);
  if (!fpdu) {
    error_ = fpdu.error();
    return std::unexpected(fpdu.error());
  }
  position_ += bytes.size();
  return *fpdu;
}

/// Where the length stands: behind a marker, if the FPDU begins with one.
std::size_t FpduReceiver::header_offset() const {
  return format_.markers && position_ % mpa_marker_interval_bytes == 0 ? mpa_marker_bytes : 0;
}

/// The size of the FPDU at the position that begins with these bytes, if they tell it.
std::optional<std::size_t> FpduReceiver::size_of(ByteView begin) const {
  const std::size_t at = header_offset();
  if (begin.size() < at + ulpdu_length_bytes) {
    return std::nullopt;
  }
  const auto length = read_struct<boost::endian::big_uint16_buf_t>(begin.subspan(at));
  return fpdu_stream_bytes(format_, static_cast<std::size_t>(position_), length.value());
}

/// Moves bytes of the stream into the buffer until it has `wanted` of them.
void FpduReceiver::buffer(ByteView& stream, std::size_t wanted) {
  if (buffered_ >= wanted) {
    return;
  }
  const ByteView piece = stream.first(std::min(wanted - buffered_, stream.size()));
  copy_bytes({buffer_.get() + buffered_, fpdu_stream_bytes_max - buffered_}, piece);
  buffered_ += piece.size();
  stream = stream.subspan(piece.size());
}

/// Checks a complete FPDU.
Result<Fpdu, FpduError> FpduReceiver::deliver(ByteView bytes) {
  // A length that is wrong shows in the markers; so they come before the CRC, which would only tell
  // that something is wrong.
  if (format_.markers && !markers_are_right(bytes)) {
    return std::unexpected(FpduError::marker);
  }
  Fpdu fpdu{.ulpdu = {}, .stream_position = position_, .stream_bytes = bytes.size()};
  const ByteView covered = bytes.first(bytes.size() - mpa_crc_bytes);
  fpdu.crc = read_struct<boost::endian::little_uint32_buf_t>(bytes.subspan(covered.size())).value();
  fpdu.computed_crc = format_.crc ? crc32c(0, covered) : fpdu.crc;
  if (!fpdu.crc_is_good() && on_bad_crc_ == OnBadCrc::refuse) {
    return std::unexpected(FpduError::crc);
  }
  const ByteView plain = format_.markers ? without_markers(bytes) : bytes;
  const auto length = read_struct<boost::endian::big_uint16_buf_t>(plain);
  fpdu.ulpdu = plain.subspan(ulpdu_length_bytes, length.value());
  return fpdu;
}

/// Each marker holds its distance from the length field; one in front of it holds 0.
bool FpduReceiver::markers_are_right(ByteView bytes) const {
  const std::size_t begin = header_offset();
  const auto past = static_cast<std::size_t>(position_ % mpa_marker_interval_bytes);
  std::size_t at = past == 0 ? 0 : mpa_marker_interval_bytes - past;
  for (; at < bytes.size(); at += mpa_marker_interval_bytes) {
    // The reserved half is ignored (RFC 5044, 4.3).
    const auto pointer = read_struct<boost::endian::big_uint16_buf_t>(bytes.subspan(at + 2));
    if (pointer.value() != (at < begin ? 0 : at - begin)) {
      return false;
    }
  }
  return true;
}

/// The FPDU closed up, in the buffer, where it may be already.
ByteView FpduReceiver::without_markers(ByteView bytes) {
  std::size_t size = 0;
  auto to_marker =
      static_cast<std::size_t>((mpa_marker_interval_bytes - position_ % mpa_marker_interval_bytes) %
                               mpa_marker_interval_bytes);
  while (!bytes.empty()) {
    const ByteView piece = bytes.first(std::min(to_marker, bytes.size()));
    if (!piece.empty()) {
      std::memmove(buffer_.get() + size, piece.data(), piece.size());
    }
    size += piece.size();
    bytes = bytes.subspan(piece.size());
    bytes = bytes.subspan(std::min(mpa_marker_bytes, bytes.size()));
    to_marker = mpa_marker_interval_bytes - mpa_marker_bytes;
  }
  return {buffer_.get(), size};
}

}  // namespace verbena::iwarp
