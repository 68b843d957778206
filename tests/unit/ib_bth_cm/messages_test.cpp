// Codecs of the connection manager: messages of the Linux kernel are read, and written again byte
// for byte; every field lies where the specification's tables put it.

#include "proto/ib_bth/cm/messages.h"

#include <catch2/catch.hpp>
#include <set>

#include "proto/ib_bth/cm/reject_reason.h"
#include "proto/ib_bth/cm/service_id.h"
#include "proto/roce/gid.h"
#include "tests/unit/ib_bth_cm/cm_captures.h"
#include "tests/unit/wire_support/field_check.h"

using namespace verbena;
using namespace verbena::ib::cm;

namespace {

template <class M>
M message_in(const test::CapturedMad& captured) {
  const auto envelope = parse(captured.mad);
  REQUIRE(envelope);
  REQUIRE(std::holds_alternative<M>(envelope->message));
  return std::get<M>(envelope->message);
}

/// Message number `index` of the variant, all fields random.
template <std::size_t index = 0>
Message random_message(std::size_t wanted, Prng& prng) {
  if constexpr (index < std::variant_size_v<Message>) {
    if (index != wanted) {
      return random_message<index + 1>(wanted, prng);
    }
    const test::Bytes data = test::random_bytes(prng, mad_bytes - mad_header_bytes);
    std::variant_alternative_t<index, Message> message;
    read_fields(data, message);
    return message;
  } else {
    FAIL("no such message");
    return {};
  }
}

}  // namespace

TEST_CASE("Every MAD of the kernel is read and written again byte for byte") {
  std::set<AttributeId> seen;
  std::size_t count = 0;
  for (const auto& path : test::capture_paths()) {
    for (const test::CapturedMad& captured : test::captured_mads(path)) {
      INFO(path << ": " << test::to_hex(captured.mad));
      const auto envelope = parse(captured.mad);
      REQUIRE(envelope);
      const Mad again = emit(*envelope);
      REQUIRE(test::Bytes(again.begin(), again.end()) == captured.mad);
      seen.insert(attribute_of(envelope->message));
      ++count;
    }
  }
  CHECK(count > 30);
  CHECK(seen.contains(AttributeId::req));
  CHECK(seen.contains(AttributeId::rep));
  CHECK(seen.contains(AttributeId::rtu));
  CHECK(seen.contains(AttributeId::rej));
  CHECK(seen.contains(AttributeId::dreq));
  CHECK(seen.contains(AttributeId::drep));
}

TEST_CASE("The kernel's REQ says what rping asked for") {
  const auto mads = test::mads_of_capture("rxe_rping_v4.pcap");
  const Req req = message_in<Req>(mads.at(0));
  CHECK(req.service_id == service_id_of(PortSpace::tcp, 7174));
  CHECK(req.local_qpn == Qpn{0x11});
  CHECK(req.starting_psn == Psn(0x203E2C));
  CHECK(req.remote_cm_response_timeout == 20);
  CHECK(req.local_cm_response_timeout == 20);
  CHECK(req.retry_count == 7);
  CHECK(req.rnr_retry_count == 7);
  CHECK(req.max_cm_retries == 15);
  CHECK(req.responder_resources == 1);
  CHECK(req.initiator_depth == 1);
  CHECK(req.path_mtu == 3);
  CHECK(req.transport == TransportType::rc);
  CHECK(req.pkey == pkey_default);
  CHECK(req.primary.local_lid == 0xFFFF);
  CHECK(req.primary.local_gid == roce::gid_from_ipv4({{10, 9, 0, 2}}));
  CHECK(req.primary.remote_gid == roce::gid_from_ipv4({{10, 9, 0, 1}}));
  CHECK(req.primary.hop_limit == 64);
  CHECK(req.primary.local_ack_timeout == 19);
  const auto ip = parse_ip_header(req.private_data);
  REQUIRE(ip);
  CHECK(ip->ip_version == 4);
  CHECK(ip->source_port == 0xBD52);
  CHECK(ip->source == req.primary.local_gid);
  CHECK(ip->destination == req.primary.remote_gid);
}

TEST_CASE("The kernel's REJ says that the program said no") {
  const Rej rej = message_in<Rej>(test::mads_of_capture("rxe_cm_reject.pcap").at(1));
  CHECK(rej.reason == RejectReason::consumer_defined);
  CHECK(rej.answered == Answered::req);
  CHECK(describe(rej.reason) == "REJ 28, rejected by the program that listens");
}

TEST_CASE("Every message survives being written and read, whatever is in it") {
  Prng prng(7);
  for (std::size_t index = 0; index < std::variant_size_v<Message>; ++index) {
    for (int round = 0; round < 20; ++round) {
      const Envelope envelope{.transaction_id = prng.next(),
                              .message = random_message(index, prng)};
      const Mad first = emit(envelope);
      const auto again = parse(first);
      REQUIRE(again);
      CHECK(again->transaction_id == envelope.transaction_id);
      CHECK(again->message.index() == index);
      CHECK(emit(*again) == first);
    }
  }
}

TEST_CASE("What vendors negotiate lies in the header, and in gaps between other fields") {
  constexpr Ece ece{.vendor_id = 0x123456, .options = 0xCAFE'0001};
  Req req;
  req.set_ece(ece);
  const Mad request = emit({.transaction_id = 1, .message = req});
  const auto byte_at = [](const Mad& mad, std::size_t place) {
    return std::to_integer<unsigned>(mad[place]);
  };
  CHECK(read_struct<MadHeader>(request).attribute_modifier.value() == ece.options);
  CHECK(byte_at(request, mad_header_bytes + 5) == 0x12);
  CHECK(byte_at(request, mad_header_bytes + 7) == 0x56);
  CHECK(std::get<Req>(parse(request)->message).ece() == ece);

  Rep rep;
  rep.local_qpn = Qpn{0xABCDEF};
  rep.starting_psn = Psn(0xFEDCBA);
  rep.set_ece(ece);
  const Mad reply = emit({.transaction_id = 1, .message = rep});
  CHECK(read_struct<MadHeader>(reply).attribute_modifier.value() == ece.options);
  CHECK(byte_at(reply, mad_header_bytes + 15) == 0x12);
  CHECK(byte_at(reply, mad_header_bytes + 19) == 0x34);
  CHECK(byte_at(reply, mad_header_bytes + 23) == 0x56);
  const Rep again = std::get<Rep>(parse(reply)->message);
  CHECK(again.ece() == ece);
  CHECK(again.local_qpn == rep.local_qpn);
  CHECK(again.starting_psn == rep.starting_psn);
}

TEST_CASE("Bits are written to their place and leave their neighbours alone") {
  Prng prng(3);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t bit = prng.below(8);
    const Place place{prng.below(4), bit, 1 + prng.below(64 - bit)};
    test::Bytes bytes = test::random_bytes(prng, 16);
    const test::Bytes before = bytes;
    const std::uint64_t value = prng.next();
    write_bits(bytes, place, value);
    const std::size_t first = place.byte * 8 + place.bit;
    const std::uint64_t kept =
        place.width == 64 ? value : value & ((std::uint64_t{1} << place.width) - 1);
    REQUIRE(test::bits_of(bytes, first, place.width) == kept);
    REQUIRE(read_bits(bytes, place) == kept);
    for (std::size_t other = 0; other < bytes.size() * 8; ++other) {
      const bool ours = other >= first && other < first + place.width;
      REQUIRE((ours || test::bits_of(bytes, other, 1) == test::bits_of(before, other, 1)));
    }
  }
}

TEST_CASE("What is no message of the connection manager is refused") {
  const test::Bytes good = test::mads_of_capture("rxe_rping_v4.pcap").at(0).mad;
  const auto error_with = [&](std::size_t at, std::uint8_t value) {
    test::Bytes bad = good;
    bad[at] = std::byte{value};
    const auto parsed = parse(bad);
    REQUIRE_FALSE(parsed);
    return parsed.error();
  };
  CHECK(error_with(0, 2) == MadError::version);
  CHECK(error_with(1, 3) == MadError::not_communication_management);
  CHECK(error_with(2, 1) == MadError::version);
  CHECK(error_with(3, 0x81) == MadError::method);
  CHECK(error_with(17, 0x0F) == MadError::unknown_attribute);
  CHECK(error_with(17, 0x1B) == MadError::unknown_attribute);
  for (std::size_t bytes = 0; bytes < mad_bytes; ++bytes) {
    const auto parsed = parse(ByteView(good).first(bytes));
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error() == MadError::truncated);
  }
}

TEST_CASE("The IP header carries both kinds of addresses") {
  const IpHeader v4{.ip_version = 4,
                    .source_port = 4321,
                    .source = roce::gid_from_ipv4({{10, 0, 0, 1}}),
                    .destination = roce::gid_from_ipv4({{10, 0, 0, 2}})};
  CHECK(parse_ip_header(emit(v4)) == v4);
  CHECK(emit(v4)[4 + 10] == std::byte{0});
  IpHeader v6 = v4;
  v6.ip_version = 6;
  v6.source = *roce::gid_from_text("fd09::1");
  v6.destination = *roce::gid_from_text("fd09::2");
  CHECK(parse_ip_header(emit(v6)) == v6);
  auto bytes = emit(v6);
  bytes[1] = std::byte{0x50};
  CHECK_FALSE(parse_ip_header(bytes));
  CHECK_FALSE(parse_ip_header(ByteView(bytes).first(ip_header_bytes - 1)));
}

TEST_CASE("A service ID is a port space and a port") {
  CHECK(to_value(service_id_of(PortSpace::tcp, 7174)) == 0x0106'1C06);
  CHECK(port_of(ServiceId{0x0106'1C06}, PortSpace::tcp) == 7174);
  CHECK_FALSE(port_of(ServiceId{0x0106'1C06}, PortSpace::udp));
  CHECK_FALSE(port_of(ServiceId{0x1'0106'1C06}, PortSpace::tcp));
}

TEST_CASE("A replier's queue pair stands in one of two places") {
  Rep rep;
  rep.local_qpn = Qpn{0x42};
  CHECK(rep.queue_pair() == Qpn{0x42});
  Rep target;
  target.local_eecn = 0x43;
  CHECK(target.queue_pair() == Qpn{0x43});
}
