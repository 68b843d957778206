#include "tests/unit/ib_bth_rc/kernel_captures.h"

#include <array>
#include <catch2/catch.hpp>

#include "pcap/reader.h"
#include "proto/inet/ip_address.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"
#include "tests/unit/project_file.h"

namespace verbena::test {

namespace {

constexpr auto write = WrOpcode::rdma_write;
constexpr auto write_imm = WrOpcode::rdma_write_with_imm;
constexpr auto send = WrOpcode::send;
constexpr auto send_imm = WrOpcode::send_with_imm;
constexpr auto read = WrOpcode::rdma_read;
constexpr auto swap = WrOpcode::atomic_cmp_and_swp;
constexpr auto add = WrOpcode::atomic_fetch_and_add;

/// The client gave its immediate as a number in its own byte order; the wire has its bytes.
constexpr std::uint32_t imm_of(std::uint32_t little_endian) { return std::byteswap(little_endian); }

constexpr std::uint64_t addend = 0x0102'0304'0506'0708;
/// The first eight bytes of the server's buffer, and those after the addition.
constexpr std::uint64_t before_addition = 0x362F'2821'1A13'0C05;
constexpr std::uint64_t after_addition = before_addition + addend;
constexpr std::uint64_t swapped_in = 0x1122'3344'5566'7788;

std::vector<ServerReceive> receives_of_4096(std::uint32_t count) {
  std::vector<ServerReceive> receives;
  for (std::uint32_t i = 0; i < count; ++i) {
    receives.push_back({.bytes = 4096, .offset = std::uint64_t{i} * 4096});
  }
  return receives;
}

/// The scenarios that were captured over IPv4 and over IPv6.
void append_verbs(std::vector<KernelScenario>& all, const char* send_name, const char* imm_name,
                  const char* write_name, const char* write_imm_name, const char* read_name,
                  const char* atomic_name, const char* rnr_name, const char* access_read_name,
                  const char* access_write_name) {
  all.push_back({.capture = send_name,
                 .works = {{send, 101}, {send, 0}, {send, 2500}, {send, 1024}},
                 .receives = receives_of_4096(4)});
  all.push_back({.capture = imm_name,
                 .works = {{send_imm, 64, 0, imm_of(0x1122'3344 + 64)},
                           {send_imm, 2500, 0, imm_of(0x1122'3344 + 2500)}},
                 .receives = receives_of_4096(2)});
  all.push_back(
      {.capture = write_name, .works = {{write, 65, 8}, {write, 0, 8}, {write, 3000, 8}}});
  all.push_back({.capture = write_imm_name,
                 .works = {{write_imm, 64, 0, imm_of(0xA1B2'C3D4)},
                           {write_imm, 0, 0, imm_of(0xA1B2'C3D4)},
                           {write_imm, 3000, 0, imm_of(0xA1B2'C3D4)}},
                 .receives = receives_of_4096(3)});
  all.push_back({.capture = read_name, .works = {{read, 63, 16}, {read, 0, 16}, {read, 3000, 16}}});
  all.push_back({.capture = atomic_name,
                 .works = {{add, 8, 0, 0, addend, 0},
                           {swap, 8, 0, 0, after_addition, swapped_in},
                           {swap, 8, 0, 0, 0, 1}}});
  all.push_back(
      {.capture = rnr_name, .works = {{send, 200}}, .receives = {{.bytes = 4096, .late = true}}});
  all.push_back({.capture = access_read_name,
                 .works = {{.opcode = read,
                            .bytes = 64,
                            .remote_offset = kernel_buffer_bytes - 10,
                            .status = WcStatus::rem_access_err}}});
  all.push_back({.capture = access_write_name,
                 .works = {{.opcode = write, .bytes = 64, .status = WcStatus::rem_access_err},
                           {.opcode = send, .bytes = 8, .status = WcStatus::wr_flush_err}},
                 .all_at_once = true,
                 .wrong_rkey = true});
}

std::vector<KernelScenario> make_scenarios() {
  std::vector<KernelScenario> all;
  append_verbs(all, "v4_rc_send", "v4_rc_send_imm", "v4_rc_write", "v4_rc_write_imm", "v4_rc_read",
               "v4_rc_atomic", "v4_rc_rnr", "v4_rc_access_read", "v4_rc_access_write");
  append_verbs(all, "v6_rc_send", "v6_rc_send_imm", "v6_rc_write", "v6_rc_write_imm", "v6_rc_read",
               "v6_rc_atomic", "v6_rc_rnr", "v6_rc_access_read", "v6_rc_access_write");
  all.push_back({.capture = "v4_rc_rnr_exhaust",
                 .works = {{.opcode = send, .bytes = 200, .status = WcStatus::rnr_retry_exc_err}},
                 .rnr_retry = 2});
  all.push_back({.capture = "v6_rc_send_too_long",
                 .works = {{.opcode = send, .bytes = 2500, .status = WcStatus::rem_op_err}},
                 .receives = {{.bytes = 64}},
                 .departure = Departure::too_long_send_is_operational_error});
  all.push_back({.capture = "v4_rc_loss_write",
                 .works = {{write, 12000}, {write, 12000}},
                 .requests_lost = true});
  all.push_back({.capture = "v4_rc_loss_read",
                 .works = {{read, 12000}, {read, 12000}},
                 .answers_lost = true,
                 .departure = Departure::repeated_read_begins_with_middle});
  for (const char* const name : {"v4_rc_no_peer", "v6_rc_no_peer"}) {
    all.push_back({.capture = name,
                   .works = {{.opcode = send, .bytes = 32, .status = WcStatus::retry_exc_err}},
                   .server_absent = true,
                   .retry_cnt = 2,
                   .timeout = 12});
  }
  for (const char* const name : {"v4_rc_srq", "v6_rc_srq"}) {
    // Two connections; each has the receives that it took of the shared queue.
    all.push_back(
        {.capture = name, .works = {{send, 50}, {send, 51}}, .receives = receives_of_4096(2)});
  }
  all.push_back({.capture = "rxe_cm_ok",
                 .works = {{write, 65, 8},
                           {write, 5000, 8},
                           {read, 63, 16},
                           {read, 5000, 16},
                           {send, 101},
                           {send, 5000}},
                 .receives = {{.bytes = 8192, .offset = 32768}, {.bytes = 8192, .offset = 40960}}});
  all.push_back({.capture = "rxe_cm_imm",
                 .works = {{send_imm, 64, 0, 0x1122'3344}, {write_imm, 64, 0, 0x1122'3344}},
                 .receives = {{.bytes = 8192, .offset = 32768}, {.bytes = 8192, .offset = 40960}}});
  all.push_back({.capture = "rxe_cm_badwrite",
                 .works = {{.opcode = write, .bytes = 64, .status = WcStatus::rem_access_err}},
                 .wrong_rkey = true});
  all.push_back({.capture = "rxe_cm_oob",
                 .works = {{.opcode = write,
                            .bytes = 64,
                            .remote_offset = kernel_buffer_bytes - 8,
                            .status = WcStatus::rem_access_err}}});
  all.push_back({.capture = "rxe_cm_norecv",
                 .works = {{.opcode = send, .bytes = 64, .status = WcStatus::rnr_retry_exc_err}},
                 .rnr_retry = 2,
                 .min_rnr_timer = 0});
  return all;
}

std::vector<std::byte> pattern(unsigned first) {
  std::vector<std::byte> bytes(kernel_buffer_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + first);
  }
  return bytes;
}

bool is_client(const Gid& gid) {
  const auto v6 = inet::Ipv6Address::from_text("fd09::2");
  return gid == roce::gid_from_ipv4({{10, 9, 0, 2}}) || gid == roce::gid_from_ipv6(*v6);
}

}  // namespace

std::span<const KernelScenario> kernel_scenarios() {
  static const std::vector<KernelScenario> scenarios = make_scenarios();
  return scenarios;
}

std::vector<std::byte> client_buffer() { return pattern(3); }
std::vector<std::byte> server_buffer() { return pattern(5); }

std::vector<CapturedPacket> read_packets(ib::Service service, const std::string& capture) {
  auto reader = pcap::Reader::open(test::project_file("tests/data/captures/") + capture + ".pcap");
  REQUIRE(reader);
  std::vector<CapturedPacket> packets;
  std::optional<Time> first;
  for (;;) {
    const auto record = reader->next();
    REQUIRE(record);
    if (!*record) {
      return packets;
    }
    const auto frame = roce::parse_frame((*record)->frame);
    REQUIRE(frame);
    const auto packet = ib::PacketView::parse(frame->transport);
    REQUIRE(packet);
    if (packet->info().service != service) {
      continue;
    }
    const Time time{(*record)->time.value().time_since_epoch()};
    first = first.value_or(time);
    packets.push_back({.time = Time{} + (time - *first),
                       .from_client = is_client(frame->source),
                       .transport = {frame->transport.begin(), frame->transport.end()}});
  }
}

}  // namespace verbena::test
