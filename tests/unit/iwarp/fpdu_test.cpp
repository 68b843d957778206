// FPDUs: framing, padding, CRC and markers, compared with a second implementation that writes a
// stream byte by byte; and a receiver that doesn't care how the stream is split.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <vector>

#include "base/prng.h"
#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/fpdu_writer.h"
#include "tests/unit/base/crc_oracle.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::iwarp {
namespace {

using test::Bytes;
using test::from_hex;
using test::random_bytes;
using test::to_hex;

constexpr FpduFormat formats[] = {{.markers = false, .crc = false},
                                  {.markers = false, .crc = true},
                                  {.markers = true, .crc = false},
                                  {.markers = true, .crc = true}};

/// Plain and slow: puts one byte after the other into a stream, and a marker wherever one is due.
class ReferenceStream {
 public:
  explicit ReferenceStream(FpduFormat format) : format_(format) {}

  void add(ByteView ulpdu) {
    fpdu_begin_ = stream.size();
    put(static_cast<std::byte>(ulpdu.size() >> 8));
    length_at_ = stream.size() - 1;
    put(static_cast<std::byte>(ulpdu.size()));
    for (const std::byte byte : ulpdu) {
      put(byte);
    }
    for (std::size_t size = ulpdu.size() + 2; size % 4 != 0; ++size) {
      put(std::byte{0});
    }
    // A marker may stand in front of the CRC, and is then covered by it.
    put_marker_if_due();
    const std::uint32_t crc =
        format_.crc ? oracle::crc32c(ByteView(stream).subspan(fpdu_begin_)) : 0;
    for (unsigned shift = 0; shift < 32; shift += 8) {
      stream.push_back(static_cast<std::byte>(crc >> shift));
    }
  }

  Bytes stream;

 private:
  void put_marker_if_due() {
    if (!format_.markers || stream.size() % 512 != 0) {
      return;
    }
    const std::size_t distance = stream.size() == fpdu_begin_ ? 0 : stream.size() - length_at_;
    stream.insert(stream.end(), {std::byte{0}, std::byte{0}, static_cast<std::byte>(distance >> 8),
                                 static_cast<std::byte>(distance)});
  }
  void put(std::byte byte) {
    put_marker_if_due();
    stream.push_back(byte);
  }

  FpduFormat format_;
  std::size_t fpdu_begin_ = 0;
  std::size_t length_at_ = 0;
};

void append_fpdu(FpduWriter& writer, ByteView ulpdu, Bytes& stream) {
  Bytes fpdu(writer.size_of(ulpdu.size()), std::byte{0xEE});
  copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
  writer.finish(fpdu, ulpdu.size());
  stream.insert(stream.end(), fpdu.begin(), fpdu.end());
}

/// Every ULPDU of a stream that comes in pieces of `piece_bytes()`.
template <class PieceBytes>
std::vector<Bytes> received(FpduReceiver& receiver, ByteView stream, PieceBytes piece_bytes) {
  std::vector<Bytes> ulpdus;
  while (!stream.empty()) {
    ByteView piece = stream.first(std::min<std::size_t>(piece_bytes(), stream.size()));
    stream = stream.subspan(piece.size());
    for (;;) {
      const auto fpdu = receiver.next(piece);
      REQUIRE(fpdu);
      if (!*fpdu) {
        REQUIRE(piece.empty());
        break;
      }
      ulpdus.emplace_back((*fpdu)->ulpdu.begin(), (*fpdu)->ulpdu.end());
    }
  }
  return ulpdus;
}

/// ULPDUs of lengths that put markers everywhere: in front, behind, in the middle, before the CRC.
std::vector<Bytes> some_ulpdus(std::uint64_t seed, std::size_t count, std::size_t bytes_max) {
  Prng prng(seed);
  std::vector<Bytes> ulpdus;
  for (std::size_t i = 0; i < count; ++i) {
    ulpdus.push_back(random_bytes(prng, prng.below(bytes_max + 1)));
  }
  return ulpdus;
}

}  // namespace

TEST_CASE("an FPDU is the length, the ULPDU, zeros up to four bytes, and the CRC") {
  // Vectors: computed once, and accepted by Wireshark 4.0.17 ("Good CRC32").
  const std::string vectors[] = {
      "000ec140000000000000000000000000a30572ab",
      "001741430000000000000000000000010000000068656c6c6f000000b990b10c",
      "00164147000000000000000200000001000000002003000001766420",
  };
  for (const std::string& hex : vectors) {
    INFO(hex);
    const Bytes fpdu = from_hex(hex);
    FpduReceiver receiver({.markers = false, .crc = true});
    ByteView stream = fpdu;
    const auto read = receiver.next(stream);
    REQUIRE(read);
    REQUIRE(*read);
    CHECK((*read)->crc_is_good());
    CHECK((*read)->stream_bytes == fpdu.size());
    // Delivered where it lies.
    CHECK((*read)->ulpdu.data() == fpdu.data() + 2);
    FpduWriter writer({.markers = false, .crc = true});
    Bytes again;
    append_fpdu(writer, (*read)->ulpdu, again);
    CHECK(to_hex(again) == hex);
  }
}

TEST_CASE("an FPDU of length zero has a pad and a CRC") {
  FpduWriter writer({.markers = false, .crc = false});
  Bytes stream;
  append_fpdu(writer, {}, stream);
  CHECK(to_hex(stream) == "0000000000000000");
}

TEST_CASE("what the writer writes is what the rules say, byte for byte, in every format") {
  for (const FpduFormat format : formats) {
    INFO("markers " << format.markers << ", crc " << format.crc);
    ReferenceStream reference(format);
    FpduWriter writer(format);
    Bytes stream;
    for (const Bytes& ulpdu : some_ulpdus(1, 400, 1500)) {
      reference.add(ulpdu);
      append_fpdu(writer, ulpdu, stream);
    }
    REQUIRE(stream == reference.stream);
  }
}

TEST_CASE("a marker may fall at any word of an FPDU") {
  const FpduFormat format{.markers = true, .crc = true};
  for (std::size_t ahead = 0; ahead < 600; ahead += 4) {
    const std::vector<Bytes> ulpdus{Bytes(ahead, std::byte{1}), Bytes(14, std::byte{2}),
                                    Bytes(1100, std::byte{3})};
    ReferenceStream reference(format);
    FpduWriter writer(format);
    Bytes stream;
    for (const Bytes& ulpdu : ulpdus) {
      reference.add(ulpdu);
      append_fpdu(writer, ulpdu, stream);
    }
    REQUIRE(stream == reference.stream);
    FpduReceiver receiver(format);
    REQUIRE(received(receiver, stream, [&] { return stream.size(); }) == ulpdus);
  }
}

TEST_CASE("the longest FPDU goes through, with markers and without") {
  for (const FpduFormat format : formats) {
    const std::vector<Bytes> ulpdus{Bytes(ulpdu_bytes_max, std::byte{7}),
                                    Bytes(ulpdu_bytes_max, std::byte{8})};
    FpduWriter writer(format);
    Bytes stream;
    for (const Bytes& ulpdu : ulpdus) {
      append_fpdu(writer, ulpdu, stream);
    }
    FpduReceiver whole(format);
    CHECK((received(whole, stream, [&] { return stream.size(); }) == ulpdus));
    FpduReceiver pieces(format);
    CHECK((received(pieces, stream, [] { return 1448; }) == ulpdus));
  }
}

TEST_CASE("the receiver gives the same at every split of the stream into two") {
  const std::vector<Bytes> ulpdus = some_ulpdus(2, 12, 120);
  for (const FpduFormat format : formats) {
    FpduWriter writer(format);
    Bytes stream;
    for (const Bytes& ulpdu : ulpdus) {
      append_fpdu(writer, ulpdu, stream);
    }
    for (std::size_t split = 1; split < stream.size(); ++split) {
      FpduReceiver receiver(format);
      std::deque<std::size_t> sizes{split, stream.size()};
      REQUIRE(received(receiver, stream, [&] {
                const std::size_t size = sizes.front();
                sizes.pop_front();
                return size;
              }) == ulpdus);
      REQUIRE(receiver.is_between_fpdus());
    }
  }
}

TEST_CASE("the receiver gives the same one byte at a time, and in pieces of any size") {
  const std::vector<Bytes> ulpdus = some_ulpdus(3, 60, 1500);
  for (const FpduFormat format : formats) {
    FpduWriter writer(format);
    Bytes stream;
    for (const Bytes& ulpdu : ulpdus) {
      append_fpdu(writer, ulpdu, stream);
    }
    FpduReceiver bytewise(format);
    REQUIRE(received(bytewise, stream, [] { return 1; }) == ulpdus);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Prng prng(seed);
      FpduReceiver receiver(format);
      REQUIRE(received(receiver, stream, [&] { return 1 + prng.below(3000); }) == ulpdus);
    }
  }
}

TEST_CASE("a flipped bit anywhere in an FPDU is found, and nothing behind it is delivered") {
  const Bytes ulpdu(40, std::byte{0x5A});
  FpduWriter writer({.markers = false, .crc = true});
  Bytes stream;
  append_fpdu(writer, ulpdu, stream);
  // From the third byte on: a changed length moves the end of the FPDU.
  for (std::size_t bit = 16; bit < stream.size() * 8; ++bit) {
    Bytes bad = stream;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    FpduReceiver receiver({.markers = false, .crc = true});
    ByteView view = bad;
    REQUIRE(receiver.next(view).error() == FpduError::crc);
    ByteView good = stream;
    REQUIRE(receiver.next(good).error() == FpduError::crc);
    REQUIRE(good.size() == stream.size());
  }
}

TEST_CASE("who reads along is shown an FPDU with a wrong CRC, and those after it") {
  const Bytes ulpdu(40, std::byte{0x5A});
  FpduWriter writer({.markers = false, .crc = true});
  Bytes stream;
  append_fpdu(writer, ulpdu, stream);
  append_fpdu(writer, ulpdu, stream);
  stream[10] ^= std::byte{1};
  FpduReceiver receiver({.markers = false, .crc = true}, OnBadCrc::deliver);
  ByteView view = stream;
  CHECK_FALSE((*receiver.next(view))->crc_is_good());
  CHECK((*receiver.next(view))->crc_is_good());
}

TEST_CASE("without CRC the field is ignored") {
  Bytes stream = from_hex("000ec140000000000000000000000000deadbeef");
  FpduReceiver receiver({.markers = false, .crc = false});
  ByteView view = stream;
  const auto fpdu = receiver.next(view);
  REQUIRE(fpdu);
  CHECK((*fpdu)->crc_is_good());
}

TEST_CASE("a marker that doesn't point to its FPDU is found before the CRC is looked at") {
  const FpduFormat format{.markers = true, .crc = true};
  FpduWriter writer(format);
  Bytes stream;
  append_fpdu(writer, Bytes(1200, std::byte{9}), stream);
  for (const std::size_t marker : {std::size_t{0}, std::size_t{512}, std::size_t{1024}}) {
    for (const std::size_t byte : {marker + 2, marker + 3}) {
      Bytes bad = stream;
      bad[byte] ^= std::byte{4};
      FpduReceiver receiver(format);
      ByteView view = bad;
      CHECK(receiver.next(view).error() == FpduError::marker);
    }
    // Reserved bits are ignored, but covered by the CRC.
    Bytes reserved = stream;
    reserved[marker] ^= std::byte{4};
    FpduReceiver receiver(format);
    ByteView view = reserved;
    CHECK(receiver.next(view).error() == FpduError::crc);
  }
}

TEST_CASE("an FPDU that isn't finished has no effect") {
  FpduWriter writer({.markers = true, .crc = true});
  Bytes room(writer.size_of(100));
  std::ranges::fill(writer.ulpdu_room(room, 100), std::byte{1});
  Bytes stream;
  append_fpdu(writer, Bytes(20, std::byte{2}), stream);
  FpduReceiver receiver({.markers = true, .crc = true});
  ByteView view = stream;
  CHECK((*receiver.next(view))->ulpdu.size() == 20);
}

TEST_CASE("a ULPDU of MULPDU bytes fits a segment wherever the markers fall") {
  for (std::size_t segment_bytes = 64; segment_bytes < 9000; segment_bytes += 37) {
    for (const FpduFormat format : formats) {
      const std::size_t ulpdu_bytes = mulpdu_bytes(format, segment_bytes);
      for (std::size_t position = 0; position < 512; position += 4) {
        REQUIRE(fpdu_stream_bytes(format, position, ulpdu_bytes) <= segment_bytes);
      }
    }
  }
  CHECK(mulpdu_bytes({.markers = true}, 5) == 0);
}

}  // namespace verbena::iwarp
