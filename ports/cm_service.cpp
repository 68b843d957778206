#include "ports/cm_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "ports/failure_journal.h"
#include "ports/interfaces.h"
#include "ports/own_thread.h"
#include "ports/sys.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;
using ib::cm::Agent;
using ib::cm::CommId;
using ib::cm::Event;

/// How often peers on this host are looked after.
constexpr Duration look_interval = 200ms;
/// When the send queue was full, it is tried again so soon.
constexpr Duration send_retry_interval = 1ms;
/// For how long a request waits for somebody who listens, and how many may.
constexpr Duration patience_with_listeners = 100ms;
constexpr std::size_t unclaimed_max = 1024;
/// Nothing at exit waits longer than that for a lock.
constexpr Duration exit_patience = 200ms;
constexpr Duration exit_nap = 1ms;
/// Where the number of the slot is in a communication ID.
constexpr unsigned slot_shift = 24;

/// Calls `attempt` until it returns true, within the patience of a process that exits.
template <class Attempt>
bool attempt_at_exit(Attempt&& attempt) {
  for (Duration waited{}; waited < exit_patience; waited += exit_nap) {
    if (attempt()) {
      return true;
    }
    static_cast<void>(sys::poll(nullptr, 0, exit_nap));
  }
  return false;
}

/// Those whose frames stay on this host: on a link, only the device's own.
std::vector<Gid> gids_of_host(const DeviceConfig& config) {
  if (!config.link.empty()) {
    return config.addresses;
  }
  std::vector<Gid> gids;
  for (const InterfaceAddress& item : host_addresses()) {
    gids.push_back(item.address);
  }
  return gids;
}

}  // namespace

Result<std::unique_ptr<CmService>, std::string> CmService::open(Engine& engine,
                                                                const DeviceConfig& config) {
  const auto slot = engine.with_fabric([](Fabric& fabric) { return slot_of(fabric.self()); });
  if (!slot) {
    return std::unexpected(std::string("the process is about to end"));
  }
  std::unique_ptr<CmService> service(new CmService(engine, config, *slot));
  const auto opened =
      engine.with_nic([&](nic::Nic& nic, Time now) { return service->gsi_.open(nic, now); });
  if (!opened) {
    return std::unexpected(
        fmt::format("{} has no room for a connection manager's queue pair", config.name));
  }
  if (auto started = service->start(); !started) {
    return std::unexpected(fmt::format("can't start the connection manager's thread of {}: {}",
                                       config.name, sys::error_text(started.error())));
  }
  return service;
}

CmService::CmService(Engine& engine, const DeviceConfig& config, std::uint32_t slot)
    : engine_(engine),
      config_(config),
      host_(gids_of_host(config)),
      agent_({.ca_guid = config.guid,
              .id_prefix = static_cast<std::uint8_t>(slot),
              .patience_max = config.connect_timeout},
             sys::random_bits()) {
  static_assert(slots_max <= 256, "a slot's number is the upper byte of communication IDs");
  add_process_hook(*this);
}

CmService::~CmService() {
  remove_process_hook(*this);
  if (thread_) {
    stop_ = true;
    wake();
    pthread_join(*thread_, nullptr);
  }
  engine_.with_nic([this](nic::Nic& nic, Time) { gsi_.close(nic); });
}

// --- Effects

template <class Command>
auto CmService::with_agent(Command&& command) {
  using Outcome = decltype(command(agent_, Time{}));
  if (is_dead()) {
    return Outcome();
  }
  const std::lock_guard guard(mutex_);
  struct Effects {
    CmService& service;
    ~Effects() { service.let_effects_out(); }
  } effects{*this};
  return std::forward<Command>(command)(agent_, Engine::now());
}

void CmService::let_effects_out() {
  hand_over_events();
  while (auto outgoing = agent_.poll_transmit()) {
    waiting_.push_back(*outgoing);
  }
  while (!waiting_.empty() && send(waiting_.front())) {
    waiting_.pop_front();
  }
  next_send_attempt_ = waiting_.empty() ? time_never : Engine::now() + send_retry_interval;
  if (next_look_ == time_never && agent_.count() > 0) {
    next_look_ = Engine::now() + look_interval;
  }
  if (next_deadline() < wake_time_) {
    wake();
  }
}

bool CmService::send(const ib::cm::Outgoing& outgoing) {
  return engine_.with_nic([&](nic::Nic& nic, Time now) { return gsi_.send(nic, now, outgoing); });
}

void CmService::hand_over_events() {
  while (const auto event = agent_.poll_event()) {
    const CmAnswer answer = consumer_ != nullptr ? consumer_->on_cm_event(*event) : CmAnswer();
    const bool is_request =
        event->kind == Event::Kind::request || event->kind == Event::Kind::sidr_request;
    if (is_request && answer.cookie != 0) {
      agent_.set_cookie(event->id, answer.cookie);
    } else if (is_request) {
      agent_.reject(Engine::now(), event->id, answer.refusal, {}, {});
      agent_.destroy(Engine::now(), event->id);
    }
  }
}

void CmService::receive() {
  // Armed before the queue is looked at, so that nothing that comes after the last look is missed.
  // The engine's lock isn't held while a MAD is looked at.
  engine_.with_nic([this](nic::Nic& nic, Time) { gsi_.arm(nic); });
  while (gsi_.receive(*this)) {
    engine_.with_nic([this](nic::Nic& nic, Time now) { gsi_.replenish(nic, now); });
  }
}

// --- The thread

Result<void, int> CmService::start() {
  const auto thread = start_own_thread("verbena-cm", &CmService::thread_entry, this);
  if (!thread) {
    return std::unexpected(thread.error());
  }
  thread_ = *thread;
  return {};
}

void* CmService::thread_entry(void* self) {
  static_cast<CmService*>(self)->thread_main();
  return nullptr;
}

void CmService::wake() {
  news_.fetch_add(1);
  sys::futex_wake_one(reinterpret_cast<const std::uint32_t*>(&news_));
}

Time CmService::next_deadline() const {
  const Time refusal = unclaimed_.empty() ? time_never : unclaimed_.front().deadline;
  return std::min({agent_.next_timeout(), next_look_, next_send_attempt_, refusal});
}

void CmService::thread_main() {
  while (!stop_) {
    const std::uint32_t seen = news_;
    std::optional<Duration> timeout;
    {
      const std::lock_guard guard(mutex_);
      wake_time_ = Time::min();  // Awake: nobody needs to wake us.
      receive();
      const Time now = Engine::now();
      agent_.on_timer(now);
      refuse_requests(now);
      look_after_peers(now);
      let_effects_out();
      wake_time_ = next_deadline();
      if (wake_time_ != time_never) {
        timeout = std::max(wake_time_ - Engine::now(), Duration(0));
      }
    }
    sys::futex_wait(reinterpret_cast<const std::uint32_t*>(&news_), seen, timeout);
  }
}

void CmService::on_mad(const ib::cm::Route& route, ByteView mad) {
  const Time now = Engine::now();
  if (agent_.on_mad(now, route, mad) != ib::cm::MadVerdict::no_listener ||
      unclaimed_.size() >= unclaimed_max) {
    return;
  }
  Unclaimed& request = unclaimed_.emplace_back();
  request.deadline = now + patience_with_listeners;
  request.route = route;
  copy_bytes(request.mad, mad.first(request.mad.size()));
}

void CmService::claim_requests() {
  std::erase_if(unclaimed_, [&](const Unclaimed& request) {
    return agent_.on_mad(Engine::now(), request.route, request.mad) !=
           ib::cm::MadVerdict::no_listener;
  });
}

void CmService::refuse_requests(Time now) {
  for (; !unclaimed_.empty() && unclaimed_.front().deadline <= now; unclaimed_.pop_front()) {
    const Unclaimed& request = unclaimed_.front();
    const auto envelope = ib::cm::parse(request.mad);
    const auto* req = std::get_if<ib::cm::Req>(&envelope->message);
    const auto* sidr = std::get_if<ib::cm::SidrReq>(&envelope->message);
    if (is_to_refuse(request.route, req != nullptr ? req->service_id : sidr->service_id)) {
      agent_.refuse(request.route, request.mad);
    }
  }
}

bool CmService::is_to_refuse(const ib::cm::Route& route, ib::cm::ServiceId service) {
  const auto decision = engine_.with_fabric([&](Fabric& fabric) {
    const std::vector<SlotLife> members = fabric.members_of(route.local);
    const auto first =
        std::ranges::find_if(members, [&](SlotLife life) { return fabric.check_alive(life); });
    return first != members.end() && *first == fabric.self() &&
           !ServiceTable(fabric).has_listener(to_value(service), route.local);
  });
  return decision.value_or(false);
}

bool CmService::is_on_this_host(const Gid& gid) const {
  return !config_.faces_network() || roce::is_loopback(gid) ||
         std::ranges::find(host_, gid) != host_.end();
}

std::optional<Gid> CmService::address_toward(const Gid& gid) const {
  return config_.address_toward(gid);
}

bool CmService::may_lead_to(const Gid& gid) const {
  return config_.link.empty() ? !is_on_this_host(gid) : address_toward(gid).has_value();
}

void CmService::look_after_peers(Time now) {
  if (now < next_look_) {
    return;
  }
  next_look_ = time_never;
  std::map<CommId, SlotLife> lives;
  std::vector<CommId> lost;
  static_cast<void>(engine_.with_fabric([&](Fabric& fabric) {
    for (const Agent::Peer& peer : agent_.peers()) {
      if (!is_on_this_host(peer.remote)) {
        continue;
      }
      const auto known = lives_.find(peer.id);
      const SlotLife life = known != lives_.end()
                                ? known->second
                                : fabric.life_of(to_value(peer.remote_id) >> slot_shift);
      if (fabric.check_alive(life)) {
        lives[peer.id] = life;
      } else {
        lost.push_back(peer.id);
      }
    }
    return true;
  }));
  lives_ = std::move(lives);
  for (const CommId id : lost) {
    agent_.lose_peer(now, id);
  }
}

// --- The end of the process

void CmService::at_exit() {
  // Once the engine's lock was ours, no handler of a signal interrupted its holder.
  if (is_dead() || !attempt_at_exit([this] { return engine_.try_progress(); }) ||
      !attempt_at_exit([this] { return mutex_.try_lock(); })) {
    return;
  }
  const std::lock_guard guard(mutex_, std::adopt_lock);
  consumer_ = nullptr;  // Nobody is told any more.
  agent_.destroy_all(Engine::now());
  attempt_at_exit([this] {
    let_effects_out();
    return waiting_.empty();
  });
}

// --- Commands

void CmService::set_consumer(CmConsumer& consumer) {
  with_agent([&](Agent&, Time) { consumer_ = &consumer; });
}

Result<ServiceTable::Bound, int> CmService::bind(const ServiceClaim& claim) {
  using Outcome = Result<ServiceTable::Bound, int>;
  if (is_dead()) {
    return std::unexpected(EIO);
  }
  const auto bound =
      engine_.with_fabric([&](Fabric& fabric) { return ServiceTable(fabric).bind(claim); });
  return bound.value_or(Outcome(std::unexpected(EIO)));
}

void CmService::listen(ib::cm::ServiceId service, const std::optional<Gid>& address,
                       std::uintptr_t cookie) {
  with_agent([&](Agent& agent, Time) {
    agent.listen(cookie, service, address);
    claim_requests();
  });
}

int CmService::announce(ServiceEntryId entry) {
  if (is_dead()) {
    return EIO;
  }
  return engine_.with_fabric([&](Fabric& fabric) { return ServiceTable(fabric).listen(entry); })
      .value_or(EIO);
}

void CmService::unlisten(std::uintptr_t cookie) {
  with_agent([&](Agent& agent, Time) { agent.unlisten(cookie); });
}

void CmService::release(ServiceEntryId entry) {
  if (!is_dead()) {
    static_cast<void>(engine_.with_fabric([&](Fabric& fabric) {
      ServiceTable(fabric).release(entry);
      return true;
    }));
  }
}

std::vector<std::string> CmService::listeners(std::uint64_t space) {
  if (is_dead()) {
    return {};
  }
  return engine_.with_fabric([&](Fabric& fabric) { return ServiceTable(fabric).listeners(space); })
      .value_or(std::vector<std::string>{});
}

void CmService::note_failure(const std::string& sentence) {
  if (!is_dead()) {
    static_cast<void>(engine_.with_fabric([&](Fabric& fabric) {
      ports::note_failure(fabric, Engine::now(), sentence);
      return true;
    }));
  }
}

CommId CmService::connect(const ib::cm::Route& route, const ib::cm::Req& req,
                          std::uintptr_t cookie) {
  return with_agent([&](Agent& agent, Time now) { return agent.connect(now, route, req, cookie); });
}

bool CmService::accept(CommId id, const ib::cm::Rep& rep) {
  return with_agent([&](Agent& agent, Time now) { return agent.accept(now, id, rep); });
}

bool CmService::ready(CommId id, const ib::cm::PrivateData<224>& private_data) {
  return with_agent([&](Agent& agent, Time now) { return agent.ready(now, id, private_data); });
}

bool CmService::reject(CommId id, ib::cm::RejectReason reason, ByteView info,
                       ByteView private_data) {
  return with_agent(
      [&](Agent& agent, Time now) { return agent.reject(now, id, reason, info, private_data); });
}

bool CmService::establish(CommId id) {
  return with_agent([&](Agent& agent, Time now) { return agent.establish(now, id); });
}

bool CmService::disconnect(CommId id, ByteView private_data) {
  return with_agent(
      [&](Agent& agent, Time now) { return agent.disconnect(now, id, private_data); });
}

CommId CmService::resolve(const ib::cm::Route& route, const ib::cm::SidrReq& req,
                          Duration answer_time, std::uint8_t retries_max, std::uintptr_t cookie) {
  return with_agent([&](Agent& agent, Time now) {
    return agent.resolve(now, route, req, answer_time, retries_max, cookie);
  });
}

bool CmService::answer(CommId id, const ib::cm::SidrRep& rep) {
  return with_agent([&](Agent& agent, Time now) { return agent.answer(now, id, rep); });
}

void CmService::destroy(CommId id) {
  with_agent([&](Agent& agent, Time now) { agent.destroy(now, id); });
}

}  // namespace verbena::ports
