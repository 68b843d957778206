// Reading a scenario file: TOML into a Scenario, with defaults.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/near_miss.h"
#include "faults/rule_table.h"
#include "faults/units.h"
#include "proto/roce/gid.h"
#include "sim/scenario/load_parts.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/table.h"

namespace verbena::sim {
namespace {

// Limits that keep a hostile file from asking for the machine.
constexpr std::size_t hosts_max = 256;
constexpr std::size_t memory_bytes_max = std::size_t{256} << 20;
constexpr std::uint64_t rounds_max = 1'000'000;

/// Where a host's regions begin in its arena: each on a boundary of its own.
constexpr std::size_t region_alignment = 4'096;

constexpr Duration limit_default{10'000'000'000};

}  // namespace

Access access_of(const std::vector<Word>& words) {
  constexpr std::array<std::pair<std::string_view, Access>, 8> rights{
      {{"local_write", Access::local_write},
       {"remote_write", Access::remote_write},
       {"remote_read", Access::remote_read},
       {"remote_atomic", Access::remote_atomic},
       {"mw_bind", Access::mw_bind},
       {"zero_based", Access::zero_based},
       {"flush_global", Access::flush_global},
       {"flush_persistent", Access::flush_persistent}}};
  Access access = Access::none;
  for (const Word& word : words) {
    const auto row =
        std::ranges::find(rights, word.text, &std::pair<std::string_view, Access>::first);
    if (row == rights.end()) {
      std::vector<std::string_view> known;
      std::ranges::transform(rights, std::back_inserter(known),
                             &std::pair<std::string_view, Access>::first);
      fail(word, fmt::format("'{}' isn't an access right: {}.{}", word.text, fmt::join(known, ", "),
                             did_you_mean(word.text, known)));
    }
    access = access | row->second;
  }
  return access;
}

namespace {

/// What carries the packets, and the addresses of hosts that have none of their own.
struct TransportRow {
  std::string_view name;
  nic::GidEntry::Type encapsulation;
  bool is_ipv6;
  nic::Technology technology = nic::Technology::roce;
};
constexpr std::array transports{
    TransportRow{"roce_v2", nic::GidEntry::Type::roce_v2, false},
    TransportRow{"roce_v2_ipv6", nic::GidEntry::Type::roce_v2, true},
    TransportRow{"roce_v1", nic::GidEntry::Type::roce_v1, true},
    TransportRow{"iwarp", nic::GidEntry::Type::roce_v2, false, nic::Technology::iwarp},
};

const TransportRow& transport_of(const Word& word) {
  const auto* const row = std::ranges::find(transports, word.text, &TransportRow::name);
  if (row == transports.end()) {
    std::vector<std::string_view> known;
    std::ranges::transform(transports, std::back_inserter(known), &TransportRow::name);
    fail(word, fmt::format("There is no transport '{}': roce_v2, roce_v2_ipv6, roce_v1 or iwarp.{}",
                           word.text, did_you_mean(word.text, known)));
  }
  return *row;
}

/// 10.0.0.1, 10.0.0.2, ... or fe80::1, fe80::2, ...
Gid address_number(const TransportRow& transport, std::size_t index) {
  if (!transport.is_ipv6) {
    return roce::gid_from_ipv4(
        inet::Ipv4Address::from_value(0x0A00'0001 + static_cast<std::uint32_t>(index)));
  }
  return *roce::gid_from_text(fmt::format("fe80::{:x}", index + 1));
}

Gid address_of(const Word& word, const TransportRow& transport) {
  const auto gid = roce::gid_from_text(word.text);
  if (!gid || roce::ipv4_from_gid(*gid).has_value() == transport.is_ipv6) {
    fail(word, fmt::format("'{}' isn't an IPv{} address, which {} takes.", word.text,
                           transport.is_ipv6 ? 6 : 4, transport.name));
  }
  return *gid;
}

void read_hosts(Table& root, Scenario& scenario) {
  const auto named = root.word("transport");
  const TransportRow& transport = named ? transport_of(*named) : transports.front();
  scenario.encapsulation = transport.encapsulation;
  scenario.technology = transport.technology;
  for (Table& table : root.tables("host")) {
    HostSpec host;
    host.name = table.required_word("name").text;
    const auto address = table.word("address");
    host.gid = address ? address_of(*address, transport)
                       : address_number(transport, scenario.hosts.size());
    if (const auto alternate = table.word("alternate")) {
      host.alternate = address_of(*alternate, transport);
    }
    host.has_nic = table.boolean("nic", true);
    host.rdmap_extensions = table.boolean("rdmap_extensions", true);
    if (!host.has_nic && scenario.technology == nic::Technology::iwarp) {
      fail(table.place(), "Scripted peers speak RoCE, not iWARP.");
    }
    table.end();
    scenario.hosts.push_back(std::move(host));
  }
  if (scenario.hosts.empty()) {
    scenario.hosts = {{.name = "client", .gid = address_number(transport, 0)},
                      {.name = "server", .gid = address_number(transport, 1)}};
  }
  if (scenario.hosts.size() > hosts_max) {
    fail(root.place(), fmt::format("{} hosts at most.", hosts_max));
  }
}

void add_memory(Scenario& scenario, MemorySpec memory, Place place) {
  std::size_t used = 0;
  for (const MemorySpec& other : scenario.memories) {
    if (other.host == memory.host) {
      used = std::max(used, other.offset + other.bytes);
    }
  }
  // A gap of one alignment lies between regions, so that an overrun hits nothing.
  memory.offset = used == 0 ? 0 : (used / region_alignment + 2) * region_alignment;
  if (memory.bytes > memory_bytes_max - std::min(memory.offset, memory_bytes_max)) {
    fail(place, fmt::format("A host has {} bytes of memory at most.", memory_bytes_max));
  }
  scenario.memories.push_back(std::move(memory));
}

void read_fill(const Word& word, MemorySpec& memory) {
  if (word.text == "count") {
    memory.counting = true;
  } else if (word.text != "zero") {
    memory.value = static_cast<std::uint8_t>(number_of(word, 0xFF));
  }
}

void read_memories(Table& root, Scenario& scenario) {
  for (Table& table : root.tables("memory")) {
    MemorySpec memory;
    memory.place = table.place();
    memory.name = table.required_word("name").text;
    memory.host = index_of(scenario.hosts, table.required_word("host"), "host");
    memory.bytes = static_cast<std::size_t>(size_of(table.required_word("size"), memory_bytes_max));
    if (const auto fill = table.word("fill")) {
      read_fill(*fill, memory);
    }
    const auto access = table.words("access");
    memory.access = access ? access_of(*access) : peer_access;
    table.end();
    add_memory(scenario, std::move(memory), table.place());
  }
  if (scenario.memories.empty()) {
    constexpr std::size_t bytes = 64 * 1024;
    const auto add = [&](const char* name, std::size_t host, bool counting) {
      if (host < scenario.hosts.size() && scenario.hosts[host].has_nic) {
        add_memory(scenario,
                   {.place = root.place(),
                    .name = name,
                    .host = host,
                    .offset = 0,
                    .bytes = bytes,
                    .counting = counting,
                    .value = 0,
                    .access = peer_access},
                   root.place());
      }
    };
    add("source", 0, true);
    add("result", 0, false);
    add("target", 1, false);
    add("inbox", 1, false);
  }
}

void read_srqs(Table& root, Scenario& scenario) {
  for (Table& table : root.tables("srq")) {
    SrqSpec srq;
    srq.place = table.place();
    srq.name = table.required_word("name").text;
    srq.host = index_of(scenario.hosts, table.required_word("host"), "host");
    table.number("wr", queue_wr_max, srq.wr_max);
    table.number("limit", queue_wr_max, srq.limit);
    srq.is_xrc = table.boolean("xrc", false);
    table.end();
    scenario.srqs.push_back(std::move(srq));
  }
}

void read_windows(Table& root, Scenario& scenario) {
  for (Table& table : root.tables("window")) {
    WindowSpec window;
    window.place = table.place();
    window.name = table.required_word("name").text;
    window.host = index_of(scenario.hosts, table.required_word("host"), "host");
    if (const auto type = table.word("type")) {
      if (type->text != "1" && type->text != "2") {
        fail(*type, fmt::format("A window is of type 1 or 2, not '{}'.", type->text));
      }
      window.type = type->text == "1" ? nic::MwType::type_1 : nic::MwType::type_2;
    }
    table.end();
    scenario.windows.push_back(std::move(window));
  }
}

void read_network(Table& root, Scenario& scenario) {
  constexpr std::uint64_t bytes_max = std::uint64_t{1} << 30;
  LinkConfig& link = scenario.link;
  if (auto table = root.table("link")) {
    if (const auto rate = table->word("rate")) {
      const auto value = faults::parse_rate(rate->text);
      if (!value) {
        fail(*rate, fmt::format("'{}' isn't a rate, such as 100Gb/s.", rate->text));
      }
      link.bits_per_second = *value;
    }
    if (const auto delay = table->word("delay")) {
      link.delay = duration_of(*delay);
    }
    if (const auto mtu = table->word("mtu")) {
      link.frame_bytes_max = size_of(*mtu, 65'535) + 14;
    }
    if (const auto queue = table->word("queue")) {
      link.queue_bytes_max = std::max<std::size_t>(size_of(*queue, bytes_max), 1);
    }
    if (const auto mark = table->word("mark")) {
      link.mark_bytes = size_of(*mark, bytes_max);
    }
    table->end();
  }
  if (auto table = root.table("switch")) {
    scenario.switch_latency = Duration(500);
    if (const auto latency = table->word("latency")) {
      scenario.switch_latency = duration_of(*latency);
    }
    table->end();
  }
  if (scenario.hosts.size() != 2 && !scenario.switch_latency) {
    scenario.switch_latency = Duration(500);
  }
}

void read_faults(Table& root, Scenario& scenario) {
  const faults::HostResolver resolve = [&](std::string_view name) -> std::optional<Gid> {
    const auto host = std::ranges::find(scenario.hosts, name, &HostSpec::name);
    return host != scenario.hosts.end() ? std::optional(host->gid) : std::nullopt;
  };
  for (const Table& table : root.tables("fault")) {
    auto rule = faults::rule_from_table(table.raw(), resolve);
    if (!rule) {
      fail({rule.error().position.line, rule.error().position.column}, rule.error().message);
    }
    scenario.faults.push_back(*std::move(rule));
  }
}

void read_expectations(Table& root, Scenario& scenario) {
  auto table = root.table("expect");
  if (!table) {
    return;
  }
  Expectations& expect = scenario.expect;
  expect.packets = table->lines("packets");
  expect.completions = table->lines("completions");
  expect.states = table->lines("states");
  expect.events = table->lines("events");
  expect.counters = table->lines("counters");
  expect.memory = table->lines("memory");
  expect.connections = table->lines("connections");
  expect.objects = table->lines("objects");
  if (const auto ends = table->word("ends")) {
    expect.ends.emplace(ends->text, Place{ends->place.line, ends->place.column + 1});
  }
  table->end();
}

Scenario read_scenario(const toml::table& parsed, std::string_view file) {
  Table root(parsed);
  Scenario scenario;
  scenario.file = file;
  if (const auto title = root.word("title")) {
    scenario.title = title->text;
  }
  root.number("seed", std::numeric_limits<std::int64_t>::max(), scenario.seed);
  const auto limit = root.word("limit");
  scenario.limit = limit ? duration_of(*limit) : limit_default;
  read_hosts(root, scenario);
  read_memories(root, scenario);
  read_srqs(root, scenario);
  read_windows(root, scenario);
  read_connections(root, scenario);
  read_network(root, scenario);
  read_faults(root, scenario);
  if (auto story = root.table("story")) {
    scenario.steps = story->lines("steps").value_or(std::vector<Line>{});
    story->number("times", rounds_max, scenario.rounds);
    story->end();
  }
  read_expectations(root, scenario);
  static_cast<void>(root.take("sweep"));
  root.end();
  return scenario;
}

toml::table parse_toml(std::string_view text) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const auto& begin = parsed.error().source().begin;
    fail({begin.line, begin.column}, std::string(parsed.error().description()));
  }
  return std::move(parsed).table();
}

}  // namespace

std::string explain(std::string_view file, const ScenarioError& error) {
  return fmt::format("{}:{}:{}: {}", file, error.place.line, error.place.column, error.message);
}

Result<std::vector<Scenario>, std::string> load_scenarios(std::string_view toml,
                                                          std::string_view file) {
  try {
    std::vector<Scenario> scenarios;
    for (const SweepRow& row : sweep_rows(parse_toml(toml))) {
      scenarios.push_back(read_scenario(parse_toml(substitute(toml, row)), file));
      std::string& variant = scenarios.back().variant;
      for (const auto& [name, value] : row) {
        variant += fmt::format("{}{}={}", variant.empty() ? "" : " ", name, value);
      }
    }
    return scenarios;
  } catch (const ScenarioError& error) {
    return std::unexpected(explain(file, error));
  }
}

}  // namespace verbena::sim
