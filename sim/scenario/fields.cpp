#include "sim/scenario/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/near_miss.h"
#include "sim/scenario/checker.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t payload_bytes_max = 16'384;

struct Field {
  std::string_view name;
  std::uint64_t max;
  std::uint64_t (*get)(const ib::PacketFields& fields);
  void (*set)(ib::PacketFields& fields, std::uint64_t value);
};

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t u32_max = std::numeric_limits<std::uint32_t>::max();

std::uint32_t low32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

using F = ib::PacketFields;

constexpr std::array fields_by_name{
    Field{"qp", qpn_mask, [](const F& f) { return std::uint64_t{to_value(f.dest_qpn)}; },
          [](F& f, std::uint64_t v) { f.dest_qpn = Qpn{low32(v)}; }},
    Field{"pkey", 0xFFFF, [](const F& f) { return std::uint64_t{to_value(f.pkey)}; },
          [](F& f, std::uint64_t v) { f.pkey = Pkey{static_cast<std::uint16_t>(v)}; }},
    Field{"ackreq", 1, [](const F& f) { return std::uint64_t{f.ack_request}; },
          [](F& f, std::uint64_t v) { f.ack_request = v != 0; }},
    Field{"solicited", 1, [](const F& f) { return std::uint64_t{f.solicited}; },
          [](F& f, std::uint64_t v) { f.solicited = v != 0; }},
    Field{"migreq", 1, [](const F& f) { return std::uint64_t{f.migrated}; },
          [](F& f, std::uint64_t v) { f.migrated = v != 0; }},
    Field{"qkey", u32_max, [](const F& f) { return std::uint64_t{to_value(f.deth.qkey())}; },
          [](F& f, std::uint64_t v) { f.deth.set_qkey(Qkey{low32(v)}); }},
    Field{"source_qp", qpn_mask,
          [](const F& f) { return std::uint64_t{to_value(f.deth.source_qpn())}; },
          [](F& f, std::uint64_t v) { f.deth.set_source_qpn(Qpn{low32(v)}); }},
    Field{"va", u64_max, [](const F& f) { return to_value(f.reth.va()); },
          [](F& f, std::uint64_t v) {
            f.reth.set_va(Va{v});
            f.atomic_eth.set_va(Va{v});
          }},
    Field{"rkey", u32_max, [](const F& f) { return std::uint64_t{to_value(f.reth.rkey())}; },
          [](F& f, std::uint64_t v) {
            f.reth.set_rkey(Rkey{low32(v)});
            f.atomic_eth.set_rkey(Rkey{low32(v)});
          }},
    Field{"length", u32_max, [](const F& f) { return std::uint64_t{f.reth.length_bytes()}; },
          [](F& f, std::uint64_t v) { f.reth.set_length_bytes(low32(v)); }},
    Field{"syndrome", 0xFF, [](const F& f) { return std::uint64_t{f.aeth.syndrome().to_byte()}; },
          [](F& f, std::uint64_t v) {
            f.aeth.set_syndrome(ib::Syndrome::from_byte(static_cast<std::uint8_t>(v)));
          }},
    Field{"msn", Msn::mask, [](const F& f) { return std::uint64_t{f.aeth.msn().value()}; },
          [](F& f, std::uint64_t v) { f.aeth.set_msn(Msn(low32(v))); }},
    Field{"imm", u32_max, [](const F& f) { return std::uint64_t{f.imm.value()}; },
          [](F& f, std::uint64_t v) { f.imm.set_value(low32(v)); }},
    Field{"add", u64_max, [](const F& f) { return f.atomic_eth.swap_or_add(); },
          [](F& f, std::uint64_t v) { f.atomic_eth.set_swap_or_add(v); }},
    Field{"swap", u64_max, [](const F& f) { return f.atomic_eth.swap_or_add(); },
          [](F& f, std::uint64_t v) { f.atomic_eth.set_swap_or_add(v); }},
    Field{"compare", u64_max, [](const F& f) { return f.atomic_eth.compare(); },
          [](F& f, std::uint64_t v) { f.atomic_eth.set_compare(v); }},
    Field{"original", u64_max, [](const F& f) { return f.atomic_ack_eth.original(); },
          [](F& f, std::uint64_t v) { f.atomic_ack_eth.set_original(v); }},
    Field{"placement", 0xF, [](const F& f) { return std::uint64_t{f.feth.placement_type()}; },
          [](F& f, std::uint64_t v) { f.feth.set_placement_type(low32(v)); }},
    Field{"selectivity", 3, [](const F& f) { return std::uint64_t{f.feth.selectivity()}; },
          [](F& f, std::uint64_t v) { f.feth.set_selectivity(low32(v)); }},
    Field{"srqn", qpn_mask, [](const F& f) { return std::uint64_t{f.xrceth.srq_number()}; },
          [](F& f, std::uint64_t v) { f.xrceth.set_srq_number(low32(v)); }},
    Field{"invalidate", u32_max, [](const F& f) { return std::uint64_t{to_value(f.ieth.rkey())}; },
          [](F& f, std::uint64_t v) { f.ieth.set_rkey(Rkey{low32(v)}); }},
};

}  // namespace

ib::Opcode opcode_of(const Word& word) {
  std::string name = word.text;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (const auto opcode = ib::opcode_from_identifier(name)) {
    return *opcode;
  }
  if (const auto opcode = ib::opcode_from_identifier("rc_" + name)) {
    return *opcode;
  }
  std::vector<std::string_view> known;
  for (const ib::Opcode opcode : ib::opcodes) {
    known.push_back(ib::opcode_identifier(opcode));
    known.push_back(known.back().substr(known.back().find('_') + 1));
  }
  fail(word, fmt::format("No opcode is named '{}'.{}", word.text, did_you_mean(name, known)));
}

void check_segment_name(const Word& name, std::string_view lower_name) {
  std::vector<std::string> known{"syn", "syn_ack",     "ack",       "fin",
                                 "rst", "mpa_request", "mpa_reply", "data"};
  for (const iwarp::SegmentName& row : iwarp::segment_names) {
    known.push_back(lower(std::string(row.name)));
  }
  if (std::ranges::find(known, lower_name) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    fail(name,
         fmt::format("No segment is named '{}'.{}", name.text, did_you_mean(lower_name, names)));
  }
}

Psn psn_of(const Word& word, Psn first) {
  if (!word.text.starts_with('+')) {
    return Psn(low32(number_of(word, Psn::mask)));
  }
  const Word offset{word.text.substr(1), {word.place.line, word.place.column + 1}};
  return first + static_cast<std::int32_t>(number_of(offset, Psn::mask));
}

void read_fields(Line& line, Stage& stage, ib::PacketFields& fields) {
  for (const Field& field : fields_by_name) {
    if (const auto value = line.take(field.name)) {
      field.set(fields, stage.value(*value, field.max));
    }
  }
}

std::optional<std::string> compare_fields(Line& line, Stage& stage, const PacketSummary& packet) {
  // All of them are taken from the line, also behind the first difference.
  std::optional<std::string> difference;
  for (const Field& field : fields_by_name) {
    const auto word = line.take(field.name);
    if (!word) {
      continue;
    }
    const std::uint64_t expected = stage.value(*word, field.max);
    // An atomic's address and key are in a header of their own.
    ib::PacketFields fields = packet.fields;
    if (packet.info().has(ib::ExtHeader::atomic_eth)) {
      fields.reth = ib::Reth(fields.atomic_eth.va(), fields.atomic_eth.rkey(), 0);
    }
    const std::uint64_t got = field.get(fields);
    if (expected != got && !difference) {
      difference = fmt::format("{} is {:#x}, expected {:#x}", field.name, got, expected);
    }
  }
  if (const auto word = line.take("payload")) {
    const std::uint64_t expected = size_of(*word, payload_bytes_max);
    if (expected != packet.payload_bytes && !difference) {
      difference = fmt::format("payload has {} bytes, expected {}", packet.payload_bytes, expected);
    }
  }
  return difference;
}

namespace {

/// What the lines call the fields of a segment. Those of an FPDU are the first one's.
struct SegmentField {
  std::string_view name;
  std::uint64_t max;
  std::uint64_t (*get)(const iwarp::FpduGlimpse& fpdu);
};

using G = iwarp::FpduGlimpse;

constexpr std::array segment_fields{
    SegmentField{"stag", u32_max, [](const G& g) { return std::uint64_t{g.stag}; }},
    // As with RoCE, the remote memory: where a tagged message goes, or what a READ reads.
    SegmentField{"rkey", u32_max,
                 [](const G& g) { return std::uint64_t{g.is_tagged ? g.stag : g.source_stag}; }},
    SegmentField{"va", u64_max,
                 [](const G& g) { return g.is_tagged ? g.offset : g.source_offset; }},
    SegmentField{"length", u32_max, [](const G& g) { return std::uint64_t{g.read_bytes}; }},
    SegmentField{"imm", u32_max, [](const G& g) { return std::uint64_t{g.immediate}; }},
    SegmentField{"msn", u32_max, [](const G& g) { return std::uint64_t{g.msn}; }},
    SegmentField{"mo", u32_max, [](const G& g) { return std::uint64_t{g.message_offset}; }},
};

/// A sequence number, absolute or "+N" from that of the SYN.
std::uint32_t sequence_of(const Word& word, std::uint32_t first) {
  if (!word.text.starts_with('+')) {
    return low32(number_of(word, u32_max));
  }
  return first +
         low32(number_of({word.text.substr(1), {word.place.line, word.place.column + 1}}, u32_max));
}

}  // namespace

std::optional<std::string> compare_segment_fields(Line& line, Stage& stage,
                                                  const PacketSummary& packet,
                                                  std::array<std::uint32_t, 2> first) {
  const SegmentSummary segment = packet.segment.value_or(SegmentSummary{});
  std::optional<std::string> difference;
  const auto compare = [&](std::string_view name, std::uint64_t expected, std::uint64_t got) {
    if (expected != got && !difference) {
      difference = fmt::format("{} is {}, expected {}", name, got, expected);
    }
  };
  if (const auto word = line.take("seq")) {
    compare("seq", sequence_of(*word, first[0]), segment.sequence);
  }
  if (const auto word = line.take("ack")) {
    compare("ack", sequence_of(*word, first[1]), segment.acknowledgement);
  }
  if (const auto word = line.take("fpdus")) {
    compare("fpdus", size_of(*word, payload_bytes_max), segment.fpdus.size());
  }
  const G fpdu = segment.fpdus.empty() ? G{} : segment.fpdus.front();
  for (const SegmentField& field : segment_fields) {
    if (const auto word = line.take(field.name)) {
      compare(field.name, stage.value(*word, field.max), field.get(fpdu));
    }
  }
  if (const auto word = line.take("payload")) {
    compare("payload", size_of(*word, payload_bytes_max),
            segment.fpdus.empty() ? packet.payload_bytes : fpdu.payload_bytes);
  }
  return difference;
}

std::vector<std::byte> payload_from(Line& line) {
  if (const auto hex = line.take("hex")) {
    return bytes_from_hex(*hex);
  }
  std::vector<std::byte> bytes;
  if (const auto count = line.take("payload")) {
    bytes.resize(size_of(*count, payload_bytes_max));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i);
    }
  }
  return bytes;
}

std::vector<std::byte> bytes_from_hex(const Word& word) {
  std::string digits = word.text;
  std::erase(digits, '_');
  if (digits.size() % 2 != 0) {
    fail(word, "Bytes are pairs of hexadecimal digits.");
  }
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(number_of({"0x" + digits.substr(i, 2), word.place}, 0xFF)));
  }
  return bytes;
}

}  // namespace verbena::sim
