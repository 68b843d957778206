// The JSON of `verbena dump`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <variant>

#include "cli/dump_format.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Layer& layer) {
  Json json = Json::object();
  json["offset"] = layer.offset;
  json["size"] = layer.size_bytes;
  if (layer.is_reassembled) {
    json["reassembled"] = true;
  }
  for (const Field& field : layer.fields) {
    const std::string name(field.name);
    std::visit([&](const auto& value) { json[name] = value; }, field.value);
    if (!field.meaning.empty()) {
      json[name + "_text"] = field.meaning;
    }
  }
  return json;
}

Json frame_json(const DumpedPacket& dumped) {
  const pcap::Packet& packet = dumped.packet;
  Json json = Json::object();
  json["number"] = dumped.number;
  if (packet.time && dumped.relative_time) {
    const auto whole = std::chrono::floor<std::chrono::seconds>(*packet.time);
    // A text: JSON readers keep 53 bits of a number, and this takes 61.
    json["time"] =
        fmt::format("{}.{:09}", whole.time_since_epoch().count(), (*packet.time - whole).count());
    json["relative_ns"] = dumped.relative_time->count();
  }
  if (packet.direction != pcap::Direction::unknown) {
    json["direction"] = packet.direction == pcap::Direction::inbound ? "in" : "out";
  }
  if (!packet.interface_name.empty()) {
    json["interface"] = packet.interface_name;
  }
  json["size"] = packet.wire_bytes;
  json["captured"] = packet.frame.size();
  json["file_offset"] = packet.offset;
  json["comments"] = packet.comments;
  return json;
}

}  // namespace

std::string format_json(const DumpedPacket& dumped) {
  const Dissection& dissection = dumped.dissection;
  Json json = Json::object();
  json["frame"] = frame_json(dumped);
  json["source"] = dissection.source;
  json["destination"] = dissection.destination;
  json["title"] = dissection.title;
  json["summary"] = dissection.summary;
  for (const Layer& layer : dissection.layers) {
    json[layer.name] = to_json(layer);
  }
  if (!dissection.error.empty()) {
    json["error"] = dissection.error;
  }
  // Comments and names come from the file: what isn't UTF-8 there must not end the dump.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace verbena::cli
