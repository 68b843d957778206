"""The ways to get the emulated NIC under a program: with the wrapper, with LD_LIBRARY_PATH alone,
as an ordinary user; and what a program costs that has a device open and nothing to do."""

from __future__ import annotations

import os
import shutil
import time

import pytest

import hosts
from perftest_table import check_bandwidth
from program import TIMEOUT_S

NOBODY = 65534
WINDOW_S = 2.0
SETTLED_S = 0.5
# In 2 seconds an idle program may use 1 %: 2 of 200 ticks.
TICKS_MAX_OF_IDLE = 2


def library_path() -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(hosts.LIBRARIES)}


def test_library_path_alone_is_enough(host):
    """No wrapper: the drop-in libraries and nothing else."""
    devices = host.run_bare("ibv_devices", variables=library_path()).succeed()
    assert "verbena0" in devices.out, devices.report()
    port = str(host.free_port())
    server = host.start_bare("ib_write_bw", "-F", "-p", port, variables=library_path())
    host.wait_for_listener(server, int(port))
    client = host.start_bare("ib_write_bw", "-F", "-p", port, hosts.LOOPBACK,
                             variables=library_path())
    host.wait_for_both(hosts.Pair(server, client))
    assert (server.status, client.status) == (0, 0), f"{server.report()}\n{client.report()}"
    check_bandwidth(client.out, [65536], 5000)


def test_with_and_without_the_wrapper_programs_meet(host):
    server, port = host.start_server("ibv_rc_pingpong", "-g", "0")
    client = host.start_bare("ibv_rc_pingpong", "-g", "0", "-p", str(port), hosts.LOOPBACK,
                             variables=library_path())
    host.wait_for_both(hosts.Pair(server, client))
    assert (server.status, client.status) == (0, 0), f"{server.report()}\n{client.report()}"


@pytest.fixture
def ordinary_host(host, tmp_path):
    """A host whose programs have no privileges. A checkout may be where only its owner can read, so
    what they run is a copy."""
    if os.geteuid() != 0:
        return host
    host.prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                   "--bounding-set=-all", "--no-new-privs"]
    os.chown(host.directory, NOBODY, NOBODY)
    copy = host.directory / "build"
    shutil.copytree(hosts.BUILD / "bin", copy / "bin", ignore=lambda _, names: [
        name for name in names if name != "verbena"])
    shutil.copytree(hosts.LIBRARIES, copy / "lib")
    host.verbena = copy / "bin" / "verbena"
    yield host
    shutil.rmtree(copy)


def test_no_privilege_is_needed(ordinary_host):
    """The user nobody, without a single capability."""
    me = ordinary_host.run("id", "-u").succeed()
    assert me.out.strip() != "0", me.report()
    ordinary_host.run("ibv_devinfo").succeed()
    ordinary_host.pair("ibv_rc_pingpong", "-g", "0", "-c")
    pair = ordinary_host.pair("ib_write_bw", "-F")
    check_bandwidth(pair.client.out, [65536], 5000)


def test_a_fabric_by_name_leaves_nothing_either(host):
    """By name, the fabric is beside the default one, in the user's directory of /dev/shm."""
    name = f"blackbox-{os.getpid()}"
    host.variables["VERBENA_FABRIC"] = name
    host.pair("ibv_rc_pingpong", "-g", "0")
    left = [path for path in os.listdir("/dev/shm/") if path == f"verbena-{os.geteuid()}"]
    for directory in left:
        names = os.listdir(f"/dev/shm/{directory}")
        assert not [found for found in names if found.startswith(name)], names


def ticks_in_window(program) -> int:
    """From when it has done what it had to do: it has used nothing for a while."""
    deadline = time.monotonic() + TIMEOUT_S
    before = None
    while (ticks := program.cpu_ticks()) != before:
        assert time.monotonic() < deadline, f"it goes on using the processor\n{program.report()}"
        before = ticks
        time.sleep(SETTLED_S)
    time.sleep(WINDOW_S)
    assert program.is_running(), program.report()
    return program.cpu_ticks() - before


def test_an_idle_program_uses_no_cpu(host):
    """ibv_asyncwatch opens the device and waits for events that never come."""
    program = host.start("ibv_asyncwatch")
    program.wait_for_output("async event FD")
    assert ticks_in_window(program) <= TICKS_MAX_OF_IDLE, program.report()


def test_a_program_that_waits_for_its_peer_uses_no_cpu(host):
    """In the middle of a transfer, with queue pairs and receives, but nothing to receive."""
    pair = host.start_endless("ib_send_bw", "-e")
    time.sleep(0.2)
    hosts.stop(pair.client)
    assert ticks_in_window(pair.server) <= TICKS_MAX_OF_IDLE, pair.report()
