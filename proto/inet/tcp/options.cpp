#include "proto/inet/tcp/options.h"

#include <algorithm>
#include <boost/endian/buffers.hpp>

#include "base/check.h"

namespace verbena::inet {

namespace {

/// Kinds and lengths: IANA, "TCP Option Kind Numbers".
constexpr std::byte kind_end{0};
constexpr std::byte kind_no_operation{1};
constexpr std::byte kind_mss{2};
constexpr std::size_t mss_bytes = 4;
constexpr std::byte kind_window_scale{3};
constexpr std::size_t window_scale_bytes = 3;
/// Kind and length.
constexpr std::size_t option_head_bytes = 2;

}  // namespace

TcpSynOptions parse_syn_options(ByteView options) {
  TcpSynOptions found;
  while (!options.empty() && options[0] != kind_end) {
    if (options[0] == kind_no_operation) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < option_head_bytes) {
      break;
    }
    const auto length = std::to_integer<std::size_t>(options[1]);
    if (length < option_head_bytes || length > options.size()) {
      break;
    }
    if (options[0] == kind_mss && length == mss_bytes) {
      found.mss = read_struct<boost::endian::big_uint16_buf_t>(options.subspan(2)).value();
    } else if (options[0] == kind_window_scale && length == window_scale_bytes) {
      found.window_shift =
          std::min(std::to_integer<std::uint8_t>(options[2]), tcp_window_shift_max);
    }
    options = options.subspan(length);
  }
  return found;
}

std::size_t syn_options_bytes(const TcpSynOptions& options) {
  // The window scale has a no-operation in front, so that it takes a word.
  return (options.mss ? mss_bytes : 0) + (options.window_shift ? window_scale_bytes + 1 : 0);
}

void emit_syn_options(MutableBytes bytes, const TcpSynOptions& options) {
  VERBENA_CHECK(bytes.size() == syn_options_bytes(options));
  if (options.mss) {
    bytes[0] = kind_mss;
    bytes[1] = std::byte{mss_bytes};
    write_struct(bytes.subspan(2), boost::endian::big_uint16_buf_t(*options.mss));
    bytes = bytes.subspan(mss_bytes);
  }
  if (options.window_shift) {
    bytes[0] = kind_no_operation;
    bytes[1] = kind_window_scale;
    bytes[2] = std::byte{window_scale_bytes};
    bytes[3] = std::byte{*options.window_shift};
  }
}

}  // namespace verbena::inet
