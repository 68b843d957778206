// A capture that is cut anywhere gives every packet before the cut, and then the offset of the cut.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/pcap/support.h"

namespace verbena::pcap::test {
namespace {

/// Checks all prefixes of `whole`. `ends` are the offsets at which a packet is complete, and those
/// at which a capture may end cleanly without another packet.
void check_every_cut(const Bytes& whole, const std::vector<std::size_t>& packet_ends,
                     const std::vector<std::size_t>& clean_ends) {
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    INFO("cut at byte " << size);
    const ReadAll all = read_all(ByteView(whole).first(size));
    const auto complete = static_cast<std::size_t>(
        std::ranges::count_if(packet_ends, [size](std::size_t end) { return end <= size; }));
    CHECK(all.packets.size() == complete);
    const bool is_clean = std::ranges::find(clean_ends, size) != clean_ends.end() ||
                          std::ranges::find(packet_ends, size) != packet_ends.end();
    REQUIRE(all.error.has_value() == !is_clean);
    if (all.error) {
      CHECK(all.error->kind == ReadError::Kind::truncated);
      CHECK(all.error->offset == size);
      if (size >= 4) {
        CHECK_THAT(all.error->text, Catch::StartsWith("truncated at byte " + std::to_string(size) +
                                                      ", inside the "));
      }
    }
  }
}

TEST_CASE("pcapng cut at every byte") {
  Bytes whole;
  append_section_header(whole, {.application = "x"});
  std::vector<std::size_t> clean_ends{whole.size()};
  append_interface_description(whole, {.name = "i"});
  clean_ends.push_back(whole.size());
  const Bytes frame = counting_frame(13);
  constexpr std::string_view comment = "hm";
  std::vector<std::size_t> packet_ends;
  for (int i = 0; i < 3; ++i) {
    append_enhanced_packet(whole, {.frame = frame, .comments = std::span(&comment, 1)});
    packet_ends.push_back(whole.size());
  }
  check_every_cut(whole, packet_ends, clean_ends);
}

TEST_CASE("classic pcap cut at every byte") {
  for (const bool is_swapped : {false, true}) {
    RawBytes whole = classic_header(magic_microseconds, is_swapped);
    std::vector<std::size_t> packet_ends;
    const Bytes frame = counting_frame(13);
    for (int i = 0; i < 3; ++i) {
      whole.u32(0).u32(0).u32(13).u32(13).raw(frame);
      packet_ends.push_back(whole.bytes().size());
    }
    check_every_cut(whole.bytes(), packet_ends, {24});
  }
}

}  // namespace
}  // namespace verbena::pcap::test
