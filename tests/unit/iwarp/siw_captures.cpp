#include "tests/unit/iwarp/siw_captures.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "cli/tcp_follower.h"
#include "pcap/reader.h"
#include "proto/inet/parse.h"
#include "proto/inet/tcp_header.h"
#include "tests/unit/project_file.h"

namespace verbena::test {
namespace {

struct Followed {
  std::uint16_t client_port = 0;
  cli::TcpFollower client;
  cli::TcpFollower server;
  CapturedConnection connection;
};

}  // namespace

std::vector<std::byte> CapturedConnection::stream(bool from_client) const {
  std::vector<std::byte> bytes;
  for (const Piece& piece : pieces) {
    if (piece.from_client == from_client) {
      bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
    }
  }
  return bytes;
}

std::vector<std::string> siw_captures() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(project_file("tests/data/captures/siw"))) {
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<CapturedConnection> siw_connections(const std::string& name) {
  return connections_of("tests/data/captures/siw/" + name + ".pcap");
}

std::vector<CapturedConnection> connections_of(const std::string& file) {
  auto reader = pcap::Reader::open(project_file(file));
  REQUIRE(reader);
  std::vector<Followed> all;
  for (;;) {
    const auto packet = reader->next();
    REQUIRE(packet);
    if (!*packet) {
      break;
    }
    const auto ethernet = inet::parse_ethernet((*packet)->frame);
    REQUIRE(ethernet);
    const auto ip = inet::parse_ipv4(ethernet->payload);
    REQUIRE(ip);
    const auto tcp = inet::parse_tcp(ip->payload);
    REQUIRE(tcp);
    const std::uint16_t source = tcp->header.source_port.value();
    const std::uint16_t destination = tcp->header.destination_port.value();
    auto found = std::ranges::find_if(all, [&](const Followed& followed) {
      return followed.client_port == source || followed.client_port == destination;
    });
    const bool is_syn = tcp->header.has(inet::TcpHeader::flag_syn);
    if (found == all.end()) {
      Followed& added = all.emplace_back();
      added.client_port = source;
      added.connection.has_handshake = is_syn;
      found = std::prev(all.end());
    }
    const bool from_client = source == found->client_port;
    std::vector<std::byte> bytes;
    (from_client ? found->client : found->server)
        .add(tcp->header.sequence.value(), is_syn, tcp->payload, bytes);
    if (!bytes.empty()) {
      found->connection.pieces.push_back({.from_client = from_client, .bytes = std::move(bytes)});
    }
  }
  std::vector<CapturedConnection> connections;
  for (Followed& followed : all) {
    if (!followed.connection.pieces.empty()) {
      connections.push_back(std::move(followed.connection));
    }
  }
  return connections;
}

}  // namespace verbena::test
