#include "ports/stream_capture.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/prng.h"
#include "nic_model/types.h"
#include "ports/engine.h"
#include "proto/inet/headers.h"
#include "proto/inet/tcp/frame.h"
#include "proto/inet/tcp/options.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using inet::TcpHeader;

/// An IP packet has at most 65,535 bytes; the longest headers are those of IPv6.
constexpr std::size_t payload_bytes_max = 0xFFFF - inet::ipv6_header_bytes - inet::tcp_header_bytes;
/// As much as a window can be: nobody shall think that it is full.
constexpr std::uint16_t window = 0xFFFF;
constexpr inet::TcpSynOptions syn_options{.mss = 0xFFFF, .window_shift = 14};

std::uint32_t initial_sequence_of(const SocketAddress& from, const SocketAddress& to) {
  std::uint32_t sequence = 0;
  for (const SocketAddress* end : {&from, &to}) {
    const Gid gid = address_of(*end->get()).value_or(Gid{});
    for (const std::uint8_t byte : gid.bytes) {
      sequence = sequence * 31 + byte;
    }
    sequence = sequence * 31 + port_of(*end);
  }
  return static_cast<std::uint32_t>(Prng(sequence).next());
}

void finish_frame(MutableBytes frame, const Gid& from, const Gid& to) {
  inet::finish_tcp_frame(frame, {.source_mac = nic::mac_of(from),
                                 .destination_mac = nic::mac_of(to),
                                 .source = roce::ipv6_from_gid(from),
                                 .destination = roce::ipv6_from_gid(to)});
}

}  // namespace

StreamRecorder::StreamRecorder(std::shared_ptr<CaptureFile> file, std::string_view name,
                               std::string_view description)
    : file_(std::move(file)), interface_(file_->add_interface(name, description)) {}

void StreamRecorder::record(ByteView frame, pcap::Direction direction) {
  file_->write({.interface = interface_, .frame = frame, .direction = direction}, Engine::now());
}

StreamCapture::StreamCapture(std::shared_ptr<StreamRecorder> recorder, const SocketAddress& local,
                             const SocketAddress& remote)
    : recorder_(std::move(recorder)),
      is_ipv4_(local.storage.ss_family == AF_INET),
      ours_(way(local, remote, pcap::Direction::outbound)),
      theirs_(way(remote, local, pcap::Direction::inbound)) {}

StreamCapture::Way StreamCapture::way(const SocketAddress& from, const SocketAddress& to,
                                      pcap::Direction direction) {
  const std::uint32_t sequence = initial_sequence_of(from, to);
  return {.from = address_of(*from.get()).value_or(Gid{}),
          .port = port_of(from),
          .direction = direction,
          .sequence = sequence,
          .acknowledged = sequence};
}

void StreamCapture::opened(bool is_initiator) {
  Way& first = is_initiator ? ours_ : theirs_;
  Way& second = is_initiator ? theirs_ : ours_;
  std::array<std::byte, 16> room{};
  const MutableBytes options = MutableBytes(room).first(inet::syn_options_bytes(syn_options));
  inet::emit_syn_options(options, syn_options);
  segment(first, second, TcpHeader::flag_syn, options, {});
  segment(second, first, TcpHeader::flag_syn | TcpHeader::flag_ack, options, {});
  segment(first, second, TcpHeader::flag_ack, {}, {});
}

void StreamCapture::refused() {
  segment(ours_, theirs_, TcpHeader::flag_syn, {}, {});
  segment(theirs_, ours_, TcpHeader::flag_rst | TcpHeader::flag_ack, {}, {});
}

void StreamCapture::data(Way& from, Way& to, ByteView bytes) {
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), payload_bytes_max);
    segment(from, to, TcpHeader::flag_psh | TcpHeader::flag_ack, {}, bytes.first(taken));
    bytes = bytes.subspan(taken);
    if (from.sequence - from.acknowledged >= acknowledged_every_bytes) {
      segment(to, from, TcpHeader::flag_ack, {}, {});
    }
  }
}

void StreamCapture::flag(Way& from, Way& to, bool fin) {
  const std::uint8_t flag = fin ? TcpHeader::flag_fin : TcpHeader::flag_rst;
  segment(from, to, static_cast<std::uint8_t>(flag | TcpHeader::flag_ack), {}, {});
}

void StreamCapture::segment(Way& from, Way& to, std::uint8_t flags, ByteView options,
                            ByteView payload) {
  const std::size_t ip_bytes = is_ipv4_ ? inet::ipv4_header_bytes : inet::ipv6_header_bytes;
  const std::size_t prefix_bytes = inet::ethernet_header_bytes + ip_bytes;
  const std::size_t header_bytes = inet::tcp_header_bytes + options.size();
  frame_.resize(prefix_bytes + header_bytes + payload.size());
  TcpHeader header;
  header.source_port = from.port;
  header.destination_port = to.port;
  header.sequence = from.sequence;
  header.data_offset = static_cast<std::uint8_t>(header_bytes / 4 << 4);
  header.flags = flags;
  header.window = window;
  if ((flags & TcpHeader::flag_ack) != 0) {
    header.acknowledgement = to.sequence;
    to.acknowledged = to.sequence;
  }
  const MutableBytes bytes = MutableBytes(frame_).subspan(prefix_bytes);
  write_struct(bytes, header);
  copy_bytes(bytes.subspan(inet::tcp_header_bytes), options);
  copy_bytes(bytes.subspan(header_bytes), payload);
  finish_frame(frame_, from.from, to.from);
  recorder_->record(frame_, from.direction);
  const bool counts = (flags & (TcpHeader::flag_syn | TcpHeader::flag_fin)) != 0;
  from.sequence += static_cast<std::uint32_t>(payload.size()) + (counts ? 1 : 0);
}

}  // namespace verbena::ports
