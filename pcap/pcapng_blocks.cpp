#include "pcap/pcapng_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/ids.h"
#include "pcap/pcapng_format.h"

namespace verbena::pcap {
namespace {

/// Builds one block at the end of a buffer. The lengths are filled in when it goes out of scope.
class BlockBuilder {
 public:
  BlockBuilder(std::vector<std::byte>& out, BlockType type) : out_(out), start_(out.size()) {
    number(to_value(type));
    number(std::uint32_t{0});
  }
  BlockBuilder(const BlockBuilder&) = delete;
  BlockBuilder& operator=(const BlockBuilder&) = delete;

  ~BlockBuilder() {
    const auto total = static_cast<std::uint32_t>(out_.size() - start_ + sizeof(std::uint32_t));
    number(total);
    std::memcpy(out_.data() + start_ + sizeof(std::uint32_t), &total, sizeof(total));
  }

  template <class T>
    requires std::is_integral_v<T>
  void number(T value) {
    const ByteView bytes = bytes_of(value);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  void padded_bytes(ByteView bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    out_.resize(out_.size() + padded(bytes.size()) - bytes.size());
  }

  void option(std::uint16_t code, ByteView value) {
    const ByteView cut = value.first(std::min(value.size(), max_option_bytes));
    number(code);
    number(static_cast<std::uint16_t>(cut.size()));
    padded_bytes(cut);
    has_options_ = true;
  }

  void text_option(std::uint16_t code, std::string_view text) {
    if (!text.empty()) {
      option(code, std::as_bytes(std::span(text)));
    }
  }

  /// Ends the list of options; a block without options needs no end (3.5).
  void end_options() {
    if (has_options_) {
      number(option::end_of_options);
      number(std::uint16_t{0});
    }
  }

  /// A time in the interface's unit, high half first (4.3). There is none before 1970.
  void time(UnixTime when) {
    const auto ns =
        static_cast<std::uint64_t>(std::max<std::int64_t>(when.time_since_epoch().count(), 0));
    number(static_cast<std::uint32_t>(ns >> 32));
    number(static_cast<std::uint32_t>(ns));
  }

 private:
  std::vector<std::byte>& out_;
  std::size_t start_;
  bool has_options_ = false;
};

}  // namespace

void append_section_header(std::vector<std::byte>& out, const SectionInfo& info) {
  BlockBuilder block(out, BlockType::section_header);
  block.number(byte_order_magic);
  block.number(std::uint16_t{1});  // version 1.0
  block.number(std::uint16_t{0});
  block.number(section_length_unknown);
  block.text_option(option::shb_hardware, info.hardware);
  block.text_option(option::shb_os, info.os);
  block.text_option(option::shb_userappl, info.application);
  block.end_options();
}

void append_interface_description(std::vector<std::byte>& out, const InterfaceInfo& info) {
  BlockBuilder block(out, BlockType::interface_description);
  block.number(linktype_ethernet);
  block.number(std::uint16_t{0});
  block.number(std::uint32_t{0});  // snaplen 0: no limit, the ICRC is always there
  block.text_option(option::if_name, info.name);
  block.text_option(option::if_description, info.description);
  block.option(option::if_tsresol, bytes_of(tsresol_nanoseconds));
  block.end_options();
}

void append_enhanced_packet(std::vector<std::byte>& out, const Record& record) {
  BlockBuilder block(out, BlockType::enhanced_packet);
  block.number(to_value(record.interface));
  block.time(record.time);
  const auto length = static_cast<std::uint32_t>(record.frame.size());
  block.number(length);  // captured
  block.number(length);  // on the wire
  block.padded_bytes(record.frame);
  for (const std::string_view comment : record.comments) {
    block.text_option(option::comment, comment);
  }
  if (record.direction != Direction::unknown) {
    const std::uint32_t flags = to_value(record.direction);
    block.option(option::epb_flags, bytes_of(flags));
  }
  block.end_options();
}

void append_interface_statistics(std::vector<std::byte>& out, InterfaceId interface,
                                 const InterfaceStatistics& statistics) {
  BlockBuilder block(out, BlockType::interface_statistics);
  block.number(to_value(interface));
  block.time(statistics.time);
  block.option(option::isb_ifrecv, bytes_of(statistics.received_packets));
  block.option(option::isb_ifdrop, bytes_of(statistics.dropped_packets));
  block.end_options();
}

}  // namespace verbena::pcap
