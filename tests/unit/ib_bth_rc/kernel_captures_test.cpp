// The Linux kernel's conversations, replayed: its requests into our responder, which must give the
// kernel's answers, and its answers into our requester, which must send the kernel's requests and
// complete alike. Where the kernel departs from the specification ours doesn't, and each such place
// is named (Departure, docs/kernel-differences.md): anything else that differs fails.
//
// At the level of the transport, below IP: the same for IPv4 and IPv6.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "proto/ib_bth/aeth.h"
#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/rc_requester.h"
#include "proto/ib_bth/rc_responder.h"
#include "tests/support/host.h"
#include "tests/support/wire_packet.h"
#include "tests/unit/ib_bth_rc/kernel_captures.h"
#include "tests/unit/ib_bth_rc/kernel_memory.h"
#include "tests/unit/project_file.h"

namespace verbena::test {

using ib::Operation;

namespace {

constexpr PdId pd{1};
constexpr Lkey lkey{1};
constexpr std::uint32_t mtu_bytes = 1024;

class Completions final : public CompletionSink {
 public:
  void complete(const Completion& completion, bool) override { all.push_back(completion); }
  std::vector<Completion> all;
};

/// A packet as the comparison sees it: opcode, PSN, lengths, AETH, AckReq as text; and the payload.
struct Seen {
  std::string text;
  std::vector<std::byte> payload;

  friend bool operator==(const Seen&, const Seen&) = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) { return out << seen.text; }

Seen see(const ib::PacketFields& fields, ByteView payload) {
  WirePacket packet;
  packet.fields = fields;
  packet.payload_bytes = payload.size();
  return {to_text(packet), {payload.begin(), payload.end()}};
}

ib::PacketView view_of(ByteView transport) {
  const auto packet = ib::PacketView::parse(transport);
  REQUIRE(packet);
  return *packet;
}

class SeenPackets final : public PacketSink {
 public:
  MutableBytes reserve(std::size_t bytes) override {
    buffer_.assign(bytes, std::byte{0xEE});
    return buffer_;
  }
  void commit(const PacketNote&) override {
    const ib::PacketView packet = view_of(buffer_);
    all.push_back(see(ib::parse_fields(packet), packet.payload()));
  }
  std::vector<Seen> all;

 private:
  std::vector<std::byte> buffer_;
};

bool is_rdma(const WrOpcode opcode) {
  return opcode != WrOpcode::send && opcode != WrOpcode::send_with_imm;
}

/// Finds the server's buffer: the first address and key that a request names.
void locate(KernelMemory& memory, const KernelScenario& scenario,
            const std::vector<CapturedPacket>& packets) {
  const auto first_work = std::ranges::find_if(
      scenario.works, [](const ClientWork& work) { return is_rdma(work.opcode); });
  if (first_work == scenario.works.end()) {
    return;
  }
  for (const CapturedPacket& captured : packets) {
    const ib::PacketView packet = view_of(captured.transport);
    const bool has_reth = packet.has(ib::ExtHeader::reth);
    if (captured.from_client && (has_reth || packet.has(ib::ExtHeader::atomic_eth))) {
      const Va va = has_reth ? packet.reth().va() : packet.atomic_eth().va();
      memory.base = Va{to_value(va) - first_work->remote_offset};
      memory.rkey = has_reth ? packet.reth().rkey() : packet.atomic_eth().rkey();
      return;
    }
  }
}

/// What one connection of a capture is: both guests did the same things from their start, so its
/// two ends have the same number.
std::map<Qpn, std::vector<CapturedPacket>> by_connection(const std::vector<CapturedPacket>& all) {
  std::map<Qpn, std::vector<CapturedPacket>> connections;
  for (const CapturedPacket& captured : all) {
    const ib::PacketView packet = view_of(captured.transport);
    // What the server asks of the client is not replayed: rxe_cm_ok ends with a SEND of the server.
    if (packet.info().is_request() == captured.from_client) {
      connections[packet.dest_qpn()].push_back(captured);
    }
  }
  return connections;
}

// --- The kernel's requests into our responder.

class Server {
 public:
  Server(const KernelScenario& scenario, const std::vector<CapturedPacket>& packets)
      : scenario_(scenario), responder_(Qpn{1}, RecvSource(16, 2), completions) {
    memory.bytes = server_buffer();
    locate(memory, scenario, packets);
    if (scenario.wrong_rkey) {
      memory.rkey = Rkey{to_value(memory.rkey.value()) ^ 0x55};
    }
    responder_.activate(
        {.dest_qpn = Qpn{1}, .pkey = pkey_default, .pd = pd, .mtu_bytes = mtu_bytes},
        {.first_psn = view_of(packets.front().transport).psn(),
         .max_dest_rd_atomic = 4,
         .min_rnr_timer = scenario.min_rnr_timer,
         .access = all_access});
    post_receives(false);
  }

  void post_receives(bool late) {
    for (std::uint64_t i = 0; i < scenario_.receives.size(); ++i) {
      const ServerReceive& receive = scenario_.receives[i];
      if (receive.late == late) {
        const Sge sge{memory.base + receive.offset, receive.bytes, lkey};
        REQUIRE(responder_.post({.wr_id = i, .sges = {&sge, 1}}));
      }
    }
  }

  void on_request(const CapturedPacket& captured) {
    ib::TransportEnv env{.now = captured.time, .memory = memory, .counters = counters};
    const auto outcome = responder_.on_request(env, view_of(captured.transport));
    static_cast<void>(outcome);
    std::uint32_t budget = 1000;
    REQUIRE(responder_.poll_transmit(env, answers, budget).result == ib::TransmitResult::idle);
  }

  KernelMemory memory;
  Completions completions;
  Counters counters;
  SeenPackets answers;

 private:
  const KernelScenario& scenario_;
  ib::RcResponder responder_;
};

/// The kernel's answers as the specification wants them, and how many of them departed from it.
struct ExpectedAnswers {
  std::vector<Seen> all;
  int departures = 0;
};

class Corrector {
 public:
  Corrector(const KernelScenario& scenario, Psn first_psn)
      : scenario_(scenario), reads_end_(first_psn) {}

  /// Follows the client's READs: where the last one begins, and how many there were.
  void on_request(const ib::PacketView& packet) {
    is_repeated_read_ = false;
    if (packet.info().operation != Operation::read_request) {
      return;
    }
    is_repeated_read_ = packet.psn().is_before(reads_end_);
    repeated_read_at_ = packet.psn();
    if (!is_repeated_read_) {
      reads_ = reads_.next();
      reads_end_ = packet.psn() + static_cast<std::int32_t>(
                                      (packet.reth().length_bytes() + mtu_bytes - 1) / mtu_bytes);
    }
  }

  /// True if the answer was not what the specification says; then it is put right.
  bool correct(ib::PacketFields& fields) const {
    if (!scenario_.departure) {
      return false;
    }
    switch (*scenario_.departure) {
      case Departure::too_long_send_is_operational_error:
        if (fields.aeth.syndrome() != ib::Syndrome::nak(ib::NakCode::remote_operational_error)) {
          return false;
        }
        fields.aeth.set_syndrome(ib::Syndrome::nak(ib::NakCode::invalid_request));
        return true;
      case Departure::repeated_read_begins_with_middle:
        if (!is_repeated_read_ || fields.psn != repeated_read_at_ ||
            fields.opcode != ib::Opcode::rc_read_response_middle) {
          return false;
        }
        fields.opcode = ib::Opcode::rc_read_response_first;
        fields.aeth = ib::Aeth(ib::Syndrome::ack(), reads_);
        return true;
    }
    return false;
  }

 private:
  const KernelScenario& scenario_;
  Msn reads_;
  Psn reads_end_;
  bool is_repeated_read_ = false;
  Psn repeated_read_at_;
};

ExpectedAnswers expected_answers(const KernelScenario& scenario,
                                 const std::vector<CapturedPacket>& packets) {
  ExpectedAnswers expected;
  Corrector corrector(scenario, view_of(packets.front().transport).psn());
  for (const CapturedPacket& captured : packets) {
    const ib::PacketView packet = view_of(captured.transport);
    if (captured.from_client) {
      corrector.on_request(packet);
      continue;
    }
    ib::PacketFields fields = ib::parse_fields(packet);
    expected.departures += corrector.correct(fields) ? 1 : 0;
    expected.all.push_back(see(fields, packet.payload()));
  }
  return expected;
}

std::size_t rnr_naks_in(const std::vector<CapturedPacket>& packets) {
  return static_cast<std::size_t>(
      std::ranges::count_if(packets, [](const CapturedPacket& captured) {
        const ib::PacketView packet = view_of(captured.transport);
        return packet.has(ib::ExtHeader::aeth) &&
               packet.aeth().syndrome().kind() == ib::AethKind::rnr_nak;
      }));
}

void replay_requests(const KernelScenario& scenario, const std::vector<CapturedPacket>& packets) {
  if (scenario.server_absent) {
    return;
  }
  Server server(scenario, packets);
  const std::size_t rnr_naks = rnr_naks_in(packets);
  std::size_t requests = 0;
  for (const CapturedPacket& captured : packets) {
    if (captured.from_client) {
      if (rnr_naks > 0 && requests == rnr_naks) {
        server.post_receives(true);
      }
      server.on_request(captured);
      ++requests;
    }
  }
  const ExpectedAnswers expected = expected_answers(scenario, packets);
  CHECK((expected.departures > 0) == scenario.departure.has_value());
  if (!scenario.answers_lost) {
    CHECK(server.answers.all == expected.all);
    return;
  }
  // Those of ours that the recorder missed are READ responses, nothing else.
  auto next = expected.all.begin();
  for (const Seen& answer : server.answers.all) {
    if (next != expected.all.end() && answer == *next) {
      ++next;
    } else {
      CHECK_THAT(answer.text, Catch::StartsWith("read_response"));
    }
  }
  CHECK(next == expected.all.end());
}

// --- The kernel's answers into our requester.

class Client {
 public:
  Client(const KernelScenario& scenario, const std::vector<CapturedPacket>& packets)
      : scenario_(scenario), requester_(Qpn{1}, {.wr_max = 16, .sge_max = 1}, true, completions) {
    memory.bytes = client_buffer();
    memory.base = Va{0x7000};
    locate(server_, scenario, packets);
    requester_.activate(
        {.dest_qpn = Qpn{1}, .pkey = pkey_default, .pd = pd, .mtu_bytes = mtu_bytes},
        {.first_psn = view_of(packets.front().transport).psn(),
         .ack_timeout = ib::ack_timeout(scenario.timeout),
         .retry_cnt = scenario.retry_cnt,
         .rnr_retry = scenario.rnr_retry,
         .max_rd_atomic = 4});
    post_next();
  }

  /// Lets timers run out up to `now`.
  void advance(Time now) {
    while (requester_.next_timeout() <= now) {
      now_ = std::max(now_, requester_.next_timeout());
      auto env = environment();
      act_on(requester_.on_timer(env));
    }
    now_ = now;
  }

  void on_answer(const CapturedPacket& captured) {
    advance(captured.time);
    auto env = environment();
    act_on(requester_.on_response(env, view_of(captured.transport)).failure);
    post_next();
  }

  void run_out() {
    while (requester_.next_timeout() != time_never) {
      advance(requester_.next_timeout());
    }
  }

  KernelMemory memory;
  Completions completions;
  Counters counters;
  SeenPackets requests;

 private:
  ib::TransportEnv environment() { return {.now = now_, .memory = memory, .counters = counters}; }

  void act_on(ib::QpFailure failure) {
    auto env = environment();
    if (failure != ib::QpFailure::none) {
      requester_.flush(env);
      return;
    }
    std::uint32_t budget = 1000;
    REQUIRE(requester_.poll_transmit(env, requests, budget).result == ib::TransmitResult::idle);
  }

  void post_next() {
    while (posted_ < scenario_.works.size() &&
           (scenario_.all_at_once || completions.all.size() == posted_)) {
      const ClientWork& work = scenario_.works[posted_];
      const Sge sge{memory.base, work.bytes, lkey};
      REQUIRE(requester_.post({.wr_id = posted_,
                               .opcode = work.opcode,
                               .sges = {&sge, 1},
                               .imm = ImmData{work.imm},
                               .remote_addr = server_.base + work.remote_offset,
                               .rkey = server_.rkey.value_or(Rkey{}),
                               .compare_add = work.compare_add,
                               .swap = work.swap}));
      ++posted_;
    }
    act_on(ib::QpFailure::none);
  }

  const KernelScenario& scenario_;
  ib::RcRequester requester_;
  KernelMemory server_;
  std::size_t posted_ = 0;
  Time now_{};
};

std::vector<Seen> expected_requests(const std::vector<CapturedPacket>& packets) {
  std::vector<Seen> expected;
  for (const CapturedPacket& captured : packets) {
    if (!captured.from_client) {
      continue;
    }
    const ib::PacketView packet = view_of(captured.transport);
    ib::PacketFields fields = ib::parse_fields(packet);
    // The kernel asks for an ACK with READs and atomics too, which their response is anyhow: the
    // specification leaves it open, ours doesn't (docs/kernel-differences.md).
    if (!packet.info().may_have_payload()) {
      CHECK(fields.ack_request);
      fields.ack_request = false;
    }
    expected.push_back(see(fields, packet.payload()));
  }
  return expected;
}

void replay_answers(const KernelScenario& scenario, const std::vector<CapturedPacket>& packets) {
  Client client(scenario, packets);
  for (const CapturedPacket& captured : packets) {
    if (!captured.from_client) {
      client.on_answer(captured);
    }
  }
  client.run_out();
  REQUIRE(client.completions.all.size() == scenario.works.size());
  for (std::size_t i = 0; i < scenario.works.size(); ++i) {
    const Completion& completion = client.completions.all[i];
    CHECK(completion.wr_id == i);
    CHECK(name_of(completion.status) == std::string(name_of(scenario.works[i].status)));
    CHECK(completion.opcode == completion_opcode(scenario.works[i].opcode));
  }
  if (!scenario.requests_lost && !scenario.answers_lost) {
    CHECK(client.requests.all == expected_requests(packets));
  }
}

template <class Replay>
void for_each_connection(Replay replay) {
  for (const KernelScenario& scenario : kernel_scenarios()) {
    const auto packets = read_rc_packets(scenario.capture);
    for (const auto& [qpn, connection] : by_connection(packets)) {
      INFO(scenario.capture << ", QP " << to_value(qpn));
      replay(scenario, connection);
    }
  }
}

}  // namespace

TEST_CASE("the kernel's requests get the kernel's answers from our responder") {
  for_each_connection(replay_requests);
}

TEST_CASE("the kernel's answers give the kernel's completions in our requester") {
  for_each_connection(replay_answers);
}

TEST_CASE("what the kernel wrote lies where it wrote it, what it read is what was there") {
  for (const KernelScenario& scenario : kernel_scenarios()) {
    const ClientWork& last = scenario.works.back();
    const bool all_alike = std::ranges::all_of(scenario.works, [&](const ClientWork& work) {
      return work.opcode == last.opcode && work.status == WcStatus::success;
    });
    if (!all_alike) {
      continue;
    }
    INFO(scenario.capture);
    const auto packets = by_connection(read_rc_packets(scenario.capture)).begin()->second;
    if (last.opcode == WrOpcode::rdma_write || last.opcode == WrOpcode::rdma_write_with_imm) {
      Server server(scenario, packets);
      for (const CapturedPacket& captured : packets) {
        if (captured.from_client) {
          server.on_request(captured);
        }
      }
      std::vector<std::byte> expected = server_buffer();
      std::ranges::copy(ByteView(client_buffer()).first(last.bytes),
                        expected.begin() + static_cast<std::ptrdiff_t>(last.remote_offset));
      CHECK(std::ranges::equal(server.memory.bytes, expected));
    } else if (last.opcode == WrOpcode::rdma_read) {
      Client client(scenario, packets);
      for (const CapturedPacket& captured : packets) {
        if (!captured.from_client) {
          client.on_answer(captured);
        }
      }
      std::vector<std::byte> expected = client_buffer();
      std::ranges::copy(ByteView(server_buffer()).subspan(last.remote_offset, last.bytes),
                        expected.begin());
      CHECK(std::ranges::equal(client.memory.bytes, expected));
    }
  }
}

TEST_CASE("all packets of the kernel are in the armed state, which ours never are") {
  // users.md row 4: rxe sends MigReq 0, hardware 1. A row of docs/kernel-differences.md.
  for (const KernelScenario& scenario : kernel_scenarios()) {
    for (const CapturedPacket& captured : read_rc_packets(scenario.capture)) {
      CHECK_FALSE(view_of(captured.transport).bth().migrated());
    }
  }
}

TEST_CASE("no capture of a reliable connection is left out") {
  std::set<std::string> covered;
  for (const KernelScenario& scenario : kernel_scenarios()) {
    covered.insert(scenario.capture);
  }
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::project_file("tests/data/captures"))) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".pcap" && name.find("_rc_") != std::string::npos) {
      INFO(name);
      CHECK(covered.contains(name));
      ++count;
    }
  }
  CHECK(count == 26);
}

}  // namespace verbena::test
