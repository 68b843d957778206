"""Programs that die, stop, multiply or disturb themselves: their peers notice in bounded time, and
nothing of them stays behind. The programs are small ones of our own (programs/): Debian's have no
option for short timeouts, for example."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import time

import pytest

import hosts
from hosts import Host, Pair
from program import POLL_INTERVAL_S, Program
from programs import compiled

SEED = 20250601
RETRY_EXC_ERR = 12
PEER_GONE = 3
STATUS_BASE = 10
# Timeout 10 is 4 ms, but ACK timers have a floor of 50 ms: a peer is given up after 0.4 s. On a
# busy machine it may take longer.
QUICK = ["timeout=10", "retry=7"]
# A peer that isn't scheduled for seconds isn't given up: 4.096 us * 2^20 is 4.3 s.
PATIENT = ["timeout=20", "retry=7"]


def start_peers(host: Host, *arguments: str, listener=(), connector=(), **how) -> Pair:
    """Both ends of an rc_peer connection. The connector waits for its peer to listen."""
    port = host.free_port()
    program = compiled("rc_peer")
    server = host.start(program, "listen", str(port), *arguments, *listener, **how)
    host.wait_for_listener(server, port)
    client = host.start(program, "connect", str(port), *arguments, *connector, **how)
    return Pair(server, client)


def run_peers(host: Host, *arguments: str, **how) -> Pair:
    pair = start_peers(host, *arguments, **how)
    host.wait_for_both(pair)
    assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
    return pair


# --- What a process leaves


class Keeper:
    """A program that stays in the fabric all the time, so that nothing is hidden by the last one
    tidying up; at the end only it is there."""

    def __init__(self, host: Host):
        self.host = host
        self.program = host.start("ibv_asyncwatch")
        self.program.wait_for_output("async event FD")
        self.files = host.files()

    def members(self) -> list[int]:
        listed = self.host.verbena_command("devices", "--json").succeed()
        return [member["pid"] for member in json.loads(listed.out)[0]["members"]]

    def locks(self) -> int:
        """Locks on the fabric's file, of whomever (proc_locks(5))."""
        status = self.host.fabric.stat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        table = pathlib.Path("/proc/locks").read_text()
        return table.count(f" {device}:{status.st_ino} ")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.program.pid}/fd"))

    def assert_alone(self, descriptors: int) -> None:
        # Who joins clears what the dead left.
        self.host.run("ibv_devinfo").succeed()
        assert self.host.files() == self.files
        assert self.members() == [self.program.pid]
        assert self.locks() == 1
        assert self.descriptors() == descriptors

    def end(self) -> None:
        self.program.send_signal(signal.SIGTERM)
        self.program.wait()


def open_files(program: Program) -> list[str]:
    """What its descriptors stand for. It may close some meanwhile."""
    found = []
    for path in pathlib.Path(f"/proc/{program.pid}/fd").iterdir():
        try:
            found.append(os.readlink(path))
        except FileNotFoundError:
            continue
    return found


def give_up_status(survivor: Program) -> int:
    return survivor.wait().status


def wait_for_connection(pair: Pair) -> None:
    for program in pair:
        program.wait_for_output("connected")


def stop_waiting(server: Program) -> None:
    """A server whose client died before it called waits for ever: calls and hangs up."""
    port = int(server.command[server.command.index("listen") + 1])
    with socket.socket() as caller:
        caller.connect_ex((hosts.LOOPBACK, port))


def kill_at(pairs: list[tuple[Pair, Program, float | None]], chance: random.Random) -> None:
    """Kills the victim of each pair at its moment, or if it has none, in the midst of the
    transfer."""
    early = [(at, victim) for _, victim, at in pairs if at is not None]
    for moment, victim in sorted(early, key=lambda entry: entry[0]):
        time.sleep(max(0.0, moment - time.monotonic()))
        victim.kill()
    for pair, victim, at in pairs:
        if at is None:
            wait_for_connection(pair)
            time.sleep(chance.random() * 0.05)
            victim.kill()


def test_200_peers_killed_at_random_moments(host):
    """From before the connection is made to the midst of the transfer, either side alternately. The
    survivor fails with RETRY_EXC_ERR, or finds that nobody is there; the next pair works."""
    cycles, at_once = 200, 4
    chance = random.Random(SEED)
    keeper = Keeper(host)
    descriptors = keeper.descriptors()
    given_up = RETRY_EXC_ERR + STATUS_BASE
    in_the_midst = 0
    ends = {given_up: 0, PEER_GONE: 0}
    for first in range(0, cycles, at_once):
        doomed = []
        for cycle in range(first, first + at_once):
            pair = start_peers(host, "count=0", "bytes=20000", *QUICK)
            # Starting takes some tens of milliseconds: half of them die before or while they
            # connect.
            early = time.monotonic() + chance.random() * 0.1
            doomed.append((pair, pair[cycle % 2], early if chance.random() < 0.5 else None))
        kill_at(doomed, chance)
        in_the_midst += sum(moment is None for _, _, moment in doomed)
        for pair, victim, _ in doomed:
            survivor = pair.client if victim is pair.server else pair.server
            stop_waiting(pair.server)
            status = give_up_status(survivor)
            assert status in ends, pair.report()
            ends[status] += 1
        run_peers(host, "count=20", *PATIENT)
    assert ends[given_up] >= in_the_midst > cycles // 4, ends
    keeper.assert_alone(descriptors)
    keeper.end()


# --- Stopped


def test_a_peer_that_is_stopped_for_30_seconds(host):
    """As with a debugger. Where timeouts are finite, it costs its partner what a dead host costs,
    and finds the connection dead when it goes on. Without a timeout, both go on as if nothing had
    been."""
    stop_s = 30.0
    finite = start_peers(host, "count=0", *QUICK)
    endless = start_peers(host, "count=0", "timeout=0")
    for pair in (finite, endless):
        wait_for_connection(pair)
    stopped = (finite.server, endless.server)
    for program in stopped:
        hosts.stop(program)
    started = time.monotonic()
    assert give_up_status(finite.client) == RETRY_EXC_ERR + STATUS_BASE, finite.report()
    time.sleep(max(0.0, started + stop_s - time.monotonic()))
    assert endless.client.is_running(), endless.report()
    for program in stopped:
        program.send_signal(signal.SIGCONT)
    assert give_up_status(finite.server) == RETRY_EXC_ERR + STATUS_BASE, finite.report()
    for program in endless:
        program.send_signal(signal.SIGUSR1)
    host.wait_for_both(endless)
    assert (endless.server.status, endless.client.status) == (0, 0), endless.report()


# --- Many


def test_64_processes_in_one_fabric(host):
    """32 pairs at once. Every other one polls, the rest sleep for events."""
    pairs = [start_peers(host, "count=100", f"events={number % 2}", *PATIENT)
             for number in range(32)]
    for pair in pairs:
        host.wait_for_both(pair)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()


def test_10000_queue_pairs_in_one_process(host):
    """In less than 2 GiB of address space beyond what the program is."""
    program = host.run("sh", "-c", f"ulimit -v 2500000; exec {compiled('many_qps')} 10000")
    program.succeed()
    assert "5000 of 10000 queue pairs wrote" in program.out, program.report()


# --- Programs that disturb themselves


@pytest.mark.parametrize("events", [0, 1], ids=["polling", "events"])
def test_a_storm_of_signals(host, events):
    """A handler without SA_RESTART every 200 us, on one side and then on the other."""
    storm = ["alarm_us=200"]
    run_peers(host, "count=2000", f"events={events}", *PATIENT, listener=storm)
    run_peers(host, "count=2000", f"events={events}", *PATIENT, connector=storm)


@pytest.mark.parametrize("events", [0, 1], ids=["polling", "events"])
def test_forks_in_the_midst_of_a_transfer(host, events):
    """Children that leave through exit() or exec() take nothing along."""
    run_peers(host, "count=300", f"events={events}", "forks=40", *PATIENT)


def test_all_descriptors_closed_in_the_midst(host):
    """As daemons do, with close_range(): the NIC makes new ones where it needs some. The other side
    first sleeps and then polls, so that doorbells are needed."""
    closing = ["close_fds=1"]
    for events in (0, 1):
        run_peers(host, "count=500", *PATIENT, listener=closing, connector=[f"events={events}"])


def test_a_device_that_is_open_when_another_program_is_executed(host):
    """exec() ends the old program: its slot is free at once, and no descriptor goes along."""
    keeper = Keeper(host)
    descriptors = keeper.descriptors()
    program = host.start(compiled("rc_peer"), "listen", "1", "exec=sleep")
    program.wait_until(
        lambda: pathlib.Path(f"/proc/{program.pid}/comm").read_text().strip() == "sleep",
        "becoming sleep")
    left = [name for name in open_files(program) if "verbena" in name or "socket" in name]
    assert left == []
    keeper.assert_alone(descriptors)
    keeper.end()
    program.kill()


def test_a_library_that_is_unloaded_and_loaded_again(host):
    program = host.run(compiled("reload")).succeed()
    assert "unloaded" in program.out, program.report()


# --- Idle


def context_switches(program: Program) -> int:
    """Of all its threads, voluntary ones: each is a sleep that ended."""
    total = 0
    for status in pathlib.Path(f"/proc/{program.pid}/task").glob("*/status"):
        total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(),
                               re.MULTILINE).group(1))
    return total


def assert_sleeps(program: Program) -> None:
    """Once it has come to rest, when it has published what it did last, it doesn't wake at all: no
    timer, no polling."""

    def does_nothing_for_a_second() -> bool:
        before, ticks = context_switches(program), program.cpu_ticks()
        time.sleep(1.0)
        return (context_switches(program), program.cpu_ticks()) == (before, ticks)

    program.wait_until(does_nothing_for_a_second, "rest")


def test_an_idle_device_never_wakes(host):
    program = host.start("ibv_asyncwatch")
    program.wait_for_output("async event FD")
    assert_sleeps(program)


def test_a_target_that_sleeps_serves_writes_and_then_sleeps_again(host):
    """The program on the passive side sleeps in recv() from beginning to end."""
    pair = start_peers(host, "count=2000", *PATIENT, listener=["passive=1"])
    pair.server.wait_for_output("connected")
    host.wait_for_both(pair)
    assert (pair.server.status, pair.client.status) == (0, 0), pair.report()


def test_a_connected_target_with_nothing_to_do_never_wakes(host):
    pair = start_peers(host, "count=0", *PATIENT, listener=["passive=1"])
    pair.client.wait_for_output("connected")
    hosts.stop(pair.client)
    assert_sleeps(pair.server)
