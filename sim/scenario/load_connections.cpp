// The connections of a scenario file.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/scenario/load_parts.h"

namespace verbena::sim {
namespace {

/// Keeps a hostile file from asking for the machine.
constexpr std::size_t connections_max = 4'096;

/// Of queue pairs: what memory permits or not is told by the memory.
constexpr Access connection_access = peer_access | Access::flush_global | Access::flush_persistent;

ib::Service service_of(const Word& word) {
  constexpr std::array<std::pair<std::string_view, ib::Service>, 4> services{
      {{"rc", ib::Service::rc},
       {"uc", ib::Service::uc},
       {"ud", ib::Service::ud},
       {"xrc", ib::Service::xrc}}};
  for (const auto& [name, service] : services) {
    if (word.text == name) {
      return service;
    }
  }
  fail(word, fmt::format("'{}' isn't a service: rc, uc, ud or xrc.", word.text));
}

/// Each end takes its requests from that queue of its host that is named.
void read_srqs_of_ends(Table& table, const Scenario& scenario, ConnectionSpec& connection) {
  for (const Word& name : table.words("srq").value_or(std::vector<Word>{})) {
    const std::size_t srq = index_of(scenario.srqs, name, "shared receive queue");
    const auto* const end = std::ranges::find(connection.hosts, scenario.srqs[srq].host);
    if (end == connection.hosts.end()) {
      fail(name, fmt::format("'{}' is at neither end of the connection.", name.text));
    }
    if (scenario.srqs[srq].is_xrc) {
      fail(name, fmt::format("'{}' is for XRC: messages name it, not connections.", name.text));
    }
    connection.srqs[static_cast<std::size_t>(end - connection.hosts.begin())] = srq;
  }
}

nic::Mtu mtu_of(const Word& word) {
  for (const auto mtu : {nic::Mtu::mtu_256, nic::Mtu::mtu_512, nic::Mtu::mtu_1024,
                         nic::Mtu::mtu_2048, nic::Mtu::mtu_4096}) {
    if (word.text == fmt::format("{}", nic::mtu_bytes(mtu))) {
      return mtu;
    }
  }
  fail(word, fmt::format("'{}' isn't a path MTU: 256, 512, 1024, 2048 or 4096.", word.text));
}

void read_ends(Table& table, const Scenario& scenario, ConnectionSpec& connection) {
  if (const auto between = table.words("between")) {
    if (between->size() != 2) {
      fail(table.place(), "A connection is between two hosts.");
    }
    for (std::size_t end = 0; end < 2; ++end) {
      connection.hosts[end] = index_of(scenario.hosts, (*between)[end], "host");
    }
  }
  if (connection.hosts[0] == connection.hosts[1]) {
    fail(table.place(), "A connection is between two different hosts.");
  }
  if (const auto psns = table.words("psn")) {
    if (psns->size() != 2) {
      fail(table.place(), "psn is an array of two: the first PSN of each end.");
    }
    for (std::size_t end = 0; end < 2; ++end) {
      connection.first_psns[end] =
          Psn(static_cast<std::uint32_t>(number_of((*psns)[end], Psn::mask)));
    }
  }
}

/// Which of two words stands there; the first one if none does.
bool is_second_of(Table& table, std::string_view key, std::string_view first,
                  std::string_view second) {
  const auto word = table.word(key);
  if (word && word->text != first && word->text != second) {
    fail(*word, fmt::format("'{}' is neither {} nor {}.", word->text, first, second));
  }
  return word && word->text == second;
}

/// Who makes the connection, and how.
void read_making(Table& table, const Scenario& scenario, ConnectionSpec& connection) {
  constexpr std::uint64_t code_max = 31;
  constexpr std::uint64_t cm_retries_max = 15;
  connection.uses_cm = is_second_of(table, "made_by", "test", "cm");
  connection.story_answers = is_second_of(table, "answer", "accept", "story");
  table.number("cm_timeout", code_max, connection.cm_timeout);
  table.number("cm_retries", cm_retries_max, connection.cm_retries);
  const bool is_possible = std::ranges::all_of(
      connection.hosts, [&](std::size_t host) { return scenario.hosts[host].has_nic; });
  if (connection.uses_cm &&
      (!is_possible || scenario.technology != nic::Technology::roce ||
       scenario.encapsulation != nic::GidEntry::Type::roce_v2 ||
       (connection.service != ib::Service::rc && connection.service != ib::Service::uc))) {
    fail(
        table.place(),
        "Connection managers make connections of rc and uc, between hosts with a NIC, by RoCE v2.");
  }
}

}  // namespace

void read_connections(Table& root, Scenario& scenario) {
  constexpr std::uint64_t timer_code_max = 31;
  constexpr std::uint64_t retries_max = 7;
  for (Table& table : root.tables("connection")) {
    ConnectionSpec connection;
    connection.place = table.place();
    connection.hosts = {0, 1};
    connection.access = connection_access;
    if (const auto name = table.word("name")) {
      connection.name = name->text;
    }
    read_ends(table, scenario, connection);
    read_srqs_of_ends(table, scenario, connection);
    if (const auto service = table.word("service")) {
      connection.service = service_of(*service);
      if (connection.service != ib::Service::rc && scenario.technology == nic::Technology::iwarp) {
        fail(*service, "iWARP has reliable connections only.");
      }
    }
    if (const auto qkey = table.word("qkey")) {
      connection.qkey = Qkey{static_cast<std::uint32_t>(number_of(*qkey, UINT32_MAX))};
    }
    if (const auto mtu = table.word("mtu")) {
      connection.mtu = mtu_of(*mtu);
    }
    table.number("timeout", timer_code_max, connection.timeout);
    table.number("retry_cnt", retries_max, connection.retry_cnt);
    table.number("rnr_retry", retries_max, connection.rnr_retry);
    table.number("min_rnr_timer", timer_code_max, connection.min_rnr_timer);
    table.number("rd_atomic", 128, connection.rd_atomic);
    table.number("send_wr", queue_wr_max, connection.send_wr_max);
    table.number("recv_wr", queue_wr_max, connection.recv_wr_max);
    if (const auto access = table.words("access")) {
      connection.access = access_of(*access);
    }
    read_making(table, scenario, connection);
    table.end();
    scenario.connections.push_back(std::move(connection));
  }
  if (scenario.connections.empty() && scenario.hosts.size() >= 2) {
    ConnectionSpec connection;
    connection.hosts = {0, 1};
    connection.access = connection_access;
    scenario.connections.push_back(connection);
  }
  if (scenario.connections.size() > connections_max) {
    fail(root.place(), fmt::format("{} connections at most.", connections_max));
  }
}

}  // namespace verbena::sim
