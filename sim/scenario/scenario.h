// Scenario files: a world, a story and what must come of it, in TOML. Read first:
// docs/scenarios.md, which describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "faults/rule.h"
#include "nic_model/nic.h"
#include "nic_model/types.h"
#include "proto/gid.h"
#include "proto/ib_bth/opcode.h"
#include "sim/channel.h"
#include "sim/scenario/words.h"

namespace verbena::sim {

struct HostSpec {
  std::string name;
  Gid gid;
  /// A second address, for connections that may migrate.
  std::optional<Gid> alternate{};
  /// False: a scripted peer.
  bool has_nic = true;
  /// Of iWARP: immediate data and atomics.
  bool rdmap_extensions = true;
};

struct MemorySpec {
  /// Where the file describes it.
  Place place;
  std::string name;
  std::size_t host = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  /// Bytes 0, 1, 2, ... 255, 0, ...; otherwise all `value`.
  bool counting = false;
  std::uint8_t value = 0;
  Access access = Access::none;
};

/// A queue of receive requests that connections share.
struct SrqSpec {
  Place place;
  std::string name;
  std::size_t host = 0;
  std::uint32_t wr_max = 128;
  std::uint32_t limit = 0;
  /// It is of the host's XRC domain: messages name it.
  bool is_xrc = false;
};

/// A memory window.
struct WindowSpec {
  Place place;
  std::string name;
  std::size_t host = 0;
  nic::MwType type = nic::MwType::type_2;
};

struct ConnectionSpec {
  Place place;
  std::string name;
  /// RC, UC; UD: each end sends to the other by an address handle; XRC: the first end sends, the
  /// second one receives.
  ib::Service service = ib::Service::rc;
  /// Where each end takes its receive requests from; nullopt: from a queue of its own.
  std::array<std::optional<std::size_t>, 2> srqs{};
  Qkey qkey{0x1234'5678};
  std::array<std::size_t, 2> hosts{};
  std::array<Psn, 2> first_psns{};
  nic::Mtu mtu = nic::Mtu::mtu_1024;
  std::uint8_t timeout = 10;
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t rd_atomic = 4;
  std::uint32_t send_wr_max = 128;
  std::uint32_t recv_wr_max = 128;
  Access access = Access::none;
  /// The hosts make it in the story, through their connection managers; otherwise it is there from
  /// the beginning. Then: whether a step answers the request, or the application accepts; how long
  /// a message's answer may take, as a code of 4.096 us * 2^code; and how often it is sent again.
  bool uses_cm = false;
  bool story_answers = false;
  std::uint8_t cm_timeout = 14;
  std::uint8_t cm_retries = 3;
};

/// What must come out. What is absent is not looked at.
struct Expectations {
  using Lines = std::optional<std::vector<Line>>;
  Lines packets;
  Lines completions;
  Lines states;
  Lines events;
  Lines connections;
  Lines counters;
  Lines memory;
  Lines objects;
  std::optional<Line> ends;
};

struct Scenario {
  std::string file;
  std::string title;
  /// Which row of a sweep: "mtu=256 length=1023". Empty without one.
  std::string variant;
  std::uint64_t seed = 1;
  /// The story must be told by then.
  Duration limit{};
  /// iwarp: every connection is a stream over TCP, and the encapsulation means nothing.
  nic::Technology technology = nic::Technology::roce;
  /// Of every packet: RoCE v1, or v2; the addresses tell which IP.
  nic::GidEntry::Type encapsulation = nic::GidEntry::Type::roce_v2;
  std::vector<HostSpec> hosts;
  std::vector<MemorySpec> memories;
  std::vector<SrqSpec> srqs;
  std::vector<WindowSpec> windows;
  std::vector<ConnectionSpec> connections;
  LinkConfig link;
  /// Latency of the switch between the hosts; nullopt: the two of them have one link.
  std::optional<Duration> switch_latency;
  faults::RuleSet faults;
  std::vector<Line> steps;
  /// How often the steps are done, one round behind the other.
  std::uint32_t rounds = 1;
  Expectations expect;
};

/// "remote_write", "remote_read", ... A word that is no right is a ScenarioError.
[[nodiscard]] Access access_of(const std::vector<Word>& words);

/// The scenarios of a file's text: one, or one for each row of its sweep. The error begins with
/// "<file>:<line>:<column>: ".
[[nodiscard]] Result<std::vector<Scenario>, std::string> load_scenarios(std::string_view toml,
                                                                        std::string_view file);

/// "file:line:column: message".
[[nodiscard]] std::string explain(std::string_view file, const ScenarioError& error);

}  // namespace verbena::sim
