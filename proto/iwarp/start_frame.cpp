#include "proto/iwarp/start_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/endian/buffers.hpp>

namespace verbena::iwarp {
namespace {

constexpr std::size_t key_bytes = 16;
constexpr std::array<std::string_view, 2> keys{"MPA ID Req Frame", "MPA ID Rep Frame"};

/// RFC 5044, 7.1.1; `enhanced` is RFC 6581's.
constexpr std::uint8_t flag_markers = 0x80;
constexpr std::uint8_t flag_crc = 0x40;
constexpr std::uint8_t flag_reject = 0x20;
constexpr std::uint8_t flag_enhanced = 0x10;

/// The first revision that has enhanced parameters.
constexpr std::uint8_t revision_enhanced = 2;

struct Header {
  std::array<char, key_bytes> key{};
  std::uint8_t flags = 0;
  std::uint8_t revision = 0;
  boost::endian::big_uint16_buf_t private_data_bytes{};
};
static_assert(is_wire_struct<Header, start_frame_header_bytes>);

/// RFC 6581, 4: two flags and 14 bits of depth in each word.
struct Enhanced {
  static constexpr std::uint16_t peer_to_peer = 0x8000;
  static constexpr std::uint16_t rtr_zero_length_fpdu = 0x4000;
  static constexpr std::uint16_t rtr_write = 0x8000;
  static constexpr std::uint16_t rtr_read = 0x4000;
  static constexpr std::uint16_t depth_mask = 0x3FFF;

  boost::endian::big_uint16_buf_t ird{};
  boost::endian::big_uint16_buf_t ord{};
};
static_assert(is_wire_struct<Enhanced, enhanced_parameters_bytes>);

/// [MS-SMBD] 6.1.
struct LegacyDepths {
  boost::endian::big_uint32_buf_t ird{};
  boost::endian::big_uint32_buf_t ord{};
};
static_assert(is_wire_struct<LegacyDepths, legacy_depths_bytes>);

std::uint16_t depth_of(std::uint32_t told) {
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(told, read_depth_max));
}

std::string_view key_of(StartKind kind) { return keys.at(static_cast<std::size_t>(kind)); }

std::uint16_t flag_if(bool condition, std::uint16_t flag) {
  return condition ? flag : std::uint16_t{0};
}

Enhanced to_wire(const EnhancedParameters& parameters) {
  Enhanced wire;
  wire.ird = static_cast<std::uint16_t>(
      (parameters.depths.ird & Enhanced::depth_mask) |
      flag_if(parameters.peer_to_peer, Enhanced::peer_to_peer) |
      flag_if(parameters.rtr.has(RtrType::zero_length_fpdu), Enhanced::rtr_zero_length_fpdu));
  wire.ord =
      static_cast<std::uint16_t>((parameters.depths.ord & Enhanced::depth_mask) |
                                 flag_if(parameters.rtr.has(RtrType::write), Enhanced::rtr_write) |
                                 flag_if(parameters.rtr.has(RtrType::read), Enhanced::rtr_read));
  return wire;
}

EnhancedParameters from_wire(const Enhanced& wire) {
  const std::uint16_t ird = wire.ird.value();
  const std::uint16_t ord = wire.ord.value();
  EnhancedParameters parameters{
      .depths = {.ird = static_cast<std::uint16_t>(ird & Enhanced::depth_mask),
                 .ord = static_cast<std::uint16_t>(ord & Enhanced::depth_mask)},
      .peer_to_peer = (ird & Enhanced::peer_to_peer) != 0,
      .rtr = {},
  };
  parameters.rtr.set(RtrType::zero_length_fpdu, (ird & Enhanced::rtr_zero_length_fpdu) != 0);
  parameters.rtr.set(RtrType::write, (ord & Enhanced::rtr_write) != 0);
  parameters.rtr.set(RtrType::read, (ord & Enhanced::rtr_read) != 0);
  return parameters;
}

bool is_enhanced(const Header& header) {
  return header.revision >= revision_enhanced && (header.flags & flag_enhanced) != 0;
}

}  // namespace

std::string_view name_of(RtrType type) noexcept {
  switch (type) {
    case RtrType::zero_length_fpdu:
      return "zero-length FPDU";
    case RtrType::write:
      return "zero-length RDMA Write";
    case RtrType::read:
      return "zero-length RDMA Read";
  }
  return "unknown";
}

std::optional<std::size_t> start_frame_bytes(const StartFrame& frame) {
  const std::size_t data_bytes = frame.private_data.size() +
                                 (frame.enhanced ? enhanced_parameters_bytes : 0) +
                                 (frame.legacy_depths ? legacy_depths_bytes : 0);
  if (data_bytes > private_data_bytes_max) {
    return std::nullopt;
  }
  return start_frame_header_bytes + data_bytes;
}

void emit_start_frame(MutableBytes to, const StartFrame& frame) {
  const auto size = start_frame_bytes(frame);
  VERBENA_CHECK(size && to.size() >= *size);
  VERBENA_CHECK(!frame.enhanced || frame.revision >= revision_enhanced);
  VERBENA_CHECK(!frame.legacy_depths || frame.revision < revision_enhanced);
  Header header;
  std::ranges::copy(key_of(frame.kind), header.key.begin());
  header.flags = static_cast<std::uint8_t>(
      flag_if(frame.markers, flag_markers) | flag_if(frame.crc, flag_crc) |
      flag_if(frame.reject, flag_reject) | flag_if(frame.enhanced.has_value(), flag_enhanced));
  header.revision = frame.revision;
  header.private_data_bytes = static_cast<std::uint16_t>(*size - start_frame_header_bytes);
  write_struct(to, header);
  to = to.subspan(start_frame_header_bytes);
  if (frame.enhanced) {
    write_struct(to, to_wire(*frame.enhanced));
    to = to.subspan(enhanced_parameters_bytes);
  }
  if (frame.legacy_depths) {
    LegacyDepths wire;
    wire.ird = frame.legacy_depths->ird;
    wire.ord = frame.legacy_depths->ord;
    write_struct(to, wire);
    to = to.subspan(legacy_depths_bytes);
  }
  copy_bytes(to, frame.private_data);
}

void take_legacy_depths(StartFrame& frame) {
  if (frame.revision >= revision_enhanced || frame.private_data.size() < legacy_depths_bytes) {
    return;
  }
  const auto wire = read_struct<LegacyDepths>(frame.private_data);
  frame.legacy_depths = {.ird = depth_of(wire.ird.value()), .ord = depth_of(wire.ord.value())};
  frame.private_data = frame.private_data.subspan(legacy_depths_bytes);
}

std::string describe(const StartError& error) {
  switch (error.kind) {
    case StartError::Kind::key:
      return fmt::format("not an MPA start frame: byte {} of the key differs", error.got);
    case StartError::Kind::revision:
      return fmt::format("MPA revision {}", error.got);
    case StartError::Kind::private_data_length:
      return fmt::format("{} bytes of MPA private data, {} at most", error.got, error.expected);
    case StartError::Kind::enhanced_length:
      return fmt::format("{} bytes of MPA private data, too few for the enhanced parameters",
                         error.got);
  }
  return "unknown error";
}

Result<std::optional<StartFrame>, StartError> StartFrameReader::take(ByteView& stream) {
  for (;;) {
    const std::size_t missing = wanted_bytes() - size_;
    if (missing == 0) {
      return frame();
    }
    const ByteView piece = stream.first(std::min(missing, stream.size()));
    copy_bytes(MutableBytes(bytes_).subspan(size_), piece);
    size_ += piece.size();
    stream = stream.subspan(piece.size());
    if (const auto error = check()) {
      return std::unexpected(*error);
    }
    if (piece.size() < missing) {
      return std::nullopt;
    }
  }
}

/// Bytes of the frame as far as it is known how long it is.
std::size_t StartFrameReader::wanted_bytes() const {
  if (size_ < start_frame_header_bytes) {
    return start_frame_header_bytes;
  }
  return start_frame_header_bytes + read_struct<Header>(bytes_).private_data_bytes.value();
}

std::optional<StartError> StartFrameReader::check() const {
  const std::string_view key = key_of(expected_);
  for (std::size_t i = 0; i < std::min(size_, key.size()); ++i) {
    if (bytes_.at(i) != static_cast<std::byte>(key[i])) {
      return StartError{.kind = StartError::Kind::key, .expected = 0, .got = i};
    }
  }
  if (size_ < start_frame_header_bytes) {
    return std::nullopt;
  }
  const auto header = read_struct<Header>(bytes_);
  const std::size_t data_bytes = header.private_data_bytes.value();
  if (header.revision == 0) {
    return StartError{.kind = StartError::Kind::revision, .expected = 1, .got = 0};
  }
  if (data_bytes > private_data_bytes_max) {
    return StartError{.kind = StartError::Kind::private_data_length,
                      .expected = private_data_bytes_max,
                      .got = data_bytes};
  }
  if (is_enhanced(header) && data_bytes < enhanced_parameters_bytes) {
    return StartError{.kind = StartError::Kind::enhanced_length,
                      .expected = enhanced_parameters_bytes,
                      .got = data_bytes};
  }
  return std::nullopt;
}

StartFrame StartFrameReader::frame() const {
  const auto header = read_struct<Header>(bytes_);
  StartFrame frame{
      .kind = expected_,
      .revision = header.revision,
      .markers = (header.flags & flag_markers) != 0,
      .crc = (header.flags & flag_crc) != 0,
      .reject = (header.flags & flag_reject) != 0,
      .enhanced = std::nullopt,
      .legacy_depths = std::nullopt,
      .private_data = bytes().subspan(start_frame_header_bytes),
  };
  if (is_enhanced(header)) {
    frame.enhanced = from_wire(read_struct<Enhanced>(frame.private_data));
    frame.private_data = frame.private_data.subspan(enhanced_parameters_bytes);
  }
  return frame;
}

}  // namespace verbena::iwarp
