#include "cli/script_run.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/child.h"
#include "proto/ib_bth/packet.h"

namespace verbena::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// For an answer that a command needs, on an emulated machine that has other things to do.
constexpr seconds answer_limit{20};
/// For what the device should do by itself. With timeout_code it repeats a request after 0.27 s, or
/// up to four times that (IBTA vol 1, 9.7.6.1.3).
constexpr milliseconds doing_limit{2500};
/// The same for a device that has been waited for in vain: it has gone another way.
constexpr milliseconds later_limit{700};
/// At the end, silence for so long means that there is nothing more.
constexpr milliseconds silence{300};
/// See catch_up().
constexpr milliseconds put_off{30};
/// How long one look at the descriptors may last.
constexpr milliseconds look{20};
/// Of a script that has a timeout: 4.096 us * 2^16 = 0.27 s, so that the script's answer comes in
/// time in any case in which it is meant to.
constexpr unsigned timeout_code = 16;

/// Of ibv_qp_type and ibv_send_flags.
constexpr int qp_type_rc = 2;
constexpr int qp_type_uc = 3;
constexpr int qp_type_ud = 4;
constexpr unsigned send_fence = 1;
constexpr unsigned send_signaled = 2;
constexpr unsigned send_solicited = 4;

/// Where the BTH has the destination (IBTA vol 1, 9.2): 24 bits.
constexpr std::size_t destination_at = 5;
/// Where a RETH and an AtomicETH have the key: behind an address of 64 bits.
constexpr std::size_t key_at = 8;

int qp_type(ib::Service service) {
  return service == ib::Service::ud   ? qp_type_ud
         : service == ib::Service::uc ? qp_type_uc
                                      : qp_type_rc;
}

std::uint32_t read_number(ByteView bytes, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8U | std::to_integer<std::uint32_t>(bytes[i]);
  }
  return value;
}

void write_number(MutableBytes bytes, std::size_t count, std::uint32_t value) {
  for (std::size_t i = count; i-- > 0; value >>= 8U) {
    bytes[i] = static_cast<std::byte>(value);
  }
}

/// The position of a key in the packet; 0 if it has none.
std::size_t key_position(ByteView transport) {
  const auto packet = ib::PacketView::parse(transport);
  if (!packet) {
    return 0;
  }
  for (const auto header : {ib::ExtHeader::reth, ib::ExtHeader::atomic_eth}) {
    if (packet->info().has(header)) {
      return packet->info().offset_of(header) + key_at;
    }
  }
  return packet->info().has(ib::ExtHeader::ieth) ? packet->info().offset_of(ib::ExtHeader::ieth)
                                                 : 0;
}

std::string hex_of(const Gid& gid) {
  std::string text;
  for (const std::uint8_t byte : gid.bytes) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

ScriptFailure gone() {
  return {.is_final = true, .words = "the connection to whoever has the device is gone"};
}

/// What each region held at the beginning; `finish` tells what isn't so any more.
std::vector<std::vector<std::byte>> first_memories(const sim::PacketScript& script) {
  std::vector<std::vector<std::byte>> memories;
  for (const sim::ScriptRegion& region : script.regions) {
    std::vector<std::byte> bytes(region.spec.bytes, std::byte{region.spec.value});
    for (std::size_t i = 0; region.spec.counting && i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i);
    }
    memories.push_back(std::move(bytes));
  }
  return memories;
}

/// "bytes REGION OFFSET HEX". False if that makes no sense.
bool take_bytes(const std::string& line, std::vector<std::vector<std::byte>>& memories) {
  std::size_t region = 0;
  std::size_t offset = 0;
  int begin = 0;
  if (std::sscanf(line.c_str(), "bytes %zu %zu %n", &region, &offset, &begin) != 2 ||
      region >= memories.size()) {
    return false;
  }
  const std::string_view digits = std::string_view(line).substr(static_cast<std::size_t>(begin));
  const std::size_t count = digits.size() / 2;
  if (offset > memories[region].size() || count > memories[region].size() - offset) {
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    unsigned value = 0;
    if (std::sscanf(std::string(digits.substr(2 * i, 2)).c_str(), "%x", &value) != 1) {
      return false;
    }
    memories[region][offset + i] = static_cast<std::byte>(value);
  }
  return true;
}

}  // namespace

bool ScriptRun::pump(const std::function<bool()>& is_done, milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  while (true) {
    wire_.turn();
    agent_.turn();
    if (is_done()) {
      return true;
    }
    if (agent_.is_gone() || steady_clock::now() >= deadline) {
      return false;
    }
    std::vector<pollfd> descriptors;
    wire_.add_descriptors(descriptors);
    agent_.add_descriptors(descriptors);
    if (::poll(descriptors.data(), descriptors.size(), static_cast<int>(look.count())) <= 0) {
      pause_between_looks();
    }
  }
}

bool ScriptRun::wait_for_device(seconds limit) {
  return pump([&] { return wire_.knows_device(); }, limit);
}

Result<std::string, ScriptFailure> ScriptRun::ask(std::string line) {
  if (line.size() > ScriptAgent::line_bytes_max) {
    return Failure({.words = fmt::format("'{}' is longer than what can be asked for: {} bytes",
                                         line, ScriptAgent::line_bytes_max)});
  }
  const std::string said = line;
  agent_.say(std::move(line));
  std::optional<std::string> answer;
  const auto is_answered = [&] { return (answer = agent_.next_answer()).has_value(); };
  if (!pump(is_answered, answer_limit)) {
    return Failure(
        agent_.is_gone()
            ? gone()
            : ScriptFailure{.is_final = true, .words = fmt::format("no answer to '{}'", said)});
  }
  if (answer->starts_with("failed ")) {
    return Failure({.words = fmt::format("the device refuses '{}': {}", said, *answer)});
  }
  return *answer;
}

Result<void, ScriptFailure> ScriptRun::set_up(const sim::PacketScript& script) {
  if (auto done = ask(fmt::format("memory {}", script.arena_bytes)); !done) {
    return Failure(std::move(done.error()));
  }
  lkeys_.clear();
  rkeys_.clear();
  for (const sim::ScriptRegion& region : script.regions) {
    const sim::MemorySpec& spec = region.spec;
    const auto answer = ask(fmt::format("region {} {} {:x} {}", spec.offset, spec.bytes,
                                        to_value(spec.access), spec.counting ? -1 : spec.value));
    unsigned lkey = 0;
    unsigned rkey = 0;
    if (!answer || std::sscanf(answer->c_str(), "region %x %x", &lkey, &rkey) != 2) {
      return Failure(answer ? gone() : answer.error());
    }
    lkeys_.push_back(Lkey{lkey});
    rkeys_.push_back(Rkey{rkey});
  }
  const sim::ConnectionSpec& spec = script.connection;
  const auto answer =
      ask(fmt::format("qp {} {} {}", qp_type(spec.service), spec.send_wr_max, spec.recv_wr_max));
  unsigned qpn = 0;
  if (!answer || std::sscanf(answer->c_str(), "qp %x", &qpn) != 1) {
    return Failure(answer ? gone() : answer.error());
  }
  qpn_ = Qpn{qpn};
  // A FLUSH is nothing that a kernel's device knows a right for.
  const Access rights = Access{to_value(spec.access) & ~(to_value(Access::flush_global) |
                                                         to_value(Access::flush_persistent))};
  auto connected = ask(fmt::format(
      "connect {:x} {} {} {} {} {:x} {} {} {} {} {} {:x}", to_value(script.peer_qpn), hex_of(peer_),
      static_cast<unsigned>(spec.mtu), script.peer_psn.value(), script.device_psn.value(),
      to_value(rights), spec.rd_atomic, spec.min_rnr_timer, spec.timeout == 0 ? 0 : timeout_code,
      spec.retry_cnt, spec.rnr_retry, to_value(spec.qkey)));
  if (!connected) {
    return Failure(std::move(connected.error()));
  }
  return {};
}

std::vector<std::byte> ScriptRun::translate(const sim::PacketScript& script,
                                            ByteView transport) const {
  std::vector<std::byte> bytes(transport.begin(), transport.end());
  constexpr std::size_t qpn_bytes = 3;
  // A script may send less than a BTH, which has no numbers.
  if (bytes.size() < destination_at + qpn_bytes) {
    return bytes;
  }
  const auto destination = MutableBytes(bytes).subspan(destination_at);
  if (read_number(destination, qpn_bytes) == to_value(script.device_qpn)) {
    write_number(destination, qpn_bytes, to_value(qpn_));
  }
  if (const std::size_t at = key_position(bytes); at != 0) {
    const auto key = MutableBytes(bytes).subspan(at);
    for (std::size_t i = 0; i < script.regions.size(); ++i) {
      if (read_number(key, sizeof(Rkey)) == to_value(script.regions[i].rkey)) {
        write_number(key, sizeof(Rkey), to_value(rkeys_[i]));
        break;
      }
    }
  }
  return bytes;
}

std::string ScriptRun::pieces(const sim::PacketScript& script, const std::vector<Sge>& sges) const {
  std::string text = fmt::format("{}", sges.size());
  for (const Sge& sge : sges) {
    Lkey key = sge.lkey;
    for (std::size_t i = 0; i < script.regions.size(); ++i) {
      if (sge.lkey == script.regions[i].lkey) {
        key = lkeys_[i];
      }
    }
    text += fmt::format(" {:x} {} {:x}", to_value(sge.addr), sge.length, to_value(key));
  }
  return text;
}

void ScriptRun::wait_for(std::size_t packets, std::size_t completions) {
  const bool came = pump(
      [&] {
        return wire_.frames().size() >= packets && agent_.completions().size() >= completions;
      },
      went_another_way_ ? later_limit : doing_limit);
  went_another_way_ = went_another_way_ || !came;
}

void ScriptRun::catch_up() {
  if (!std::exchange(is_behind_, false)) {
    return;
  }
  const std::size_t before = wire_.probes_answered();
  if (pump([&] { return wire_.probe(); }, doing_limit)) {
    pump([&] { return wire_.probes_answered() > before; }, doing_limit);
  }
  // What a host puts off when it gets a packet is done a moment later.
  pump([] { return false; }, put_off);
}

/// Until nothing has happened for a while.
void ScriptRun::settle() {
  const auto seen = [&] {
    return wire_.frames().size() + agent_.completions().size() + agent_.events().size();
  };
  // A device that never stops is told of by how much there is.
  const auto deadline = steady_clock::now() + doing_limit;
  std::size_t before = 0;
  do {
    before = seen();
  } while (pump([&] { return seen() > before; }, silence) && steady_clock::now() < deadline);
}

Result<void, ScriptFailure> ScriptRun::perform(const sim::PacketScript& script,
                                               const sim::ScriptStep& step) {
  using Kind = sim::ScriptStep::Kind;
  std::string command;
  switch (step.kind) {
    case Kind::wait:
      wait_for(step.packets, step.completions);
      return agent_.is_gone() ? Result<void, ScriptFailure>(Failure(gone()))
                              : Result<void, ScriptFailure>();
    case Kind::packet:
    case Kind::frame: {
      const auto send = [&] {
        return step.kind == Kind::frame
                   ? wire_.send_frame(step.bytes)
                   : wire_.send_transport(translate(script, step.bytes), step.bad_icrc);
      };
      if (!pump(send, answer_limit)) {
        return Failure({.is_final = true, .words = "the wire takes no packets any more"});
      }
      is_behind_ = true;
      return {};
    }
    case Kind::receive:
      command = fmt::format("recv {} {}", step.wr_id, pieces(script, step.sges));
      break;
    case Kind::send: {
      const SendWr& request = step.request;
      const unsigned flags = (request.fence ? send_fence : 0) |
                             (request.signaled ? send_signaled : 0) |
                             (request.solicited ? send_solicited : 0);
      command = fmt::format("send {} {} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {}", step.wr_id,
                            static_cast<unsigned>(request.opcode), flags, to_value(request.imm),
                            to_value(request.remote_addr), to_value(request.rkey),
                            request.compare_add, request.swap, to_value(request.remote_qpn),
                            to_value(request.remote_qkey), pieces(script, step.sges));
      break;
    }
  }
  catch_up();
  auto done = ask(std::move(command));
  if (!done) {
    return Failure(std::move(done.error()));
  }
  return {};
}

Result<void, ScriptFailure> ScriptRun::perform(const sim::PacketScript& script) {
  for (const sim::ScriptStep& step : script.steps) {
    if (auto done = perform(script, step); !done) {
      return done;
    }
  }
  wait_for(script.answers.frames.size(), script.answers.completions.size());
  settle();
  return {};
}

Result<ScriptOutcome, ScriptFailure> ScriptRun::finish(const sim::PacketScript& script) {
  auto answer = ask("finish");
  ScriptOutcome outcome;
  outcome.device_qpn = qpn_;
  outcome.answers.memories = first_memories(script);
  unsigned state = 0;
  while (answer && *answer != "finished") {
    if (std::sscanf(answer->c_str(), "state %u", &state) == 1) {
      outcome.answers.state = static_cast<nic::QpState>(state);
    } else if (!take_bytes(*answer, outcome.answers.memories)) {
      return Failure({.is_final = true, .words = "not what the role `scripted` says: " + *answer});
    }
    std::optional<std::string> next;
    if (!pump([&] { return (next = agent_.next_answer()).has_value(); }, answer_limit)) {
      return Failure(gone());
    }
    answer = std::move(*next);
  }
  if (!answer) {
    return Failure(std::move(answer.error()));
  }
  outcome.answers.frames = wire_.frames();
  outcome.answers.completions = agent_.completions();
  outcome.answers.events = agent_.events();
  return outcome;
}

Result<ScriptOutcome, ScriptFailure> ScriptRun::run(const sim::PacketScript& script) {
  wire_.forget();
  agent_.forget();
  went_another_way_ = false;
  is_behind_ = false;
  auto done = set_up(script);
  if (done) {
    done = perform(script);
  }
  if (!done && done.error().is_final) {
    return Failure(std::move(done.error()));
  }
  auto outcome = finish(script);
  if (!done && outcome) {
    return Failure(std::move(done.error()));
  }
  return outcome;
}

}  // namespace verbena::cli
