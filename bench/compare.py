#!/usr/bin/python3
"""How fast Verbena is beside what else moves bytes on this machine, as ratios from one run.

Unmodified perftest runs through the host fabric, by iWARP through the kernel's TCP, and between two
network namespaces through UDP.
Beside it: memcpy, TCP on loopback (iperf3), UCX over TCP and over shared memory (ucx_perftest), and
bare UDP in batches (bench/reference). On a shared machine a figure alone says little, so all
contenders take turns, round after round, and what is compared are the medians.

What can't run here is left out, and said: namespaces need root, tools may be missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The tests know how to start programs in pairs, and how to lay a cable between two namespaces.
sys.path.insert(0, str(ROOT / "tests" / "blackbox"))

import hosts  # noqa: E402
import network  # noqa: E402
import perftest_table  # noqa: E402

MESSAGE_BYTES = 65536
LATENCY_BYTES = 2
# RoCE with 4096 bytes in a packet, and what bare UDP sends to be comparable: BTH, RETH and ICRC on
# top.
CABLE_MTU = 9000
SEGMENT_BYTES = 4096 + 12 + 16 + 4
TIMEOUT_S = 120.0
# perftest measures how fast its clock runs, and prints zeros if the machine is so busy that it
# can't.
MEASUREMENTS_MAX = 20


class Effort(NamedTuple):
    rounds: int
    bandwidth_iterations: int
    latency_iterations: int
    seconds: float


FULL = Effort(rounds=5, bandwidth_iterations=20_000, latency_iterations=50_000, seconds=1.0)
QUICK = Effort(rounds=1, bandwidth_iterations=1_000, latency_iterations=2_000, seconds=0.2)


class Contender(NamedTuple):
    name: str
    group: str
    unit: str
    measure: Callable[[], float]


class Target(NamedTuple):
    """What the issues 3 and 7 ask for: a figure, or a figure in relation to another."""

    name: str
    beside: str | None
    bound: float
    at_most: bool = False


BANDWIDTH = f"{MESSAGE_BYTES // 1024} KiB messages, one way"
LATENCY = f"{LATENCY_BYTES} bytes, half of a round trip (READ: all of it), median"
UDP_BANDWIDTH = f"{MESSAGE_BYTES // 1024} KiB messages between two namespaces, MTU {CABLE_MTU}"
UDP_LATENCY = f"{LATENCY_BYTES} bytes between two namespaces"

TARGETS = [
    Target("fabric: ib_write_bw", None, 3.0),
    Target("fabric: ib_write_bw", "UCX over TCP: tag_bw", 1.2),
    Target("fabric: ib_write_lat", None, 2.0, at_most=True),
    # Issue 7: with CRC, and without.
    Target("iWARP: ib_write_bw", "TCP on loopback: iperf3", 0.7),
    Target("iWARP, no CRC: ib_write_bw", "TCP on loopback: iperf3", 0.85),
    Target("UDP: ib_write_bw", "bare UDP, GSO and GRO", 0.5),
]


# --- perftest


def perftest(pair_of: Callable[..., hosts.Pair], tool: str, effort: Effort) -> float:
    """GB/s, or microseconds."""
    if tool.endswith("_bw"):
        for _ in range(MEASUREMENTS_MAX):
            pair = pair_of(tool, "-F", "-s", str(MESSAGE_BYTES), "-n",
                           str(effort.bandwidth_iterations), timeout_s=TIMEOUT_S)
            row = perftest_table.rows_of(pair.client.out, perftest_table.Bandwidth)[0]
            if row.messages_per_us > 0:
                return row.messages_per_us * MESSAGE_BYTES / 1e3
        sys.exit(f"{tool} couldn't tell how fast its clock runs, {MEASUREMENTS_MAX} times: this "
                 "machine is too busy to measure anything")
    pair = pair_of(tool, "-F", "-s", str(LATENCY_BYTES), "-n", str(effort.latency_iterations),
                   timeout_s=TIMEOUT_S)
    return perftest_table.rows_of(pair.client.out, perftest_table.Latency)[0].typical_us


def perftest_contenders(way: str, pair_of, groups, effort: Effort) -> Iterator[Contender]:
    bandwidth, latency = groups
    for tool in ("ib_write_bw", "ib_read_bw"):
        yield Contender(f"{way}: {tool}", bandwidth, "GB/s",
                        lambda tool=tool: perftest(pair_of, tool, effort))
    for tool in ("ib_write_lat", "ib_send_lat", "ib_read_lat"):
        yield Contender(f"{way}: {tool}", latency, "us",
                        lambda tool=tool: perftest(pair_of, tool, effort))


def iwarp_contenders(host: hosts.Host, effort: Effort) -> Iterator[Contender]:
    """Connections are made by rdma_cm (-R): there is no other way."""
    for way, options in (("iWARP", []), ("iWARP, no CRC", ["--mpa-crc", "off"])):
        def pair_of(tool: str, *arguments: str, options=("--transport", "iwarp", *options), **how):
            return host.pair(tool, "-R", *arguments, options=list(options), **how)

        yield Contender(f"{way}: ib_write_bw", BANDWIDTH, "GB/s",
                        lambda pair_of=pair_of: perftest(pair_of, "ib_write_bw", effort))
        yield Contender(f"{way}: ib_write_lat", LATENCY, "us",
                        lambda pair_of=pair_of: perftest(pair_of, "ib_write_lat", effort))


# --- The others


def memcpy(host: hosts.Host, reference: pathlib.Path, effort: Effort) -> float:
    done = host.run_bare(str(reference), "memcpy", str(MESSAGE_BYTES), str(effort.seconds))
    assert done.status == 0, done.report()
    return float(done.out) / 1e9


def iperf3(host: hosts.Host, effort: Effort) -> float:
    port = host.free_port()
    server = host.start_bare("iperf3", "-s", "-1", "-p", str(port))
    host.wait_for_listener(server, port)
    client = host.run_bare("iperf3", "-c", hosts.LOOPBACK, "-p", str(port), "-J", "-l",
                           str(MESSAGE_BYTES), "-t", str(max(1, round(effort.seconds))),
                           timeout_s=TIMEOUT_S)
    assert client.status == 0, client.report()
    server.wait(TIMEOUT_S)
    return json.loads(client.out)["end"]["sum_received"]["bits_per_second"] / 8e9


def ucx(host: hosts.Host, transports: str, test: str, effort: Effort) -> float:
    """GB/s or microseconds, by ucx_perftest's line of comma-separated values (-f -v): iterations,
    then median, average and overall time in microseconds, then bandwidth in MiB/s."""
    port = host.free_port()
    variables = {"UCX_TLS": transports, "UCX_NET_DEVICES": "lo", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if "tcp" not in transports:
        del variables["UCX_NET_DEVICES"]
    bandwidth = test.endswith("_bw")
    size, count = ((MESSAGE_BYTES, effort.bandwidth_iterations) if bandwidth else
                   (LATENCY_BYTES, effort.latency_iterations))
    server = host.start_bare("ucx_perftest", "-p", str(port), variables=variables)
    host.wait_for_listener(server, port)
    client = host.run_bare("ucx_perftest", hosts.LOOPBACK, "-p", str(port), "-t", test, "-s",
                           str(size), "-n", str(count), "-w", str(count // 10), "-f", "-v",
                           variables=variables, timeout_s=TIMEOUT_S)
    assert client.status == 0, client.report()
    server.wait(TIMEOUT_S)
    cells = client.out.strip().splitlines()[-1].split(",")
    return float(cells[5]) * 2**20 / 1e9 if bandwidth else float(cells[1])


def bare_udp(cable: network.Cable, reference: pathlib.Path, effort: Effort) -> float:
    """What arrives; the sender doesn't wait for the receiver."""
    port = str(cable.a.free_port())
    address = network.ADDRESSES[0]
    receiver = cable.a.start_bare(str(reference), "udp-receive", address, port)
    receiver.wait_for_output("ready")
    sender = cable.b.run_bare(str(reference), "udp-send", address, port, str(SEGMENT_BYTES),
                              str(effort.seconds))
    assert sender.status == 0, sender.report()
    receiver.wait(TIMEOUT_S)
    return float(receiver.out.splitlines()[-1]) / 1e9


# --- Who takes part


class Left(NamedTuple):
    """What is left out, and why."""

    what: str
    why: str


def missing(*programs: str) -> str | None:
    absent = [program for program in programs if not shutil.which(program)]
    return f"{', '.join(absent)} not found" if absent else None


def local_contenders(host: hosts.Host, reference: pathlib.Path, effort: Effort,
                     left: list[Left]) -> Iterator[Contender]:
    yield from perftest_contenders("fabric", host.pair, (BANDWIDTH, LATENCY), effort)
    yield from iwarp_contenders(host, effort)
    yield Contender("memcpy", BANDWIDTH, "GB/s", lambda: memcpy(host, reference, effort))
    if why := missing("iperf3"):
        left.append(Left("TCP on loopback", why))
    else:
        yield Contender("TCP on loopback: iperf3", BANDWIDTH, "GB/s", lambda: iperf3(host, effort))
    if why := missing("ucx_perftest"):
        left.append(Left("UCX", why))
        return
    for way, transports in (("UCX over TCP", "tcp,self"), ("UCX over shared memory",
                                                           "posix,sysv,self")):
        for test, group, unit in (("tag_bw", BANDWIDTH, "GB/s"), ("ucp_put_bw", BANDWIDTH, "GB/s"),
                                  ("tag_lat", LATENCY, "us"), ("ucp_put_lat", LATENCY, "us")):
            yield Contender(f"{way}: {test.removeprefix('ucp_')}", group, unit,
                            lambda transports=transports, test=test: ucx(host, transports, test,
                                                                         effort))


def udp_contenders(cable: network.Cable, reference: pathlib.Path,
                   effort: Effort) -> Iterator[Contender]:
    yield from perftest_contenders("UDP", cable.pair, (UDP_BANDWIDTH, UDP_LATENCY), effort)
    yield Contender("bare UDP, GSO and GRO", UDP_BANDWIDTH, "GB/s",
                    lambda: bare_udp(cable, reference, effort))


def lay_cable(directory: pathlib.Path, left: list[Left]) -> network.Cable | None:
    what = "everything over UDP"
    if os.geteuid() != 0:
        left.append(Left(what, "network namespaces need root"))
    elif why := missing("ip", "setpriv"):
        left.append(Left(what, why))
    else:
        try:
            return network.Cable(directory, mtu=CABLE_MTU, cuts=False)
        except AssertionError as error:
            left.append(Left(what, str(error).splitlines()[-1]))
    return None


# --- Measuring and reporting


def measure(contenders: list[Contender], rounds: int) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(1, rounds + 1):
        for contender in contenders:
            value = contender.measure()
            values[contender.name].append(value)
            print(f"round {number} of {rounds}: {contender.name}: {value:.3g} {contender.unit}",
                  file=sys.stderr, flush=True)
    return values


def table(contenders: list[Contender], medians: dict[str, float]) -> Iterator[str]:
    """For each group, the figures and what they are in relation to its first, Verbena's WRITE."""
    for group in dict.fromkeys(contender.group for contender in contenders):
        members = [contender for contender in contenders if contender.group == group]
        first = medians[members[0].name]
        yield f"\n{group}"
        for contender in members:
            median = medians[contender.name]
            ratio = f"{median / first:6.2f} x {members[0].name}" if contender != members[0] else ""
            yield f"  {contender.name:36} {median:8.3g} {contender.unit:4} {ratio}".rstrip()


def verdicts(medians: dict[str, float]) -> Iterator[dict]:
    for target in TARGETS:
        if target.name not in medians or (target.beside and target.beside not in medians):
            continue
        value = medians[target.name] / (medians[target.beside] if target.beside else 1.0)
        met = value <= target.bound if target.at_most else value >= target.bound
        yield target._asdict() | {"value": value, "met": met}


def target_lines(medians: dict[str, float], units: dict[str, str]) -> Iterator[str]:
    yield "\nTargets"
    for verdict in verdicts(medians):
        unit = f"x {verdict['beside']}" if verdict["beside"] else units[verdict["name"]]
        bound = f"{'at most' if verdict['at_most'] else 'at least'} {verdict['bound']:g}"
        result = "met" if verdict["met"] else "MISSED"
        yield f"  {result:6}  {verdict['name']}: {verdict['value']:.3g} {unit} ({bound})"


def report(contenders: list[Contender], values: dict[str, list[float]], left: list[Left],
           as_json: bool) -> str:
    medians = {name: statistics.median(taken) for name, taken in values.items()}
    if as_json:
        rows = [{"name": contender.name, "group": contender.group, "unit": contender.unit,
                 "median": medians[contender.name], "values": values[contender.name]}
                for contender in contenders]
        return json.dumps({"rows": rows, "targets": list(verdicts(medians)),
                           "left_out": [entry._asdict() for entry in left]}, indent=2)
    units = {contender.name: contender.unit for contender in contenders}
    lines = [*table(contenders, medians), *target_lines(medians, units)]
    lines += [f"\nLeft out: {entry.what}, because {entry.why}" for entry in left]
    return "\n".join(lines).lstrip("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true",
                        help="one short round: shows that it works, not how fast it is")
    parser.add_argument("--rounds", type=int, help="how often everybody has a turn")
    parser.add_argument("--only", metavar="TEXT", default="",
                        help="only those with TEXT in their name")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--reference", type=pathlib.Path, required=True,
                        help="the program that ./dev bench builds from bench/reference/")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    left: list[Left] = []

    with contextlib.ExitStack() as at_end:
        directory = at_end.enter_context(tempfile.TemporaryDirectory(prefix="verbena-bench-"))
        logs = pathlib.Path(directory)
        # Whoever plays a host runs as an ordinary user, and must find the program and the logs.
        logs.chmod(0o711)
        reference = pathlib.Path(shutil.copy(options.reference, logs / "reference"))
        host = hosts.Host(logs)
        at_end.callback(host.close)
        contenders = list(local_contenders(host, reference, effort, left))
        if cable := lay_cable(logs, left):
            at_end.callback(cable.close)
            contenders += udp_contenders(cable, reference, effort)
        contenders = [contender for contender in contenders if options.only in contender.name]
        if not contenders:
            parser.error(f"nobody has {options.only!r} in their name")
        values = measure(contenders, options.rounds or effort.rounds)
    print(report(contenders, values, left, options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
