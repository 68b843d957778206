// The Linux kernel's UC and UD packets, replayed: into our responders, which must place and
// complete what the kernel's did, and compared with what our requesters send for the same work.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/uc_requester.h"
#include "proto/ib_bth/uc_responder.h"
#include "proto/ib_bth/ud_requester.h"
#include "proto/ib_bth/ud_responder.h"
#include "tests/support/host.h"
#include "tests/support/wire_packet.h"
#include "tests/unit/ib_bth_rc/kernel_captures.h"
#include "tests/unit/ib_bth_rc/kernel_memory.h"

namespace verbena::test {

namespace {

constexpr PdId pd{1};
constexpr std::uint32_t mtu_bytes = 1024;
constexpr Qkey qkey_of_captures{0x1111'1111};

class Completions final : public CompletionSink {
 public:
  void complete(const Completion& completion, bool) override {
    texts.push_back(to_text(completion));
  }
  std::vector<std::string> texts;
};

ib::PacketView view_of(ByteView transport) {
  const auto packet = ib::PacketView::parse(transport);
  REQUIRE(packet);
  return *packet;
}

/// A packet without what the kernel does otherwise (docs/kernel-differences.md): it sends MigReq 0,
/// and asks for an acknowledgement where there is none.
std::vector<std::byte> normalised(ByteView transport) {
  const ib::PacketView packet = view_of(transport);
  ib::PacketFields fields = ib::parse_fields(packet);
  fields.migrated = true;
  fields.ack_request = false;
  std::vector<std::byte> bytes(transport.size());
  ib::emit_packet(bytes, fields, packet.payload());
  return bytes;
}

/// Keeps what a requester sends.
class Sent final : public PacketSink, public DatagramSink {
 public:
  MutableBytes reserve(std::size_t bytes) override {
    packets.emplace_back(bytes);
    return packets.back();
  }
  MutableBytes reserve(const AddressHandle&, Qpn, std::size_t bytes) override {
    return reserve(bytes);
  }
  void commit(const PacketNote&) override {}
  std::vector<std::vector<std::byte>> packets;
};

/// What the client must have posted to send these packets.
struct Posted {
  SendWr wr;
  std::uint32_t bytes = 0;
};

std::vector<Posted> work_of(const std::vector<CapturedPacket>& packets) {
  std::vector<Posted> all;
  for (const CapturedPacket& captured : packets) {
    const ib::PacketView packet = view_of(captured.transport);
    const ib::OpcodeInfo& info = packet.info();
    const bool is_send = info.operation == ib::Operation::send;
    if (info.starts_message()) {
      Posted& posted = all.emplace_back();
      posted.wr.opcode = is_send ? WrOpcode::send : WrOpcode::rdma_write;
      posted.wr.signaled = true;
      posted.wr.wr_id = all.size();
      if (info.has(ib::ExtHeader::reth)) {
        posted.wr.remote_addr = packet.reth().va();
        posted.wr.rkey = packet.reth().rkey();
      }
    }
    all.back().bytes += static_cast<std::uint32_t>(packet.payload().size());
    if (info.has_immediate()) {
      all.back().wr.opcode = is_send ? WrOpcode::send_with_imm : WrOpcode::rdma_write_with_imm;
      all.back().wr.imm = ImmData{packet.imm().value()};
    }
  }
  return all;
}

/// Posts the work, lets the requester send, and compares with the capture.
template <class Requester>
void check_requests(Requester& requester, ib::TransportEnv& env, Va base,
                    const std::vector<CapturedPacket>& packets,
                    const AddressHandle* address = nullptr) {
  const ib::PacketFields first = ib::parse_fields(view_of(packets.front().transport));
  for (Posted& posted : work_of(packets)) {
    const Sge sge{base, posted.bytes, Lkey{1}};
    posted.wr.sges = {&sge, 1};
    posted.wr.address = address;
    posted.wr.remote_qpn = first.dest_qpn;
    posted.wr.remote_qkey = qkey_of_captures;
    REQUIRE(requester.post(posted.wr));
  }
  Sent sent;
  std::uint32_t budget = 100;
  REQUIRE(requester.poll_transmit(env, sent, budget).result == ib::TransmitResult::idle);
  REQUIRE(sent.packets.size() == packets.size());
  for (std::size_t i = 0; i < packets.size(); ++i) {
    CHECK(sent.packets[i] == normalised(packets[i].transport));
  }
}

}  // namespace

TEST_CASE(
    "the kernel's UC messages arrive at our responder, and ours would send the same packets") {
  const auto packets = read_packets(ib::Service::uc, "v4_uc_send_write");
  const ib::PacketFields first = ib::parse_fields(view_of(packets.front().transport));
  Va target{};
  for (const CapturedPacket& captured : packets) {
    const ib::PacketView packet = view_of(captured.transport);
    target = packet.has(ib::ExtHeader::reth) ? packet.reth().va() : target;
  }
  Counters counters;

  KernelMemory server;
  server.bytes = server_buffer();
  server.base = target;
  Completions received;
  ib::UcResponder responder(Qpn{1}, RecvSource(8, 1), received);
  responder.activate({.dest_qpn = Qpn{1}, .pd = pd, .mtu_bytes = mtu_bytes}, first.psn, all_access);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const Sge sge{server.base + 8192 * id, 4096, Lkey{1}};
    REQUIRE(responder.post({.wr_id = id, .sges = {&sge, 1}}));
  }
  ib::TransportEnv server_env{.now = Time{}, .memory = server, .counters = counters};
  for (const CapturedPacket& captured : packets) {
    CHECK(responder.on_request(server_env, view_of(captured.transport)).verdict.kind ==
          RxVerdict::Kind::accepted);
  }
  REQUIRE(received.texts.size() == 3);
  CHECK(received.texts[0] == "1 recv success +101");
  CHECK(received.texts[1] == "2 recv success +2500");
  CHECK_THAT(received.texts[2], Catch::StartsWith("3 recv_write_imm success +64"));
  const auto client_data = client_buffer();
  CHECK(
      std::equal(client_data.begin(), client_data.begin() + 2500, server.bytes.begin() + 2 * 8192));

  KernelMemory client;
  client.bytes = client_data;
  Completions completed;
  ib::UcRequester requester(Qpn{1}, {.wr_max = 8, .sge_max = 1}, false, completed);
  requester.activate({.dest_qpn = first.dest_qpn, .pd = pd, .mtu_bytes = mtu_bytes}, first.psn);
  ib::TransportEnv client_env{.now = Time{}, .memory = client, .counters = counters};
  check_requests(requester, client_env, client.base, packets);
  CHECK(completed.texts.size() == 4);
}

TEST_CASE("the kernel's datagrams arrive at our responder, and ours would send the same packets") {
  const std::string capture = GENERATE("v4_ud_send", "v4_ud_send_imm", "v6_ud_send");
  INFO(capture);
  const auto packets = read_packets(ib::Service::ud, capture);
  const std::uint32_t first_bytes = capture.ends_with("imm") ? 32 : 33;
  const ib::PacketFields first = ib::parse_fields(view_of(packets.front().transport));
  REQUIRE(packets.size() == 2);
  Counters counters;

  KernelMemory server;
  server.bytes = server_buffer();
  Completions received;
  ib::UdResponder responder(Qpn{1}, RecvSource(8, 1), received);
  responder.activate({.pd = pd, .qkey = qkey_of_captures, .mtu_bytes = mtu_bytes});
  ib::TransportEnv server_env{.now = Time{}, .memory = server, .counters = counters};
  const auto client_data = client_buffer();
  for (const CapturedPacket& captured : packets) {
    const Sge sge{server.base, 4096, Lkey{1}};
    REQUIRE(responder.post({.wr_id = 7, .sges = {&sge, 1}}));
    const std::array<std::byte, 40> header{};
    const ib::PacketView packet = view_of(captured.transport);
    CHECK(responder.on_datagram(server_env, packet, header, 0).verdict.kind ==
          RxVerdict::Kind::accepted);
    CHECK(std::equal(packet.payload().begin(), packet.payload().end(), server.bytes.begin() + 40));
    CHECK(std::equal(packet.payload().begin(), packet.payload().end(), client_data.begin()));
  }
  REQUIRE(received.texts.size() == 2);
  CHECK_THAT(received.texts[0],
             Catch::StartsWith("7 recv success +" + std::to_string(40 + first_bytes)));
  CHECK_THAT(received.texts[1], Catch::StartsWith("7 recv success +1040"));

  KernelMemory client;
  client.bytes = client_data;
  Completions completed;
  ib::UdRequester requester(first.deth.source_qpn(), {.wr_max = 8, .sge_max = 1}, false, completed);
  requester.activate({.first_psn = first.psn, .pd = pd, .mtu_bytes = mtu_bytes});
  ib::TransportEnv client_env{.now = Time{}, .memory = client, .counters = counters};
  const AddressHandlePtr address(new AddressHandle);
  check_requests(requester, client_env, client.base, packets, address.get());
  CHECK(completed.texts.size() == 2);
}

}  // namespace verbena::test
