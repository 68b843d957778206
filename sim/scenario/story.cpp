#include "sim/scenario/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/near_miss.h"
#include "faults/parse.h"
#include "faults/units.h"
#include "sim/scenario/fields.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t u32_max = std::numeric_limits<std::uint32_t>::max();

/// For an error that asks what was meant: work requests, and what else a host or a peer does.
constexpr std::array<std::string_view, 34> all_verbs{
    "send",       "write",  "read",   "fetch_add",  "compare_swap", "atomic_write", "bind",
    "invalidate", "recv",   "close",  "reg",        "dereg",        "rekey",        "pause",
    "resume",     "link",   "fill",   "wait",       "bytes",        "packet",       "frame",
    "listen",     "accept", "reject", "disconnect", "connect",      "destroy",      "limit",
    "rate",       "path",   "modify", "fault",      "flush",        "lose_power"};

}  // namespace

Story::Story(Stage& stage)
    : stage_(stage),
      cm_(stage),
      steps_(stage.scenario().steps),
      rounds_left_(stage.scenario().rounds),
      completions_(stage.hosts().size()),
      round_begin_(stage.hosts().size()),
      events_(stage.hosts().size()) {
  for (const Host& host : stage.hosts()) {
    if (host.node != nullptr) {
      host.node->set_application(this);
    }
  }
  for (const Connection& connection : stage.connections()) {
    for (const End& end : connection.ends) {
      states_.push_back(end.qp != nullptr ? nic::state_of(*end.qp) : nic::QpState::reset);
    }
  }
}

std::size_t Story::index_of(const Node& node) const {
  // Hosts are the first stations of the simulation.
  return static_cast<std::size_t>(node.id());
}

void Story::on_completion(Node& node, const Completion& completion) {
  completions_[index_of(node)].push_back({completion, last_event()});
}

void Story::on_async_event(Node& node, const nic::AsyncEvent& event) {
  events_[index_of(node)].push_back({event.type, last_event()});
}

/// A node tells its application of what it has just put into the trace.
std::size_t Story::last_event() const { return stage_.simulation().trace().events().size() - 1; }

void Story::on_event(Time /*now*/, std::uint64_t /*token*/) {}

void Story::tell() {
  Simulation& simulation = stage_.simulation();
  const Time end = Time{} + stage_.scenario().limit;
  if (steps_.empty()) {
    rounds_left_ = 0;
  }
  bool goes_on = true;
  stage_.begin();
  while (goes_on) {
    while (!is_told() && stage_.is_settled() && run_step(steps_[next_])) {
      next_step();
      note_states();
    }
    goes_on = simulation.events_pending() > 0;
    if (goes_on) {
      static_cast<void>(simulation.step());
      note_states();
      goes_on = simulation.now() < end;
    }
  }
}

void Story::next_step() {
  if (++next_ < steps_.size()) {
    return;
  }
  next_ = 0;
  --rounds_left_;
  for (std::size_t host = 0; host < round_begin_.size(); ++host) {
    round_begin_[host] = completions_[host].size();
  }
}

/// Every change of a queue pair's state is an event of the trace.
void Story::note_states() {
  std::size_t at = 0;
  for (const Connection& connection : stage_.connections()) {
    for (const End& end : connection.ends) {
      // Scripted peers have no queue pairs, and closed connections none any more.
      if (end.qp != nullptr && states_[at] != nic::state_of(*end.qp)) {
        const nic::QpState state = states_[at] = nic::state_of(*end.qp);
        Simulation& simulation = stage_.simulation();
        simulation.trace().add(
            simulation.now(), TraceKind::state, stage_.hosts()[end.host].node->id(),
            fmt::format("QP {:#x} is {}", to_value(end.qpn), nic::name_of(state)));
      }
      ++at;
    }
  }
}

/// False: the step isn't done yet; it is run again after the next event.
bool Story::run_step(Line line) {
  if (post_) {
    return post_more();
  }
  const Word first = line.next("a host, wait or fault");
  if (first.text == "wait") {
    const bool is_there = run_wait(line);
    if (is_there && listener_ != nullptr) {
      listener_->on_waited();
    }
    return is_there;
  }
  if (first.text == "fault") {
    tell_of_other(line);
    const auto resolve = [&](std::string_view name) -> std::optional<Gid> {
      const auto& hosts = stage_.scenario().hosts;
      const auto host = std::ranges::find(hosts, name, &HostSpec::name);
      return host != hosts.end() ? std::optional(host->gid) : std::nullopt;
    };
    auto rule = faults::parse_rule(line.text().substr(first.text.size()), resolve);
    if (!rule) {
      fail(line.place(), rule.error().message);
    }
    stage_.simulation().faults().add({*std::move(rule)});
    return true;
  }
  const std::size_t host = stage_.host(first);
  const Word verb = line.next("what the host does");
  if (opcode_of_verb(verb.text) != nullptr) {
    post_ = read_post(line, stage_.nic_host(first), verb);
    return post_more();
  }
  if (stage_.hosts()[host].peer != nullptr) {
    run_peer_step(line, host, verb);
  } else {
    tell_of_other(line);
    run_host_step(line, host, verb);
  }
  line.end();
  return true;
}

void Story::tell_of_other(const Line& line) {
  if (listener_ != nullptr) {
    listener_->on_other(line);
  }
}

bool Story::run_wait(Line& line) {
  const Word what = line.next("a time, a host or quiet");
  const auto& simulation = stage_.simulation();
  if (what.text == "quiet") {
    line.end();
    return simulation.events_pending() == 0;
  }
  if (what.text[0] >= '0' && what.text[0] <= '9') {
    const Duration duration = duration_of(what);
    line.end();
    if (!wake_) {
      wake_ = simulation.now() + duration;
      stage_.simulation().schedule(*wake_, *this, 0);
    }
    if (simulation.now() < *wake_) {
      return false;
    }
    wake_.reset();
    return true;
  }
  const std::size_t host = stage_.nic_host(what);
  const Word event = line.next("the work request's ID, or what it hears of a connection");
  line.end();
  if (event.text[0] < '0' || event.text[0] > '9') {
    return cm_.has_heard(host, event);
  }
  const std::uint64_t id = number_of(event, u64_max);
  const auto begin = static_cast<std::ptrdiff_t>(round_begin_[host]);
  return std::any_of(completions_[host].begin() + begin, completions_[host].end(),
                     [&](const Told<Completion>& done) { return done.what.wr_id == id; });
}

void Story::run_host_step(Line& line, std::size_t host, const Word& verb) {
  Node& node = *stage_.hosts()[host].node;
  if (verb.text == "modify") {
    modify(line, host);
  } else if (CmStory::is_verb(verb.text) && is_for_cm(line, host, verb)) {
    cm_.run_step(line, host, verb);
  } else if (verb.text == "connect") {
    stage_.connect(stage_.connection(host, line.take("via"), line.place()));
  } else if (verb.text == "close") {
    stage_.close(stage_.connection(host, line.take("via"), line.place()));
  } else if (verb.text == "destroy") {
    destroy(line, node);
  } else if (verb.text == "limit") {
    set_limit(line, node);
  } else if (verb.text == "rate") {
    set_rate(line, host);
  } else if (verb.text == "path") {
    change_path(line, host);
  } else if (verb.text == "reg") {
    stage_.register_region(line.next("the memory"));
  } else if (verb.text == "dereg") {
    stage_.deregister_region(line.next("the memory"));
  } else if (verb.text == "rekey") {
    stage_.change_keys(line.next("the memory"));
  } else if (verb.text == "pause") {
    node.pause();
  } else if (verb.text == "lose_power") {
    node.lose_power();
  } else if (verb.text == "resume") {
    node.resume();
  } else if (verb.text == "fill") {
    fill(line);
  } else if (verb.text == "link") {
    const Word state = line.next("up or down");
    if (state.text != "up" && state.text != "down") {
      fail(state, fmt::format("'{}' is neither up nor down.", state.text));
    }
    stage_.hosts()[host].link.set_up(state.text == "up");
  } else {
    fail(verb, fmt::format("A host can't '{}'.{}", verb.text, did_you_mean(verb.text, all_verbs)));
  }
  Simulation& simulation = stage_.simulation();
  simulation.trace().add(simulation.now(), TraceKind::note, node.id(), line.text());
  node.drive();
}

/// Hosts whose connection is there from the beginning can connect, too: anew.
bool Story::is_for_cm(Line line, std::size_t host, const Word& verb) {
  return verb.text != "connect" ||
         stage_.connection(host, line.take("via"), line.place()).spec->uses_cm;
}

/// What is in use can't be destroyed; what isn't is needed until the end.
void Story::destroy(Line& line, Node& node) {
  const Word what = line.next("pd or cq");
  if (what.text != "pd" && what.text != "cq") {
    fail(what, fmt::format("'{}' is neither pd nor cq.", what.text));
  }
  const Word refused = line.require("refused");
  const auto result =
      what.text == "pd" ? node.nic().dealloc_pd(node.pd()) : node.nic().destroy_cq(node.cq());
  if (refused.text != "busy" || result || result.error() != nic::NicError::busy) {
    fail(refused, fmt::format("Destroying the {} isn't refused as '{}'.", what.text, refused.text));
  }
}

void Story::modify(Line& line, std::size_t host) {
  const Word state = line.next("a state");
  constexpr std::array states{nic::QpState::reset, nic::QpState::rts, nic::QpState::sqd,
                              nic::QpState::err};
  const auto* const to = std::ranges::find_if(states, [&](nic::QpState candidate) {
    std::string name = nic::name_of(candidate);
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return name == state.text;
  });
  if (to == states.end()) {
    fail(state, fmt::format("'{}' isn't one of reset, rts, sqd and err.", state.text));
  }
  Connection& connection = stage_.connection(host, line.take("via"), line.place());
  nic::QpAttr attr;
  attr.state = *to;
  attr.en_sqd_async_notify = true;
  std::uint32_t mask = nic::qp_attr_mask::state;
  mask |= *to == nic::QpState::sqd ? nic::qp_attr_mask::en_sqd_async_notify : 0;
  const Node& node = *stage_.hosts()[host].node;
  nic::Qp* const qp = stage_.end_of(connection, host).qp;
  if (qp == nullptr || !stage_.hosts()[host].node->nic().modify_qp(node.now(), *qp, attr, mask)) {
    fail(state, "The queue pair's state doesn't permit this transition.");
  }
}

/// "server limit all 3".
void Story::set_limit(Line& line, Node& node) {
  nic::Srq& srq = stage_.srq(line.next("the shared receive queue"));
  const Word limit = line.next("the limit");
  const auto value = static_cast<std::uint32_t>(number_of(limit, u32_max));
  if (!node.nic().modify_srq(srq, std::nullopt, value)) {
    fail(limit, "The queue doesn't hold so many requests.");
  }
}

/// "client rate 100Mb/s burst=4KiB".
void Story::set_rate(Line& line, std::size_t host) {
  constexpr std::uint64_t bits_per_kbit = 1'000;
  const Word word = line.next("the rate");
  const auto rate = faults::parse_rate(word.text);
  if (!rate) {
    fail(word, fmt::format("'{}' isn't a rate, such as 100Mb/s.", word.text));
  }
  nic::RateLimit limit;
  limit.kbps = static_cast<std::uint32_t>(std::min(*rate / bits_per_kbit, u32_max));
  if (const auto burst = line.take("burst")) {
    limit.burst_bytes = static_cast<std::uint32_t>(size_of(*burst, u32_max));
  }
  const End& end = stage_.end_of(stage_.connection(host, line.take("via"), line.place()), host);
  if (end.qp == nullptr || !stage_.hosts()[host].node->nic().limit_rate(*end.qp, limit)) {
    fail(word, "The queue pair's state doesn't permit a rate, or the device not this one.");
  }
}

/// "client path load", "client path rearm", "client path migrate".
void Story::change_path(Line& line, std::size_t host) {
  const Word what = line.next("load, rearm or migrate");
  Connection& connection = stage_.connection(host, line.take("via"), line.place());
  if (what.text == "load") {
    stage_.load_alternate_path(connection, host, what.place);
    return;
  }
  if (what.text != "rearm" && what.text != "migrate") {
    fail(what, fmt::format("'{}' is none of load, rearm and migrate.", what.text));
  }
  nic::QpAttr attr;
  attr.path_mig_state =
      what.text == "rearm" ? nic::PathMigState::rearm : nic::PathMigState::migrated;
  Node& node = *stage_.hosts()[host].node;
  nic::Qp* const qp = stage_.end_of(connection, host).qp;
  if (qp == nullptr ||
      !node.nic().modify_qp(node.now(), *qp, attr, nic::qp_attr_mask::path_mig_state)) {
    fail(what, "The queue pair's state doesn't permit this, or it knows of one way only.");
  }
}

void Story::fill(Line& line) {
  const Location at = stage_.location(line.next("the memory"));
  const Word value = line.next("a byte");
  const auto length = line.take("length");
  const MutableBytes bytes =
      stage_.bytes(at, length ? size_of(*length, at.bytes_left()) : at.bytes_left(), value.place);
  std::ranges::fill(bytes, static_cast<std::byte>(number_of(value, 0xFF)));
}

void Story::run_peer_step(Line& line, std::size_t host, const Word& verb) {
  if (verb.text == "packet") {
    send_packet(line, host);
  } else if (verb.text == "bytes") {
    const std::size_t to = stage_.host(line.require("to"));
    const auto bytes = bytes_from_hex(line.require("hex"));
    if (bytes.size() < ib::bth_bytes) {
      fail(line.place(), "A packet has at least the 12 bytes of a BTH.");
    }
    send_transport(host, to, bytes,
                   line.flag("bad_icrc") ? RawPeer::Icrc::bad : RawPeer::Icrc::good);
  } else if (verb.text == "frame") {
    const auto frame = bytes_from_hex(line.require("hex"));
    if (listener_ != nullptr) {
      listener_->on_frame(frame);
    }
    stage_.hosts()[host].peer->send_frame(frame);
  } else {
    fail(verb, fmt::format("A scripted peer can't '{}': it sends a packet, bytes or a frame.",
                           verb.text));
  }
}

/// "peer packet SEND_ONLY psn=+0 payload=16": fields default to what the connection would carry.
void Story::send_packet(Line& line, std::size_t host) {
  Connection& connection = stage_.connection(host, line.take("via"), line.place());
  const End& own = stage_.end_of(connection, host);
  const End& other = stage_.peer_of(own);
  ib::PacketFields fields;
  fields.opcode = opcode_of(line.next("an opcode"));
  fields.dest_qpn = other.qpn;
  // Responses are numbered by the requests that they answer.
  const Psn base = ib::opcode_info(fields.opcode).is_response() ? other.first_psn : own.first_psn;
  fields.psn = psn_of(line.require("psn"), base);
  read_fields(line, stage_, fields);
  const auto payload = payload_from(line);
  std::vector<std::byte> transport(ib::transport_size(fields.opcode, payload.size()));
  ib::emit_packet(transport, fields, payload);
  send_transport(host, other.host, transport,
                 line.flag("bad_icrc") ? RawPeer::Icrc::bad : RawPeer::Icrc::good);
}

void Story::send_transport(std::size_t host, std::size_t to, ByteView transport,
                           RawPeer::Icrc icrc) {
  if (listener_ != nullptr) {
    listener_->on_transport(transport, icrc);
  }
  stage_.hosts()[host].peer->send_transport(stage_.hosts()[to].spec->gid, transport, icrc);
}

}  // namespace verbena::sim
