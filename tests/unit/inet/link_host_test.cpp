// A host on a link: it finds its neighbours and is found by them, answers echo, and takes hostile
// frames for what they are.
#include "proto/inet/link_host.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "base/prng.h"
#include "proto/inet/pseudo_header.h"
#include "tests/unit/inet/link_world.h"
#include "tests/unit/wire_support/field_check.h"

namespace verbena::inet {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::FrameLog;
using test::from_hex;
using test::ip;
using test::LinkWorld;
using test::mac_of_number;
using Kind = NeighbourAnswer::Kind;
using Verdict = LinkHost::Verdict;

/// What a Linux guest asked for 10.7.0.1 with, and a probe before it took its address.
const char* const arp_request =
    "ffffffffffff020000000002080600010800060400010200000000020a070002000000000000"
    "0a070001";

Bytes ipv6_frame(const Ipv6Address& source, const Ipv6Address& destination, const Bytes& message,
                 std::uint8_t hop_limit) {
  Bytes frame(ethernet_header_bytes + ipv6_header_bytes);
  EthernetHeader ethernet{
      .destination = destination.is_multicast() ? mac_of_group(destination) : mac_of_number(1),
      .source = mac_of_number(2)};
  ethernet.ethertype = ethertype_ipv6;
  write_struct(MutableBytes(frame), ethernet);
  Ipv6Header header;
  header.set_class_and_flow(0, 0);
  header.payload_bytes = static_cast<std::uint16_t>(message.size());
  header.next_header = ip_protocol_icmpv6;
  header.hop_limit = hop_limit;
  header.source = source;
  header.destination = destination;
  write_struct(MutableBytes(frame).subspan(ethernet_header_bytes), header);
  frame.insert(frame.end(), message.begin(), message.end());
  const MutableBytes rest = MutableBytes(frame).subspan(ethernet_header_bytes + ipv6_header_bytes);
  auto icmp = read_struct<IcmpHeader>(rest);
  icmp.checksum = 0;
  write_struct(rest, icmp);
  icmp.checksum = checksum_with_pseudo_header(source, destination, ip_protocol_icmpv6, rest);
  write_struct(rest, icmp);
  return frame;
}

/// From 10.7.0.2 to 10.7.0.1.
Bytes icmp_frame(std::uint8_t type, std::size_t data_bytes) {
  Bytes message(icmp_echo_bytes_min + data_bytes, std::byte{0xA5});
  write_struct(MutableBytes(message), IcmpHeader{.type = type});
  IcmpHeader icmp{.type = type};
  icmp.checksum = internet_checksum(message);
  write_struct(MutableBytes(message), icmp);
  Ipv4Header header{.version_and_length = Ipv4Header::version_and_length_plain,
                    .time_to_live = 1,
                    .protocol = ip_protocol_icmp,
                    .source = {{10, 7, 0, 2}},
                    .destination = {{10, 7, 0, 1}}};
  header.total_bytes = static_cast<std::uint16_t>(ipv4_header_bytes + message.size());
  header.checksum = ipv4_checksum(header);
  EthernetHeader ethernet{.destination = mac_of_number(1), .source = mac_of_number(2)};
  ethernet.ethertype = ethertype_ipv4;
  constexpr std::size_t prefix_bytes = ethernet_header_bytes + ipv4_header_bytes;
  Bytes frame(prefix_bytes + message.size());
  write_struct(MutableBytes(frame), ethernet);
  write_struct(MutableBytes(frame).subspan(ethernet_header_bytes), header);
  copy_bytes(MutableBytes(frame).subspan(prefix_bytes), message);
  return frame;
}

Bytes echo_request(std::size_t bytes) {
  Bytes message(icmp_echo_bytes_min + bytes, std::byte{0x5A});
  message[0] = std::byte{icmpv6_type::echo_request};
  message[1] = std::byte{0};
  return message;
}

/// A solicitation for `target`, with an option of that type, or none.
Bytes solicitation(const Ipv6Address& target, std::uint8_t option_type) {
  NeighbourMessage message{.header = {.type = icmpv6_type::neighbour_solicitation},
                           .target = target};
  Bytes bytes(neighbour_message_bytes + (option_type != 0 ? link_layer_option_bytes : 0));
  write_struct(MutableBytes(bytes), message);
  if (option_type != 0) {
    write_struct(MutableBytes(bytes).subspan(neighbour_message_bytes),
                 LinkLayerOption{.type = option_type, .mac = mac_of_number(2)});
  }
  return bytes;
}

}  // namespace

TEST_CASE("whoever is asked for answers, and both know each other from then on") {
  LinkWorld world;
  const char* text = GENERATE("10.7.0.2", "fd00::2", "fe80::2");
  const auto of_b =
      text == std::string_view("fe80::2") ? link_local_of(mac_of_number(2)) : ip(text);
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::pending);
  CHECK(world.a.next_timeout() == world.now);
  world.run();
  const auto answer = world.a.resolve(of_b, world.now);
  REQUIRE(answer.kind == Kind::known);
  CHECK(answer.mac == mac_of_number(2));
  CHECK(world.seen.size() == 2);
  CHECK(world.b.neighbours().size() == 1);
  CHECK(world.a.next_timeout() == time_never);
}

TEST_CASE("the answer to a request is what RFC 826 says, byte by byte") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  CHECK(host.on_frame(from_hex(arp_request), Time{}, out) == Verdict::answered);
  REQUIRE(out.frames.size() == 1);
  CHECK(test::to_hex(out.frames[0]) ==
        "020000000002020000000001080600010800060400020200000000010a070001"
        "0200000000020a070002");
}

TEST_CASE("a neighbour is asked three times, given up, and asked for again a second later") {
  LinkWorld world;
  world.is_out = true;
  const auto of_b = ip(GENERATE("10.7.0.2", "fd00::2"));
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::pending);
  for (std::size_t asked = 1; asked <= 3; ++asked) {
    world.run();
    CHECK(world.seen.size() == asked);
    CHECK(world.a.resolve(of_b, world.now).kind == Kind::pending);
    world.advance(neighbour_question_interval);
  }
  world.run();
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::unreachable);
  CHECK(world.seen.size() == 3);
  CHECK(world.a.neighbours().given_up() == 1);
  world.is_out = false;
  world.advance(neighbour_failure_validity);
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::pending);
  world.run();
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::known);
}

TEST_CASE("a link that is back has no neighbours that were given up") {
  LinkWorld world;
  world.is_out = true;
  const auto of_b = ip("10.7.0.2");
  for (unsigned i = 0; i <= neighbour_questions_max; ++i) {
    static_cast<void>(world.a.resolve(of_b, world.now));
    world.run();
    world.advance(neighbour_question_interval);
  }
  CHECK(world.a.neighbours().given_up() == 1);
  world.is_out = false;
  world.a.on_link_up();
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::pending);
  world.run();
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::known);
}

TEST_CASE("what is known for long is asked of its owner, and used meanwhile") {
  LinkWorld world;
  const auto of_b = ip(GENERATE("10.7.0.2", "fd00::2"));
  static_cast<void>(world.a.resolve(of_b, world.now));
  world.run();
  world.seen.clear();
  world.advance(neighbour_validity);
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::known);
  world.run();
  // Not a group: the one that is asked.
  REQUIRE(world.seen.size() == 2);
  CHECK(read_struct<EthernetHeader>(world.seen[0]).destination == mac_of_number(2));
  world.is_out = true;
  world.advance(neighbour_validity);
  for (unsigned i = 0; i < neighbour_questions_max; ++i) {
    CHECK(world.a.resolve(of_b, world.now).kind == Kind::known);
    world.run();
    world.advance(neighbour_question_interval);
  }
  world.run();
  CHECK(world.a.resolve(of_b, world.now).kind == Kind::unreachable);
}

TEST_CASE("what is in no subnet is unreachable, and nobody is asked") {
  LinkWorld world;
  for (const char* text : {"10.8.0.2", "fd01::2", "192.0.2.1"}) {
    CHECK(world.a.resolve(ip(text), world.now).kind == Kind::unreachable);
    CHECK_FALSE(world.a.source_toward(ip(text)));
  }
  world.run();
  CHECK(world.seen.empty());
  CHECK(world.a.source_toward(ip("10.7.0.77")) == ip("10.7.0.1"));
  CHECK(world.a.source_toward(ip("fd00::77")) == ip("fd00::1"));
}

TEST_CASE("who says that somebody can't be reached is not listened to") {
  // A connection must go on (RFC 9293, 3.9.2.2), and anybody can say so.
  LinkHost host = test::make_host(1);
  FrameLog out;
  constexpr std::uint8_t destination_unreachable = 3;  // RFC 792.
  CHECK(host.on_frame(icmp_frame(destination_unreachable, 28), Time{}, out) == Verdict::ignored);
  CHECK(out.frames.empty());
}

TEST_CASE("an echo over IPv4 comes back with its data and right checksums") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  const std::size_t data_bytes = GENERATE(0U, 1U, 56U, 8000U);
  Bytes frame = icmp_frame(icmp_type::echo_request, data_bytes);
  const Bytes message(frame.begin() + ethernet_header_bytes + ipv4_header_bytes, frame.end());

  CHECK(host.on_frame(frame, Time{}, out) == Verdict::answered);
  REQUIRE(out.frames.size() == 1);
  const auto reply = parse_ipv4(ByteView(out.frames[0]).subspan(ethernet_header_bytes));
  REQUIRE(reply);
  CHECK(reply->header.source == Ipv4Address{{10, 7, 0, 1}});
  CHECK(reply->header.destination == Ipv4Address{{10, 7, 0, 2}});
  CHECK(reply->header.time_to_live > 1);
  CHECK(internet_checksum(reply->payload) == 0);
  CHECK(read_struct<IcmpHeader>(reply->payload).type == icmp_type::echo_reply);
  CHECK(std::ranges::equal(reply->payload.subspan(icmp_header_bytes),
                           ByteView(message).subspan(icmp_header_bytes)));

  // The same with a bit of the data, or of the header, wrong; and to somebody else.
  frame.back() ^= std::byte{1};
  CHECK(host.on_frame(frame, Time{}, out) == Verdict::refused);
  frame.back() ^= std::byte{1};
  frame[ethernet_header_bytes + 8] ^= std::byte{1};
  CHECK(host.on_frame(frame, Time{}, out) == Verdict::refused);
  frame[ethernet_header_bytes + 8] ^= std::byte{1};
  frame[0] ^= std::byte{0x10};
  CHECK(host.on_frame(frame, Time{}, out) == Verdict::ignored);
  CHECK(out.frames.size() == 1);
}

TEST_CASE("an echo over IPv6 comes back with its data and a right checksum") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  const Bytes message = echo_request(GENERATE(0U, 3U, 1400U));
  const auto own = GENERATE(ip("fd00::1"), link_local_of(mac_of_number(1)));
  CHECK(host.on_frame(ipv6_frame(ip("fd00::2"), own, message, 3), Time{}, out) ==
        Verdict::answered);
  REQUIRE(out.frames.size() == 1);
  const auto reply = parse_ipv6(ByteView(out.frames[0]).subspan(ethernet_header_bytes));
  REQUIRE(reply);
  CHECK(reply->header.source == own);
  CHECK(reply->header.destination == ip("fd00::2"));
  CHECK(checksum_with_pseudo_header(own, ip("fd00::2"), ip_protocol_icmpv6, reply->payload) == 0);
  CHECK(read_struct<IcmpHeader>(reply->payload).type == icmpv6_type::echo_reply);
  CHECK(std::ranges::equal(reply->payload.subspan(icmp_header_bytes),
                           ByteView(message).subspan(icmp_header_bytes)));
  CHECK(host.on_frame(ipv6_frame(ip("fd00::2"), ip("fd00::3"), message, 3), Time{}, out) ==
        Verdict::ignored);
}

TEST_CASE("who is about to take an address hears that it is taken, with everybody") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  const auto own = ip("fd00::1");
  const Bytes probe = ipv6_frame({}, solicited_node_group(own), solicitation(own, 0), 255);
  CHECK(host.on_frame(probe, Time{}, out) == Verdict::answered);
  REQUIRE(out.frames.size() == 1);
  CHECK(read_struct<EthernetHeader>(out.frames[0]).destination == mac_of_group(all_nodes_group()));
  const auto reply = parse_ipv6(ByteView(out.frames[0]).subspan(ethernet_header_bytes));
  CHECK(reply->header.destination == all_nodes_group());
  CHECK(host.neighbours().size() == 0);
}

TEST_CASE("solicitations that RFC 4861 has discarded are") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  const auto own = ip("fd00::1");
  const auto group = solicited_node_group(own);
  const auto peer = ip("fd00::2");
  const auto refused = [&](const Bytes& frame) {
    return host.on_frame(frame, Time{}, out) == Verdict::refused;
  };
  const Bytes good = solicitation(own, LinkLayerOption::source);
  CHECK(refused(ipv6_frame(peer, group, good, 254)));
  CHECK(refused(ipv6_frame({}, group, good, 255)));
  Bytes bad = good;
  bad[1] = std::byte{1};
  CHECK(refused(ipv6_frame(peer, group, bad, 255)));
  bad = good;
  bad[neighbour_message_bytes + 1] = std::byte{0};
  CHECK(refused(ipv6_frame(peer, group, bad, 255)));
  bad[neighbour_message_bytes + 1] = std::byte{2};
  CHECK(refused(ipv6_frame(peer, group, bad, 255)));
  bad = good;
  bad[neighbour_message_bytes + 2] = std::byte{0x33};
  CHECK(refused(ipv6_frame(peer, group, bad, 255)));
  Bytes corrupt = ipv6_frame(peer, group, good, 255);
  corrupt.back() ^= std::byte{1};
  CHECK(refused(corrupt));
  CHECK(out.frames.empty());
  CHECK(host.neighbours().size() == 0);
  CHECK(host.on_frame(ipv6_frame(peer, group, good, 255), Time{}, out) == Verdict::answered);
}

TEST_CASE("an answer that comes from a group's Ethernet address is none") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  const auto peer = ip("fd00::2");
  CHECK(host.resolve(peer, Time{}).kind == Kind::pending);
  NeighbourMessage message{.header = {.type = icmpv6_type::neighbour_advertisement},
                           .target = peer};
  message.flags = NeighbourMessage::flag_solicited;
  Bytes bytes(neighbour_message_bytes);
  write_struct(MutableBytes(bytes), message);
  Bytes frame = ipv6_frame(peer, ip("fd00::1"), bytes, 255);
  constexpr std::size_t source_at = 6;
  frame[source_at] |= std::byte{0x01};
  CHECK(host.on_frame(frame, Time{}, out) == Verdict::ignored);
  CHECK(host.resolve(peer, Time{}).kind == Kind::pending);
  frame[source_at] ^= std::byte{0x01};
  CHECK(host.on_frame(frame, Time{}, out) == Verdict::noted);
  CHECK(host.resolve(peer, Time{}).kind == Kind::known);
}

TEST_CASE("ARP that makes no sense is refused, and none of others is believed unasked") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  const Bytes good = from_hex(arp_request);
  for (const std::size_t place : {14U, 16U, 18U, 19U, 20U, 22U}) {
    Bytes bad = good;
    bad[place] ^= std::byte{0x11};
    INFO(place);
    CHECK(host.on_frame(bad, Time{}, out) == Verdict::refused);
  }
  CHECK(host.on_frame(ByteView(good).first(41), Time{}, out) == Verdict::refused);
  Bytes for_other = good;
  for_other.back() = std::byte{9};
  CHECK(host.on_frame(for_other, Time{}, out) == Verdict::ignored);
  CHECK(out.frames.empty());
  CHECK(host.neighbours().size() == 0);
}

TEST_CASE("somebody who claims an address of this host is counted, not believed") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  Bytes claim = from_hex(arp_request);
  claim[31] = std::byte{1};  // The sender is 10.7.0.1.
  CHECK(host.on_frame(claim, Time{}, out) == Verdict::ignored);
  CHECK(host.counters().conflicts == 1);
  CHECK(out.frames.empty());
}

TEST_CASE("what isn't the host's to speak is left to others, tagged frames are not taken") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  Bytes frame = from_hex(arp_request);
  frame[12] = std::byte{0x89};
  frame[13] = std::byte{0x15};
  CHECK(host.on_frame(frame, Time{}, out) == Verdict::not_mine);
  Bytes tagged = from_hex(arp_request);
  const Bytes tag = from_hex("81000005");
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  CHECK(host.on_frame(tagged, Time{}, out) == Verdict::ignored);
  CHECK(host.on_frame({}, Time{}, out) == Verdict::refused);
}

TEST_CASE("without room an answer is not sent, and counted") {
  LinkHost host = test::make_host(1);
  FrameLog out;
  out.is_full = true;
  CHECK(host.on_frame(from_hex(arp_request), Time{}, out) == Verdict::noted);
  CHECK(host.counters().unsent == 1);
  CHECK(host.counters().answered == 0);
}

TEST_CASE("a flood of strangers doesn't push out who is talked to") {
  LinkWorld world;
  static_cast<void>(world.a.resolve(ip("10.7.0.2"), world.now));
  world.run();
  FrameLog out;
  Bytes request = from_hex(arp_request);
  for (unsigned i = 3; i < 250; ++i) {
    world.advance(1ms);
    request[31] = static_cast<std::byte>(i);
    CHECK(world.a.on_frame(request, world.now, out) == Verdict::answered);
  }
  CHECK(world.a.neighbours().size() == neighbours_max);
  CHECK(world.a.neighbours().evicted() > 0);
  CHECK(world.a.resolve(ip("10.7.0.2"), world.now).kind == Kind::known);
}

TEST_CASE("frames of any bytes, and good ones with any byte changed, do no harm") {
  Prng prng(GENERATE(range(0U, 200U)));
  LinkHost host = test::make_host(1);
  FrameLog out;
  const auto own = ip("fd00::1");
  const std::vector<Bytes> good = {
      from_hex(arp_request), ipv6_frame(ip("fd00::2"), own, echo_request(8), 64),
      ipv6_frame(ip("fd00::2"), solicited_node_group(own), solicitation(own, 1), 255)};
  for (int round = 0; round < 50; ++round) {
    Bytes frame = good[prng.below(good.size())];
    for (std::uint64_t changes = prng.below(4); changes > 0; --changes) {
      frame[prng.below(frame.size())] = static_cast<std::byte>(prng.below(256));
    }
    frame.resize(prng.below(frame.size() + 1));
    static_cast<void>(host.on_frame(frame, Time{}, out));
  }
  for (const Bytes& answer : out.frames) {
    CHECK(read_struct<EthernetHeader>(answer).source == mac_of_number(1));
  }
  CHECK(host.neighbours().size() <= neighbours_max);
}

}  // namespace verbena::inet
