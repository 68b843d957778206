// Header fields of packets under the names that stories and expectations use: one table for
// writing, reading and comparing them. Internal to sim/scenario/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "proto/ib_bth/emit.h"
#include "sim/packet_summary.h"
#include "sim/scenario/stage.h"
#include "sim/scenario/words.h"

namespace verbena::sim {

/// An opcode by its identifier, in any case, of RC unless another service stands in front.
[[nodiscard]] ib::Opcode opcode_of(const Word& word);

/// Whether a segment of iWARP may have that name, in lower case; if not, an error.
void check_segment_name(const Word& name, std::string_view lower_name);

/// A PSN, absolute or "+N" from the connection's first one.
[[nodiscard]] Psn psn_of(const Word& word, Psn first);

/// Sets those fields that the line gives a value.
void read_fields(Line& line, Stage& stage, ib::PacketFields& fields);

/// Compares those fields that the line gives a value; the first difference in words.
[[nodiscard]] std::optional<std::string> compare_fields(Line& line, Stage& stage,
                                                        const PacketSummary& packet);

/// The same for a segment of iWARP; `first` are the sequence numbers of the sender's and the
/// receiver's SYN.
[[nodiscard]] std::optional<std::string> compare_segment_fields(Line& line, Stage& stage,
                                                                const PacketSummary& packet,
                                                                std::array<std::uint32_t, 2> first);

/// payload=N: counting bytes; hex=DIGITS: those bytes.
[[nodiscard]] std::vector<std::byte> payload_from(Line& line);
[[nodiscard]] std::vector<std::byte> bytes_from_hex(const Word& word);

}  // namespace verbena::sim
