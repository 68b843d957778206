"""Device profiles: what programs see of a device that imitates another, and that its limits hold.
The golden texts, devinfo_*.txt, are what ibv_devinfo prints; nic_model/profiles/ says where the
numbers come from."""

from __future__ import annotations

import errno
import pathlib

import pytest

from perftest_table import check_bandwidth, check_latency
from programs import compiled
from rdmacm import connect

GUID = "0200:00ff:fe12:3456"
PROFILES = ["cx5", "e810", "rxe", "siw", "minimal"]


def like(profile: str) -> list[str]:
    return ["--profile", profile]


@pytest.mark.parametrize("profile", PROFILES)
def test_devinfo_tells_what_is_imitated(host, profile):
    program = host.run("ibv_devinfo", "-v", options=[*like(profile), "--guid", GUID]).succeed()
    golden = pathlib.Path(__file__).with_name(f"devinfo_{profile}.txt")
    seen = program.out.expandtabs().splitlines()
    assert seen == golden.read_text(encoding="utf-8").splitlines(), program.report()


REFUSED = errno.EINVAL
ABSENT = errno.EOPNOTSUPP
# One more than the device says, for all devices.
OVER = {"send_wr", "recv_wr", "send_sge", "recv_sge", "inline", "cqe", "rd_atomic"}
# What every device must have.
GIVEN = {"rc"}
# What older or simpler devices don't have.
NEW = {"xrc", "xrcd", "dm", "on_demand", "timestamps", "moderation", "rate"}
# What over_limits.c asks for besides, and who has it not.
ABSENT_OF = {
    "verbena": set(),
    "cx5": {"rate"},
    "e810": {"uc", "srq", "mw", *NEW},
    "rxe": {*NEW},
    "siw": {"uc", "ud", "mw", *NEW},
    "minimal": {"srq", "mw", *NEW},
}
# Work requests that it refuses.
REFUSED_OF = {"e810": {"atomic"}, "siw": {"atomic", "read_sges"},
              "minimal": {"atomic", "read_sges"}}


def expected(profile: str, what: str) -> int:
    absent = ABSENT_OF[profile]
    if what in ("srq_wr", "srq_sge"):
        return ABSENT if "srq" in absent else REFUSED
    if what in absent:
        return ABSENT
    return REFUSED if what in OVER or what in REFUSED_OF.get(profile, ()) else 0


@pytest.mark.parametrize("profile", ["verbena", *PROFILES])
def test_a_program_that_asks_for_more_gets_the_error_of_a_driver(host, profile):
    program = host.run(compiled("over_limits"), options=like(profile)).succeed()
    told = {what: int(number) for what, number in map(str.split, program.out.splitlines())}
    assert OVER | GIVEN <= told.keys(), program.report()
    assert told == {what: expected(profile, what) for what in told}, program.report()


# Depths and inline data that the smallest device permits.
MODEST = ["-t", "16", "-r", "16", "-I", "0"]


# With depths, inline data and receives that the device permits: by default perftest asks for 236
# bytes of inline data when it measures latency, which not every device has.
WITHIN = [
    ("cx5", "ib_write_bw", []), ("e810", "ib_read_bw", []), ("rxe", "ib_send_bw", []),
    ("siw", "ib_write_bw", []), ("minimal", "ib_send_bw", ["-t", "16", "-r", "16", "-I", "0"]),
    ("minimal", "ib_read_bw", ["-t", "16"]),
]


@pytest.mark.parametrize("profile,tool,arguments", WITHIN)
def test_perftest_runs_within_the_limits(host, profile, tool, arguments):
    pair = host.pair(tool, "-F", "-n", "500", *arguments, options=like(profile))
    check_bandwidth(pair.client.out, [65536], 500)


@pytest.mark.parametrize("profile,arguments", [
    ("e810", ["-I", "96"]), ("minimal", ["-I", "0", "-r", "16"])])
def test_latency_within_the_limits(host, profile, arguments):
    pair = host.pair("ib_send_lat", "-F", "-n", "200", *arguments, options=like(profile))
    check_latency(pair.client.out, [2], 200)


def test_a_program_that_takes_more_for_granted_fails(host):
    """perftest's defaults on the smallest device, and atomics on one that has none."""
    for profile, tool in (("minimal", "ib_send_bw"), ("e810", "ib_atomic_bw"),
                          ("e810", "ib_send_lat")):
        pair = host.start_pair(tool, "-F", options=like(profile))
        host.wait_for_both(pair)
        assert 0 not in (pair.server.status, pair.client.status), pair.report()


def test_devices_of_different_profiles_meet(host):
    pair = host.pair("ib_write_bw", "-F", "-n", "500", server_how={"options": like("rxe")},
                     client_how={"options": like("cx5")})
    check_bandwidth(pair.client.out, [65536], 500)


@pytest.mark.parametrize("profile", PROFILES)
def test_connection_manager(host, profile):
    """QP1 is the device's own, however little it offers."""
    # With one queue pair and one region, for rping wants four.
    common = ["ucmatose", "-c", "1", "-C", "4", "-p", str(host.free_port())]
    server = host.start(*common, options=like(profile))
    client = connect(host, server, *common, "-s", "127.0.0.1", options=like(profile))
    server.succeed()
    assert "return status 0" in client.out, client.report()


def test_devices_lists_the_profile(host):
    program = host.verbena_command("devices", "--profile", "rxe").succeed()
    assert "profile    rxe" in program.out, program.report()


def test_an_unknown_profile_is_refused_with_the_known_ones(host):
    program = host.verbena_command("devices", "--profile", "mlx5")
    assert program.status == 2, program.report()
    assert "there is no profile \"mlx5\"; there are verbena, cx5, e810" in program.err


def test_a_file_gives_each_device_a_profile(host):
    config = host.logs / "devices.toml"
    config.write_text("""
        [[device]]
        name = "mlx5_0"
        profile = "cx5"
        [[device]]
        name = "irdma0"
        profile = "e810"
        """)
    program = host.run("ibv_devinfo", options=["--config", str(config)]).succeed()
    assert "vendor_part_id:\t\t\t4119" in program.out, program.report()
    assert "vendor_part_id:\t\t\t5522" in program.out, program.report()
