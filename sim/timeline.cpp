#include "sim/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "pcap/reader.h"
#include "proto/inet/tcp_header.h"
#include "proto/roce/gid.h"

namespace verbena::sim {
namespace {

/// What answers or refuses on a stream.
Timeline::Style style_of(const SegmentSummary& segment, std::uint32_t payload_bytes) {
  using Opcode = iwarp::RdmapOpcode;
  if (segment.has(inet::TcpHeader::flag_rst)) {
    return Timeline::Style::refusal;
  }
  if (!segment.fpdus.empty()) {
    const Opcode opcode = segment.fpdus.front().opcode;
    return opcode == Opcode::terminate       ? Timeline::Style::refusal
           : opcode == Opcode::read_response ? Timeline::Style::response
                                             : Timeline::Style::request;
  }
  const bool answers = segment.has(inet::TcpHeader::flag_ack) &&
                       !segment.has(inet::TcpHeader::flag_fin) && payload_bytes == 0;
  return answers || segment.start == iwarp::StartKind::reply ? Timeline::Style::response
                                                             : Timeline::Style::request;
}

Timeline::Style style_of(const PacketSummary& packet) {
  if (packet.segment) {
    return style_of(*packet.segment, packet.payload_bytes);
  }
  if (!packet.is_transport || packet.info().is_request()) {
    return Timeline::Style::request;
  }
  const bool refuses = packet.info().has(ib::ExtHeader::aeth) &&
                       packet.fields.aeth.syndrome().kind() != ib::AethKind::ack;
  return refuses ? Timeline::Style::refusal : Timeline::Style::response;
}

/// What a receiver says against a packet, shorter than in the trace: a picture has little room.
std::string remark_of(const RxVerdict& verdict) {
  if (verdict.check == RxCheck::psn) {
    const std::string_view word = verdict.kind == RxVerdict::Kind::duplicate ? "duplicate"
                                  : verdict.kind == RxVerdict::Kind::nak     ? "refused"
                                                                             : "dropped";
    return fmt::format("{}: PSN {}, expected {}", word, verdict.got, verdict.expected);
  }
  switch (verdict.kind) {
    case RxVerdict::Kind::accepted:
      return {};
    case RxVerdict::Kind::duplicate:
      return "duplicate";
    case RxVerdict::Kind::early:
      return fmt::format("kept: {} comes first", verdict.expected);
    case RxVerdict::Kind::nak:
      return fmt::format("refused by the {} check", name_of(verdict.check));
    case RxVerdict::Kind::dropped:
      break;
  }
  return fmt::format("dropped by the {} check", name_of(verdict.check));
}

bool is_bad_news(const TraceEvent& event) {
  return event.kind == TraceKind::event || event.kind == TraceKind::state ||
         (event.kind == TraceKind::completed && event.text.find("success") == std::string::npos);
}

/// The station behind an address, by who was seen sending from it.
std::map<Gid, std::size_t> columns_by_address(const ScenarioResult& result) {
  std::map<Gid, std::size_t> columns;
  for (const TraceEvent& event : result.trace) {
    if (event.kind == TraceKind::sent && event.packet.is_readable()) {
      columns.emplace(event.packet.source, static_cast<std::size_t>(event.station));
    }
  }
  return columns;
}

}  // namespace

Timeline timeline_of(const ScenarioResult& result, std::string title, std::size_t arrows_max) {
  Timeline timeline;
  timeline.title = std::move(title);
  timeline.columns.assign(result.stations.begin(),
                          result.stations.begin() + static_cast<std::ptrdiff_t>(result.host_count));
  const auto columns = columns_by_address(result);
  std::map<std::uint64_t, std::size_t> arrow_of_frame;
  for (const TraceEvent& event : result.trace) {
    const auto station = static_cast<std::size_t>(event.station);
    const Duration at = event.time.time_since_epoch();
    const auto arrow = arrow_of_frame.find(event.frame);
    switch (event.kind) {
      case TraceKind::sent: {
        if (timeline.arrows.size() >= arrows_max) {
          ++timeline.arrows_left_out;
          break;
        }
        const auto to = columns.find(event.packet.destination);
        arrow_of_frame[event.frame] = timeline.arrows.size();
        Timeline::Arrow drawn;
        drawn.from = station;
        drawn.to = to != columns.end() ? to->second : (station == 0 ? 1 : 0);
        drawn.sent = at;
        drawn.label = describe(event.packet);
        if (event.note.kind == PacketNote::Kind::retransmission ||
            event.note.kind == PacketNote::Kind::replay) {
          drawn.why = describe(event.note);
          drawn.is_again = true;
        }
        drawn.style = style_of(event.packet);
        timeline.arrows.push_back(std::move(drawn));
        break;
      }
      case TraceKind::lost:
        if (arrow != arrow_of_frame.end()) {
          timeline.arrows[arrow->second].is_lost = true;
          timeline.arrows[arrow->second].fate = event.text;
        }
        break;
      case TraceKind::arrived:
        if (arrow != arrow_of_frame.end() && !timeline.arrows[arrow->second].arrived) {
          timeline.arrows[arrow->second].to = station;
          timeline.arrows[arrow->second].arrived = at;
          timeline.arrows[arrow->second].fate = remark_of(event.verdict);
        }
        break;
      default:
        if (timeline.arrows_left_out == 0 && station < timeline.columns.size()) {
          // A step begins with its host's name, at whose column it stands.
          const std::string prefix = timeline.columns[station] + " ";
          const std::size_t skip = event.text.starts_with(prefix) ? prefix.size() : 0;
          timeline.notes.push_back({station, at, event.text.substr(skip), is_bad_news(event)});
        }
        break;
    }
  }
  return timeline;
}

namespace {

/// A capture's frames become arrows between addresses.
class CaptureReading {
 public:
  explicit CaptureReading(std::size_t arrows_max) : arrows_max_(arrows_max) {}

  void add(const pcap::Packet& packet) {
    const PacketSummary summary = summarize(packet.frame);
    if (!summary.is_readable() || !packet.time) {
      return;
    }
    start_ = start_.value_or(*packet.time);
    const Duration at = *packet.time - *start_;
    std::string bytes(reinterpret_cast<const char*>(packet.frame.data()), packet.frame.size());
    const bool inbound = packet.direction == pcap::Direction::inbound;
    if (inbound) {
      if (const auto sent = under_way_.find(bytes); sent != under_way_.end()) {
        // Of a connection manager's message its sender gets a copy, too: that says nothing.
        saw_both_ends_ |= summary.fields.dest_qpn != qpn_gsi;
        Timeline::Arrow& arrow = timeline_.arrows[sent->second];
        arrow.arrived = at;
        arrow.fate = comments_of(packet);
        under_way_.erase(sent);
        return;
      }
    }
    if (timeline_.arrows.size() >= arrows_max_) {
      ++timeline_.arrows_left_out;
      return;
    }
    Timeline::Arrow arrow;
    // Both ends may have one address, being programs of one host: ours, and the other one.
    const bool one_host = summary.source == summary.destination;
    arrow.from = column(summary.source, one_host && inbound);
    arrow.to = column(summary.destination, one_host && !inbound);
    arrow.sent = at;
    arrow.label = describe(summary);
    arrow.style = style_of(summary);
    arrow.why = comments_of(packet);
    arrow.is_again = arrow.why.find("retransmission") != std::string::npos;
    if (inbound) {
      arrow.arrived = at;
    } else {
      // The same bytes again: a retransmission, so the one before didn't arrive.
      const auto [known, is_new] = under_way_.emplace(std::move(bytes), timeline_.arrows.size());
      if (!is_new) {
        lost_.push_back(std::exchange(known->second, timeline_.arrows.size()));
      }
    }
    timeline_.arrows.push_back(std::move(arrow));
  }

  Timeline finish(std::string title) {
    timeline_.title = std::move(title);
    // Only a capture of both ends can tell that something was lost.
    for (const auto& [bytes, index] : under_way_) {
      lost_.push_back(index);
    }
    for (const std::size_t index : lost_) {
      timeline_.arrows[index].is_lost = saw_both_ends_;
    }
    return std::move(timeline_);
  }

 private:
  static std::string comments_of(const pcap::Packet& packet) {
    std::string text;
    for (const std::string_view comment : packet.comments) {
      text += fmt::format("{}{}", text.empty() ? "" : "; ", comment);
    }
    return text;
  }

  std::size_t column(const Gid& gid, bool is_peer) {
    const auto [found, is_new] =
        columns_.emplace(std::pair(gid, is_peer), timeline_.columns.size());
    if (is_new) {
      const auto ipv4 = roce::ipv4_from_gid(gid);
      timeline_.columns.push_back((ipv4 ? ipv4->to_text() : roce::to_text(gid)) +
                                  (is_peer ? " (peer)" : ""));
    }
    return found->second;
  }

  std::size_t arrows_max_;
  Timeline timeline_;
  std::optional<pcap::UnixTime> start_;
  bool saw_both_ends_ = false;
  std::map<std::pair<Gid, bool>, std::size_t> columns_;
  /// Frames sent and not seen to arrive, by their bytes; and those given up.
  std::map<std::string, std::size_t> under_way_;
  std::vector<std::size_t> lost_;
};

}  // namespace

Result<Timeline, std::string> timeline_of_capture(const std::string& path, std::size_t arrows_max) {
  auto reader = pcap::Reader::open(path);
  if (!reader) {
    return std::unexpected(fmt::format("{}: {}", path, reader.error().text));
  }
  CaptureReading reading(arrows_max);
  for (;;) {
    const auto packet = reader->next();
    if (!packet) {
      return std::unexpected(fmt::format("{}: {}", path, packet.error().text));
    }
    if (!*packet) {
      return reading.finish(path);
    }
    reading.add(**packet);
  }
}

std::vector<TimelineMoment> moments_of(const Timeline& timeline) {
  std::vector<TimelineMoment> moments;
  for (std::size_t i = 0; i < timeline.arrows.size(); ++i) {
    const Timeline::Arrow& arrow = timeline.arrows[i];
    moments.push_back({arrow.sent, TimelineMoment::Kind::sent, i});
    if (arrow.arrived) {
      moments.push_back({*arrow.arrived, TimelineMoment::Kind::arrived, i});
    }
  }
  for (std::size_t i = 0; i < timeline.notes.size(); ++i) {
    moments.push_back({timeline.notes[i].at, TimelineMoment::Kind::note, i});
  }
  // At the same time: arrivals, then what they cause, then what is sent. A post stands before the
  // packet that it causes, because it is a note.
  const auto rank = [](TimelineMoment::Kind kind) {
    switch (kind) {
      case TimelineMoment::Kind::arrived:
        return 0;
      case TimelineMoment::Kind::note:
        return 1;
      case TimelineMoment::Kind::sent:
        break;
    }
    return 2;
  };
  std::ranges::stable_sort(moments, [&](const TimelineMoment& a, const TimelineMoment& b) {
    return std::tuple(a.at, rank(a.kind)) < std::tuple(b.at, rank(b.kind));
  });
  return moments;
}

}  // namespace verbena::sim
