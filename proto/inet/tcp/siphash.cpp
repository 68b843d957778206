#include "proto/inet/tcp/siphash.h"

#include <bit>
#include <boost/endian/buffers.hpp>
#include <cstddef>

namespace verbena::inet {

namespace {

constexpr std::size_t word_bytes = 8;

class State {
 public:
  explicit State(const SipKey& key)
      // "somepseudorandomlygeneratedbytes".
      : v0_(key.first ^ 0x736f'6d65'7073'6575),
        v1_(key.second ^ 0x646f'7261'6e64'6f6d),
        v2_(key.first ^ 0x6c79'6765'6e65'7261),
        v3_(key.second ^ 0x7465'6462'7974'6573) {}

  void add(std::uint64_t word) {
    v3_ ^= word;
    rounds(2);
    v0_ ^= word;
  }
  [[nodiscard]] std::uint64_t finish() {
    v2_ ^= 0xFF;
    rounds(4);
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void rounds(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      v0_ += v1_;
      v2_ += v3_;
      v1_ = std::rotl(v1_, 13) ^ v0_;
      v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ = std::rotl(v0_, 32);
      v2_ += v1_;
      v0_ += v3_;
      v1_ = std::rotl(v1_, 17) ^ v2_;
      v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ = std::rotl(v2_, 32);
    }
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
};

}  // namespace

std::uint64_t siphash(const SipKey& key, ByteView bytes) {
  State state(key);
  // The last word holds what is left over, and the length in its highest byte.
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  while (bytes.size() >= word_bytes) {
    state.add(read_struct<boost::endian::little_uint64_buf_t>(bytes).value());
    bytes = bytes.subspan(word_bytes);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    last |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  state.add(last);
  return state.finish();
}

}  // namespace verbena::inet
