"""Debian's perftest, unmodified, between two processes: SEND, WRITE and READ, bandwidth and
latency, with the options that people use. The values are checked for being possible, not for being
good: speed is the benchmarks' business."""

from __future__ import annotations

import pytest

from hosts import Host, Pair
from perftest_table import ALL_SIZES, check_bandwidth, check_latency, header_of

BANDWIDTH_TOOLS = ["ib_send_bw", "ib_write_bw", "ib_read_bw"]
LATENCY_TOOLS = ["ib_send_lat", "ib_write_lat", "ib_read_lat"]
# The tools that know -e: a WRITE leaves no completion on the other side to sleep for.
TOOLS_WITH_EVENTS = ["ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat"]

DEFAULT_BANDWIDTH_BYTES = 65536
DEFAULT_LATENCY_BYTES = 2
# With 24 sizes up to 8 MiB each iteration moves 16 MiB.
ITERATIONS_OF_ALL_SIZES = 50
# ib_write_lat waits by looking at its memory, and never sleeps: if both ends share one processor,
# each of its iterations takes as long as the scheduler lets a program run, 40 ms on a busy machine.
LIMIT_S = 1800.0


def run(host: Host, tool: str, *arguments: str, **how) -> Pair:
    """-F: no complaint about this machine's CPU frequency."""
    return host.pair(tool, "-F", *arguments, timeout_s=LIMIT_S, **how)


def check(tool: str, output: str, sizes: list[int], iterations: int):
    if tool.endswith("_lat"):
        return check_latency(output, sizes, iterations)
    return check_bandwidth(output, sizes, iterations)


def default_sizes(tool: str) -> list[int]:
    return [DEFAULT_LATENCY_BYTES if tool.endswith("_lat") else DEFAULT_BANDWIDTH_BYTES]


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS + LATENCY_TOOLS)
def test_all_sizes(host, tool):
    """-a: every power of two from 2 bytes to 8 MiB."""
    pair = run(host, tool, "-a", "-n", str(ITERATIONS_OF_ALL_SIZES))
    check(tool, pair.client.out, ALL_SIZES, ITERATIONS_OF_ALL_SIZES)


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS + LATENCY_TOOLS)
def test_twenty_thousand_iterations(host, tool):
    pair = run(host, tool, "-n", "20000")
    check(tool, pair.client.out, default_sizes(tool), 20_000)


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS)
def test_both_directions(host, tool):
    """-b: both sides send, and both print the result."""
    pair = run(host, tool, "-b", "-n", "2000")
    for program in pair:
        check_bandwidth(program.out, [DEFAULT_BANDWIDTH_BYTES], 2000)


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS)
def test_both_directions_with_all_sizes(host, tool):
    pair = run(host, tool, "-b", "-a", "-n", str(ITERATIONS_OF_ALL_SIZES))
    check_bandwidth(pair.client.out, ALL_SIZES, ITERATIONS_OF_ALL_SIZES)


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS)
def test_eight_queue_pairs(host, tool):
    """-q 8: the table counts the messages of all queue pairs."""
    pair = run(host, tool, "-q", "8", "-n", "1000")
    check_bandwidth(pair.client.out, [DEFAULT_BANDWIDTH_BYTES], 8 * 1000)


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS)
def test_eight_queue_pairs_in_both_directions(host, tool):
    pair = run(host, tool, "-q", "8", "-b", "-n", "1000")
    check_bandwidth(pair.client.out, [DEFAULT_BANDWIDTH_BYTES], 8 * 1000)


@pytest.mark.parametrize("tool", TOOLS_WITH_EVENTS)
def test_sleeping_for_completions(host, tool):
    """-e: both sides sleep until a completion wakes them."""
    pair = run(host, tool, "-e", "-n", "2000")
    check(tool, pair.client.out, default_sizes(tool), 2000)


@pytest.mark.parametrize("tool", TOOLS_WITH_EVENTS)
def test_sleeping_for_completions_of_all_sizes(host, tool):
    pair = run(host, tool, "-e", "-a", "-n", str(ITERATIONS_OF_ALL_SIZES))
    check(tool, pair.client.out, ALL_SIZES, ITERATIONS_OF_ALL_SIZES)


@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS)
def test_results_in_gigabits(host, tool):
    pair = run(host, tool, "--report_gbits", "-n", "1000")
    check_bandwidth(pair.client.out, [DEFAULT_BANDWIDTH_BYTES], 1000)
    assert "BW average[Gb/sec]" in header_of(pair.client.out), pair.report()


@pytest.mark.parametrize("mtu", [256, 512, 1024, 2048, 4096])
@pytest.mark.parametrize("tool", BANDWIDTH_TOOLS)
def test_every_path_mtu(host, tool, mtu):
    pair = run(host, tool, "-m", str(mtu), "-n", "500")
    check_bandwidth(pair.client.out, [DEFAULT_BANDWIDTH_BYTES], 500)
    assert f"Mtu             : {mtu}[B]" in pair.client.out, pair.report()


@pytest.mark.parametrize("tool", ["ib_send_lat", "ib_write_lat"])
def test_inline_data(host, tool):
    """-I: the payload is copied when it is posted."""
    pair = run(host, tool, "-I", "200", "-s", "200", "-n", "1000")
    check_latency(pair.client.out, [200], 1000)


def test_many_pairs_share_a_fabric(host):
    """Eight transfers at the same time, each between processes of its own."""
    tools = ["ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat"] * 2
    pairs = [(tool, host.start_pair(tool, "-F", "-n", "500")) for tool in tools]
    for tool, pair in pairs:
        host.wait_for_both(pair)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
        check(tool, pair.client.out, default_sizes(tool), 500)
