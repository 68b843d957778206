// Devices that are imitated: what they don't have is refused, and their limits hold.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "nic_model/device_profile.h"
#include "nic_model/gid_order.h"
#include "nic_model/rnic_profile.h"
#include "tests/support/pair.h"

namespace verbena::test {

namespace {

using nic::DeviceProfile;
using nic::NicError;

const DeviceProfile& profile_named(std::string_view name) {
  const DeviceProfile* const profile = nic::find_profile(name);
  REQUIRE(profile != nullptr);
  return *profile;
}

/// Sixteen of everything at most, so that every profile permits it.
HostOptions like(std::string_view name) { return {.cqe = 16, .profile = &profile_named(name)}; }

nic::QpInitAttr init(const Host& host, nic::QpType type) {
  return {.type = type, .send_cq = host.cq, .recv_cq = host.cq};
}

bool has_service(Host& host, nic::QpType type) {
  const auto qp = host.nic.create_qp(*host.pd, init(host, type));
  if (!qp) {
    CHECK(qp.error() == NicError::unsupported);
    return false;
  }
  REQUIRE(host.nic.destroy_qp(**qp));
  return true;
}

/// A pair of devices of this profile, with the connection that it permits.
struct Connected {
  explicit Connected(std::string_view name)
      : pair({.a = like(name), .b = like(name)}), qps(pair.connect(end(name), end(name))) {}

  static EndOptions end(std::string_view name) {
    const DeviceProfile& limits = profile_named(name);
    return {.caps = {.send_wr_max = 8,
                     .recv_wr_max = 8,
                     .send_sge_max = limits.sge_max,
                     .recv_sge_max = limits.sge_max},
            .max_rd_atomic = 1,
            .max_dest_rd_atomic = 1};
  }

  Result<void, PostError> post(const Work& work) { return pair.try_post(Side::a, *qps.a, work); }

  Pair pair;
  Connection qps;
};

}  // namespace

TEST_CASE("every profile has a name of its own, under which it is found") {
  std::set<std::string_view> names;
  for (const DeviceProfile* profile : nic::all_profiles()) {
    CHECK(names.insert(profile->name).second);
    CHECK(nic::find_profile(profile->name) == profile);
  }
  CHECK(nic::all_profiles().front() == &nic::default_profile());
  CHECK(nic::find_profile("mlx5") == nullptr);
}

TEST_CASE("a device has the services of the one it imitates") {
  const auto [name, uc, ud] = GENERATE(table<std::string, bool, bool>({{"verbena", true, true},
                                                                       {"cx5", true, true},
                                                                       {"e810", false, true},
                                                                       {"rxe", true, true},
                                                                       {"siw", false, false},
                                                                       {"minimal", true, true}}));
  INFO(name);
  Host host(1, like(name));
  CHECK(has_service(host, nic::QpType::rc));
  CHECK(has_service(host, nic::QpType::uc) == uc);
  CHECK(has_service(host, nic::QpType::ud) == ud);
}

TEST_CASE("XRC is where the device has it") {
  const auto [name, xrc] = GENERATE(table<std::string, bool>(
      {{"cx5", true}, {"e810", false}, {"rxe", false}, {"siw", false}, {"minimal", false}}));
  INFO(name);
  Host host(1, like(name));
  CHECK(host.nic.alloc_xrcd().has_value() == xrc);
  CHECK(has_service(host, nic::QpType::xrc_initiator) == xrc);
}

TEST_CASE("what a device has none of is unsupported, not used up") {
  Host host(1, like("minimal"));
  nic::Nic& nic = host.nic;
  CHECK(nic.create_srq(*host.pd, {.wr_max = 1, .sge_max = 1}).error() == NicError::unsupported);
  CHECK(nic.alloc_mw(*host.pd, nic::MwType::type_1).error() == NicError::unsupported);
  CHECK(nic.alloc_dm(64).error() == NicError::unsupported);
  CHECK(nic.moderate_cq(*host.cq, 1, Duration{0}).error() == NicError::unsupported);
  CHECK(nic.reg_mr(*host.pd, host.bytes().data(), 64, Va{0}, Access::on_demand).error() ==
        NicError::unsupported);
  Host without_datagrams(1, like("siw"));
  CHECK(without_datagrams.nic
            .create_ah(*without_datagrams.pd, {.dgid = without_datagrams.gid(), .has_grh = true})
            .error() == NicError::unsupported);
}

TEST_CASE("an atomic operation is refused where there are none, on either side") {
  Connected none("e810");
  const Work atomic = none.pair.a.fetch_add(1, 0, none.pair.b, 0, 1);
  CHECK(none.post(atomic).error() == PostError::opcode_unsupported);

  // A device that has them, towards one that hasn't, whose program permits them all the same.
  Pair pair({.b = like("e810")});
  const Connection qps = pair.connect({}, Connected::end("e810"));
  pair.post(Side::a, *qps.a, pair.a.fetch_add(1, 0, pair.b, 0, 1));
  pair.run_until_idle();
  CHECK(pair.a.completions() == std::vector<std::string>{"1 fetch_add rem_inv_req_err"});
}

TEST_CASE("ATOMIC WRITE and FLUSH are refused where they are too new") {
  Connected device("cx5");
  Work work = device.pair.a.write(1, {0, 8}, device.pair.b, 0);
  work.opcode = WrOpcode::atomic_write;
  CHECK(device.post(work).error() == PostError::opcode_unsupported);
  work.opcode = WrOpcode::flush;
  CHECK(device.post(work).error() == PostError::opcode_unsupported);
  Host& host = device.pair.a;
  CHECK(host.nic.reg_mr(*host.pd, host.bytes().data(), 64, Va{0}, Access::flush_global).error() ==
        NicError::unsupported);
  CHECK(device.post(device.pair.a.fetch_add(2, 0, device.pair.b, 0, 1)));
}

TEST_CASE("the SGEs of a READ have a limit of their own") {
  Connected device("siw");
  Work read = device.pair.a.read(1, {0, 8}, device.pair.b, 0);
  CHECK(device.post(read));
  read.pieces.push_back(device.pair.a.sge({8, 8}));
  CHECK(device.post(read).error() == PostError::too_many_sges);
  Work write = device.pair.a.write(1, {0, 8}, device.pair.b, 0);
  write.pieces.push_back(device.pair.a.sge({8, 8}));
  CHECK(device.post(write));
}

TEST_CASE("a message is no longer than the port takes") {
  const std::uint64_t most = profile_named("rxe").send_bytes_max;
  Pair pair({.a = {.memory_bytes = most + 1, .cqe = 16, .profile = &profile_named("rxe")},
             .b = {.memory_bytes = most + 1, .cqe = 16, .profile = &profile_named("rxe")}});
  const Connection qps = pair.connect(Connected::end("rxe"), Connected::end("rxe"));
  const auto length = static_cast<std::uint32_t>(most);
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.write(1, {0, length + 1}, pair.b, 0)).error() ==
        PostError::message_too_long);
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.write(2, {0, length}, pair.b, 0)));
}

TEST_CASE("the numbers of a profile are met exactly") {
  Host host(1, like("minimal"));
  const DeviceProfile& limits = host.nic.profile();
  nic::QpInitAttr attr = init(host, nic::QpType::rc);
  attr.caps = {.send_wr_max = limits.qp_wr_max,
               .recv_wr_max = limits.qp_wr_max,
               .send_sge_max = limits.sge_max,
               .recv_sge_max = limits.sge_max};
  attr.caps.inline_bytes_max = limits.inline_bytes_max + 1;
  CHECK(host.nic.create_qp(*host.pd, attr).error() == NicError::invalid_argument);
  attr.caps.inline_bytes_max = limits.inline_bytes_max;
  CHECK(host.nic.create_qp(*host.pd, attr));
  CHECK(host.nic.create_qp(*host.pd, attr).error() == NicError::limit_reached);
  CHECK(host.nic.create_cq(limits.cqe_max, 0));
  CHECK(host.nic.create_cq(limits.cqe_max + 1, 0).error() == NicError::invalid_argument);
}

TEST_CASE("the general services interface is the device's own, whatever it offers") {
  Host host(1, like("minimal"));
  nic::QpInitAttr attr = init(host, nic::QpType::gsi);
  attr.caps = {.send_wr_max = 256,
               .recv_wr_max = 1024,
               .send_sge_max = 1,
               .recv_sge_max = 1,
               .inline_bytes_max = 256};
  nic::Pd& own = *host.nic.alloc_pd().value();
  CHECK(host.nic.create_qp(own, attr));
  CHECK(host.nic.create_qp(*host.pd, init(host, nic::QpType::rc)));
  const nic::AddressVector av{.dgid = host.gid(), .has_grh = true};
  CHECK(host.nic.create_ah(*host.pd, av));
  CHECK(host.nic.create_ah(*host.pd, av).error() == NicError::limit_reached);
  CHECK(host.nic.create_ah(own, av));
}

TEST_CASE("regions and windows share the numbers of keys, however many a profile promises") {
  // cx5 promises 2^24 of each.
  Host host(1, like("cx5"));
  CHECK(host.nic.alloc_mw(*host.pd, nic::MwType::type_2));
}

TEST_CASE("a GID table of Linux has the link-local address first, and v1 before v2") {
  using Type = nic::GidEntry::Type;
  Host host(1);
  const auto& configured = host.nic.config().gids;
  const auto versions = [&](std::string_view name) {
    std::string text;
    for (const nic::GidEntry& row : nic::arranged(profile_named(name), configured)) {
      text += row.gid == host.gid() ? "4" : "6";
      text += row.type == Type::roce_v1 ? "a " : "b ";
    }
    return text;
  };
  CHECK(versions("verbena") == "4b 6b 4a 6a ");
  CHECK(versions("cx5") == "6a 6b 4a 4b ");
  CHECK(versions("e810") == "6b 4b ");
  CHECK(versions("minimal") == "4b ");
  CHECK(nic::arranged(profile_named("minimal"), {}).empty());
  const nic::GidEntry tagged{.gid = host.gid(), .type = Type::roce_v2, .vlan = 7};
  CHECK(nic::arranged(profile_named("cx5"), {tagged}).at(0).vlan == tagged.vlan);
  const std::vector<nic::GidEntry> only_v1{{.gid = host.gid(), .type = Type::roce_v1}};
  CHECK(nic::arranged(profile_named("rxe"), only_v1).size() == 1);
}

TEST_CASE("an iWARP device has what is left of a profile without InfiniBand's services") {
  for (const DeviceProfile* profile : nic::all_profiles()) {
    INFO(profile->name);
    const DeviceProfile rnic = nic::rnic_profile(*profile);
    CHECK(rnic.name == profile->name);
    CHECK_FALSE((rnic.has_uc || rnic.has_ud || rnic.has_xrc || rnic.has_placement_extensions));
    CHECK(rnic.atomic_cap == nic::AtomicCap::none);
    CHECK_FALSE(rnic.has_rdmap_extensions);
    CHECK(nic::rnic_profile(*profile, true).atomic_cap == nic::AtomicCap::hca);
    CHECK(nic::rnic_profile(*profile, true).has_rdmap_extensions);
    CHECK(rnic.ah_max == 0);
    CHECK(rnic.mcast_group_max == 0);
    CHECK(rnic.pkeys_max == 0);
    CHECK(rnic.gid_table_rows == 1);
    CHECK(rnic.sge_read_max == 1);
    CHECK(rnic.qp_rd_atom_max <= profile->qp_rd_atom_max);
    CHECK(rnic.qp_max == profile->qp_max);
    CHECK(rnic.mw_max == profile->mw_max);
  }
}

}  // namespace verbena::test
