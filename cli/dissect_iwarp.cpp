#include "cli/dissect_iwarp.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cli/dissect_rdmap.h"
#include "cli/layer_builder.h"
#include "cli/tcp_follower.h"
#include "proto/inet/parse.h"
#include "proto/inet/tcp_header.h"
#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/negotiation.h"
#include "proto/iwarp/start_frame.h"

namespace verbena::cli {
namespace {

/// The TCP segment of a frame, if there is one.
std::optional<inet::TcpSegment> tcp_of(ByteView frame) {
  const auto ethernet = inet::parse_ethernet(frame);
  if (!ethernet) {
    return std::nullopt;
  }
  ByteView payload;
  if (ethernet->ethertype == inet::ethertype_ipv4) {
    const auto ip = inet::parse_ipv4(ethernet->payload);
    if (!ip || ip->header.protocol != inet::ip_protocol_tcp) {
      return std::nullopt;
    }
    payload = ip->payload;
  } else if (ethernet->ethertype == inet::ethertype_ipv6) {
    const auto ip = inet::parse_ipv6(ethernet->payload);
    if (!ip || ip->header.next_header != inet::ip_protocol_tcp) {
      return std::nullopt;
    }
    payload = ip->payload;
  }
  const auto tcp = inet::parse_tcp(payload);
  return tcp ? std::optional(*tcp) : std::nullopt;
}

/// New bytes of a stream, and where they are in the frame that brought them. What waited for them
/// came in earlier frames.
struct NewBytes {
  ByteView bytes;
  std::size_t in_frame_bytes = 0;
  std::size_t frame_offset = 0;

  [[nodiscard]] bool are_in_frame(ByteView part) const {
    // The part may lie in another buffer; std::less_equal compares such pointers too.
    constexpr std::less_equal<const std::byte*> not_after;
    return not_after(bytes.data(), part.data()) &&
           not_after(part.data() + part.size(), bytes.data() + in_frame_bytes);
  }
  [[nodiscard]] std::size_t offset_of(ByteView part) const {
    return frame_offset + static_cast<std::size_t>(part.data() - bytes.data());
  }
};

/// One frame's share of the line: the first thing gives the title, all are in the summary.
class Line {
 public:
  explicit Line(Dissection& out) : out_(out) {}

  void add(const SegmentWords& words) {
    if (count_++ == 0) {
      out_.title = words.title;
      out_.summary = words.summary;
    } else {
      out_.summary += "; " + words.title + (words.summary.empty() ? "" : " " + words.summary);
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  Dissection& out_;
  std::size_t count_ = 0;
};

std::string rtr_words(iwarp::RtrTypes types) {
  std::string words;
  for (const auto type :
       {iwarp::RtrType::zero_length_fpdu, iwarp::RtrType::write, iwarp::RtrType::read}) {
    if (types.has(type)) {
      words += words.empty() ? "" : ", ";
      words += iwarp::name_of(type);
    }
  }
  return words;
}

SegmentWords start_frame_words(const iwarp::StartFrame& frame) {
  SegmentWords words{
      .title = frame.kind == iwarp::StartKind::request ? "MPA Request" : "MPA Reply",
      .summary = fmt::format("revision {}{}{}{}", frame.revision, frame.reject ? ", REJECTED" : "",
                             frame.crc ? ", CRC" : "", frame.markers ? ", markers" : "")};
  if (frame.enhanced) {
    words.summary +=
        fmt::format(", IRD {}, ORD {}", frame.enhanced->depths.ird, frame.enhanced->depths.ord);
    if (frame.enhanced->peer_to_peer) {
      words.summary += fmt::format(", peer-to-peer ({})", rtr_words(frame.enhanced->rtr));
    }
  }
  words.summary += fmt::format(", {} bytes private data", frame.private_data.size());
  return words;
}

void add_start_frame_layer(const iwarp::StartFrame& frame, ByteView bytes, std::size_t offset,
                           bool is_reassembled, Dissection& out) {
  const bool is_request = frame.kind == iwarp::StartKind::request;
  LayerBuilder layer(out, is_request ? "mpa_request" : "mpa_reply",
                     is_request ? "MPA Request" : "MPA Reply", offset, bytes.size());
  layer.set_reassembled(is_reassembled);
  layer.flag("markers", 16, frame.markers);
  layer.flag("crc", 16, frame.crc);
  layer.flag("reject", 16, frame.reject);
  layer.flag("enhanced", 16, frame.enhanced.has_value());
  layer.number("revision", 17, 1, frame.revision);
  layer.number("private_data_length", 18, 2, bytes.size() - iwarp::start_frame_header_bytes);
  if (frame.enhanced) {
    layer.flag("peer_to_peer", 20, frame.enhanced->peer_to_peer);
    layer.number("ird", 20, 2, frame.enhanced->depths.ird);
    layer.number("ord", 22, 2, frame.enhanced->depths.ord);
    layer.text("rtr", 20, 4, rtr_words(frame.enhanced->rtr));
  }
  if (!frame.private_data.empty()) {
    layer.text("private_data", bytes.size() - frame.private_data.size(), frame.private_data.size(),
               hex_bytes(frame.private_data));
  }
}

/// The framing around a ULPDU.
void add_mpa_layer(const iwarp::Fpdu& fpdu, iwarp::FpduFormat format, std::size_t offset,
                   const FpduPlace& place, Dissection& out) {
  LayerBuilder layer(out, "mpa" + place.suffix, "MPA", offset, fpdu.stream_bytes);
  layer.set_reassembled(place.is_reassembled);
  layer.number("ulpdu_length", 0, 2, fpdu.ulpdu.size());
  layer.number(
      "markers", 0, fpdu.stream_bytes,
      (fpdu.stream_bytes - iwarp::fpdu_bytes(fpdu.ulpdu.size())) / iwarp::mpa_marker_bytes);
  const std::size_t crc_at = fpdu.stream_bytes - iwarp::mpa_crc_bytes;
  layer.hex("crc", crc_at, iwarp::mpa_crc_bytes, fpdu.crc);
  if (format.crc) {
    layer.hex("crc_computed", crc_at, iwarp::mpa_crc_bytes, fpdu.computed_crc);
  }
  layer.text("crc_status", crc_at, iwarp::mpa_crc_bytes,
             !format.crc          ? "not used"
             : fpdu.crc_is_good() ? "good"
                                  : "bad");
}

/// One direction of a connection.
struct Direction {
  TcpFollower follower;
  std::optional<iwarp::StartFrameReader> start;
  std::optional<iwarp::StartFrame> start_frame;
  std::optional<iwarp::FpduReceiver> fpdus;
  /// Bytes that came before it was known how to read them.
  std::vector<std::byte> held;
  /// It isn't MPA, or it can't be followed any further.
  bool is_over = false;
};

/// An MPA peer waits for the other's start frame before it sends FPDUs: more than this is no MPA.
constexpr std::size_t held_bytes_max = 65'536;

struct Connection {
  Direction directions[2];
  /// Who spoke first, so sends the request: an index.
  std::optional<unsigned> initiator;
};

/// What carries FPDUs in one direction, when both start frames are there.
std::optional<iwarp::FpduFormat> format_of(const Direction& sender, const Direction& receiver) {
  if (!sender.start_frame || !receiver.start_frame) {
    return std::nullopt;
  }
  return iwarp::FpduFormat{.markers = receiver.start_frame->markers,
                           .crc = sender.start_frame->crc || receiver.start_frame->crc};
}

/// Reads what a frame brought to one direction.
class DirectionReader {
 public:
  DirectionReader(Direction& direction, const Direction& peer, const NewBytes& news,
                  Dissection& out)
      : direction_(direction), peer_(peer), news_(news), out_(out), line_(out) {}

  void read() {
    ByteView stream = news_.bytes;
    if (!direction_.start_frame && !read_start_frame(stream)) {
      return;
    }
    read_fpdus(stream);
  }

 private:
  bool read_start_frame(ByteView& stream) {
    const ByteView before = stream;
    const auto frame = direction_.start->take(stream);
    if (!frame) {
      direction_.is_over = true;
      return false;
    }
    if (!*frame) {
      return false;
    }
    direction_.start_frame = **frame;
    const ByteView bytes = direction_.start->bytes();
    const ByteView piece = before.first(before.size() - stream.size());
    const bool is_here = piece.size() == bytes.size() && news_.are_in_frame(piece);
    add_start_frame_layer(**frame, bytes, is_here ? news_.offset_of(piece) : 0, !is_here, out_);
    line_.add(start_frame_words(**frame));
    return true;
  }

  void read_fpdus(ByteView stream) {
    const auto format = format_of(direction_, peer_);
    if (!format) {
      direction_.held.insert(direction_.held.end(), stream.begin(), stream.end());
      direction_.is_over = direction_.held.size() > held_bytes_max;
      return;
    }
    if (!direction_.fpdus) {
      direction_.fpdus.emplace(*format, iwarp::OnBadCrc::deliver);
    }
    if (!direction_.held.empty()) {
      direction_.held.insert(direction_.held.end(), stream.begin(), stream.end());
      stream = direction_.held;
    }
    while (read_fpdu(stream)) {
    }
    direction_.held.clear();
  }

  bool read_fpdu(ByteView& stream) {
    const bool is_begin = direction_.fpdus->is_between_fpdus();
    const ByteView before = stream;
    const auto fpdu = direction_.fpdus->next(stream);
    if (!fpdu) {
      direction_.is_over = true;
      out_.error = fmt::format("FPDU: {}", name_of(fpdu.error()));
      return false;
    }
    if (!*fpdu) {
      return false;
    }
    add_fpdu(**fpdu, before.first(before.size() - stream.size()), is_begin);
    return true;
  }

  void add_fpdu(const iwarp::Fpdu& fpdu, ByteView piece, bool is_whole) {
    const iwarp::FpduFormat format = direction_.fpdus->format();
    // With markers the ULPDU isn't in one piece; its offsets count without them.
    const bool has_markers = fpdu.stream_bytes != iwarp::fpdu_bytes(fpdu.ulpdu.size());
    const bool is_here = is_whole && news_.are_in_frame(piece);
    const std::size_t offset = is_here ? news_.offset_of(piece) : 0;
    FpduPlace place{.ulpdu_offset = iwarp::ulpdu_length_bytes + (has_markers ? 0 : offset),
                    .is_reassembled = !is_here || has_markers,
                    .suffix = fpdus_ == 0 ? "" : fmt::format("_{}", fpdus_ + 1)};
    ++fpdus_;
    add_mpa_layer(fpdu, format, has_markers ? 0 : offset, place, out_);
    if (format.crc) {
      out_.mpa_crc_is_good = out_.mpa_crc_is_good.value_or(true) && fpdu.crc_is_good();
    }
    line_.add(dissect_segment(fpdu.ulpdu, place, out_));
  }

  Direction& direction_;
  const Direction& peer_;
  const NewBytes& news_;
  Dissection& out_;
  Line line_;
  std::size_t fpdus_ = 0;
};

}  // namespace

class IwarpDissector::Connections {
 public:
  void add(ByteView frame, const inet::TcpSegment& tcp, Dissection& out) {
    const Endpoint source{out.source, tcp.header.source_port.value()};
    const Endpoint destination{out.destination, tcp.header.destination_port.value()};
    const auto key = std::minmax(source, destination);
    auto found = connections_.find(key);
    if (found == connections_.end()) {
      if (connections_.size() >= connections_max) {
        return;
      }
      found = connections_.try_emplace(key).first;
    }
    Connection& connection = found->second;
    const bool is_syn = tcp.header.has(inet::TcpHeader::flag_syn);
    if (is_syn && !tcp.header.has(inet::TcpHeader::flag_ack)) {
      connection = Connection();  // The same ports again.
    }
    follow(frame, tcp, connection, source < destination ? 0 : 1, out);
  }

 private:
  using Endpoint = std::pair<std::string, std::uint16_t>;

  static void follow(ByteView frame, const inet::TcpSegment& tcp, Connection& connection,
                     unsigned index, Dissection& out) {
    Direction& direction = connection.directions[index];
    if (direction.is_over) {
      return;
    }
    std::vector<std::byte> bytes;
    const std::size_t used = direction.follower.add(
        tcp.header.sequence.value(), tcp.header.has(inet::TcpHeader::flag_syn), tcp.payload, bytes);
    direction.is_over = direction.follower.is_lost();
    if (bytes.empty()) {
      return;
    }
    if (!connection.initiator) {
      connection.initiator = index;
    }
    if (!direction.start) {
      direction.start.emplace(index == connection.initiator ? iwarp::StartKind::request
                                                            : iwarp::StartKind::reply);
    }
    const auto payload_offset = static_cast<std::size_t>(tcp.payload.data() - frame.data());
    const NewBytes news{.bytes = bytes,
                        .in_frame_bytes = used,
                        .frame_offset = payload_offset + tcp.payload.size() - used};
    DirectionReader(direction, connection.directions[1 - index], news, out).read();
  }

  std::map<std::pair<Endpoint, Endpoint>, Connection> connections_;
};

IwarpDissector::IwarpDissector() : connections_(std::make_unique<Connections>()) {}
IwarpDissector::~IwarpDissector() = default;
IwarpDissector::IwarpDissector(IwarpDissector&&) noexcept = default;
IwarpDissector& IwarpDissector::operator=(IwarpDissector&&) noexcept = default;

void IwarpDissector::add(ByteView frame, Dissection& out) {
  if (const auto tcp = tcp_of(frame)) {
    connections_->add(frame, *tcp, out);
  }
}

}  // namespace verbena::cli
