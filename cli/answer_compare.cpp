#include "cli/answer_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/crc.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "sim/node.h"
#include "sim/packet_summary.h"

namespace verbena::cli {
namespace {

using Lines = std::vector<std::string>;
using Bytes = std::vector<std::byte>;

/// What stands in front of a datagram in memory: a GRH, or what is left of an IPv4 header.
constexpr std::size_t grh_bytes = 40;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

/// The content in a few digits: of two lines that differ in nothing else, it says that they do.
std::string digest(ByteView bytes) { return fmt::format("{:08x}", crc32(0, bytes)); }

/// What describe() leaves out, because a person who reads a trace doesn't miss it.
std::string further_fields(const sim::PacketScript& script, const sim::PacketSummary& packet,
                           ByteView payload, Qpn device) {
  const ib::PacketFields& fields = packet.fields;
  const ib::OpcodeInfo& info = packet.info();
  std::string text;
  if (fields.dest_qpn != script.peer_qpn) {
    text += fmt::format(" qp={:#x}", to_value(fields.dest_qpn));
  }
  if (fields.pkey != pkey_default) {
    text += fmt::format(" pkey={:#x}", to_value(fields.pkey));
  }
  if (fields.solicited) {
    text += " solicited";
  }
  if (info.has(ib::ExtHeader::aeth)) {
    text += fmt::format(" syndrome={:#04x}", fields.aeth.syndrome().to_byte());
  }
  if (info.has(ib::ExtHeader::reth)) {
    text += fmt::format(" rkey={:#x}", to_value(fields.reth.rkey()));
  }
  if (info.has(ib::ExtHeader::atomic_eth)) {
    text += fmt::format(" rkey={:#x} swap_or_add={} compare={}", to_value(fields.atomic_eth.rkey()),
                        fields.atomic_eth.swap_or_add(), fields.atomic_eth.compare());
  }
  if (info.has(ib::ExtHeader::deth)) {
    const Qpn source = fields.deth.source_qpn();
    text += fmt::format(" qkey={:#x}", to_value(fields.deth.qkey()));
    text += source == device ? "" : fmt::format(" source_qp={:#x}", to_value(source));
  }
  if (!payload.empty()) {
    text += " data=" + digest(payload);
  }
  return text;
}

std::string packet_in_words(const sim::PacketScript& script, const Bytes& frame, Qpn device) {
  sim::PacketSummary packet = sim::summarize(frame);
  if (!packet.is_transport) {
    return describe(packet);
  }
  const ib::Operation operation = packet.info().operation;
  if (operation == ib::Operation::read_request || packet.info().has(ib::ExtHeader::atomic_eth)) {
    packet.fields.ack_request = false;
  }
  const auto whole = roce::parse_frame(frame);
  const auto parsed = ib::PacketView::parse(whole->transport);
  return describe(packet) + further_fields(script, packet, parsed->payload(), device);
}

/// With an error nothing but ID and status means anything (ibv_poll_cq(3)).
std::string completion_in_words(const Completion& completion) {
  std::string text = fmt::format("{} {}", completion.wr_id, name_of(completion.status));
  if (completion.status != WcStatus::success) {
    return text;
  }
  text += fmt::format(" {}", sim::name_of(completion.opcode));
  const bool is_receive =
      completion.opcode == WcOpcode::recv || completion.opcode == WcOpcode::recv_rdma_with_imm;
  if (is_receive || completion.opcode == WcOpcode::rdma_read) {
    text += fmt::format(" bytes={}", completion.byte_len);
  }
  if (is_receive && completion.with_imm) {
    text += fmt::format(" imm={:#x}", completion.imm_or_rkey);
  }
  return text;
}

/// Zeros where the headers of datagrams may be.
void hide_headers(const sim::PacketScript& script, std::size_t index, Bytes& memory) {
  const sim::ScriptRegion& region = script.regions[index];
  for (const sim::ScriptStep& step : script.steps) {
    if (step.kind != sim::ScriptStep::Kind::receive || step.sges.empty()) {
      continue;
    }
    const std::uint64_t begin = to_value(step.sges.front().addr) - to_value(region.va);
    if (begin < memory.size()) {
      const std::size_t count = std::min<std::size_t>(grh_bytes, memory.size() - begin);
      std::ranges::fill(MutableBytes(memory).subspan(begin, count), std::byte{0});
    }
  }
}

/// Each run of bytes that isn't what it was: "inbox+8: 64 bytes, 1a2b3c4d".
void add_changes(const sim::ScriptRegion& region, const Bytes& memory, Lines& lines) {
  const auto differs = [&](std::size_t i) {
    const auto first =
        region.spec.counting ? static_cast<std::byte>(i) : std::byte{region.spec.value};
    return memory[i] != first;
  };
  // Bytes that happen to be what they were don't end a run.
  constexpr std::size_t gap = 8;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!differs(i)) {
      continue;
    }
    std::size_t last = i;
    for (std::size_t at = i; at < memory.size() && at <= last + gap; ++at) {
      last = differs(at) ? at : last;
    }
    lines.push_back(fmt::format("{}+{}: {} bytes, {}", region.spec.name, i, last - i + 1,
                                digest(ByteView(memory).subspan(i, last - i + 1))));
    i = last;
  }
}

std::string joined(const Lines& lines, std::size_t begin, std::size_t end) {
  if (begin == end) {
    return "nothing";
  }
  return fmt::format("{}", fmt::join(lines.begin() + static_cast<std::ptrdiff_t>(begin),
                                     lines.begin() + static_cast<std::ptrdiff_t>(end), "; "));
}

/// Lengths of the longest common subsequences of what is left of both lists.
std::vector<std::vector<std::size_t>> common_lengths(const Lines& ours, const Lines& theirs) {
  std::vector lengths(ours.size() + 1, std::vector<std::size_t>(theirs.size() + 1));
  for (std::size_t i = ours.size(); i-- > 0;) {
    for (std::size_t j = theirs.size(); j-- > 0;) {
      lengths[i][j] = ours[i] == theirs[j] ? lengths[i + 1][j + 1] + 1
                                           : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

void compare(std::string_view what, const Lines& ours, const Lines& theirs,
             std::vector<AnswerDifference>& found) {
  const auto lengths = common_lengths(ours, theirs);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < ours.size() || j < theirs.size()) {
    const std::size_t i_begin = i;
    const std::size_t j_begin = j;
    while ((i < ours.size() || j < theirs.size()) &&
           !(i < ours.size() && j < theirs.size() && ours[i] == theirs[j])) {
      if (j == theirs.size() || (i < ours.size() && lengths[i + 1][j] >= lengths[i][j + 1])) {
        ++i;
      } else {
        ++j;
      }
    }
    if (i > i_begin || j > j_begin) {
      found.push_back({.what = std::string(what),
                       .ours = joined(ours, i_begin, i),
                       .theirs = joined(theirs, j_begin, j)});
    }
    if (i < ours.size() && j < theirs.size()) {
      ++i;
      ++j;
    }
  }
}

}  // namespace

AnswerWords in_words(const sim::PacketScript& script, const sim::DeviceAnswers& answers, Qpn qpn) {
  AnswerWords words;
  for (const Bytes& frame : answers.frames) {
    words.packets.push_back(packet_in_words(script, frame, qpn));
  }
  for (const Completion& completion : answers.completions) {
    words.completions.push_back(completion_in_words(completion));
  }
  for (const nic::AsyncEventType event : answers.events) {
    words.events.push_back(lower(nic::name_of(event)));
  }
  words.state.push_back(lower(nic::name_of(answers.state)));
  for (std::size_t i = 0; i < script.regions.size(); ++i) {
    Bytes memory = answers.memories[i];
    if (script.connection.service == ib::Service::ud) {
      hide_headers(script, i, memory);
    }
    add_changes(script.regions[i], memory, words.memory);
  }
  return words;
}

std::vector<AnswerDifference> differences(const AnswerWords& ours, const AnswerWords& theirs) {
  std::vector<AnswerDifference> found;
  compare("packets", ours.packets, theirs.packets, found);
  compare("completions", ours.completions, theirs.completions, found);
  compare("events", ours.events, theirs.events, found);
  compare("state", ours.state, theirs.state, found);
  compare("memory", ours.memory, theirs.memory, found);
  return found;
}

}  // namespace verbena::cli
