"""Unreliable connections and datagrams: ibverbs-utils and perftest, unmodified,
between two processes."""

from __future__ import annotations

import re

import pytest

from hosts import Host, Pair
from perftest_table import check_bandwidth, check_latency

ITERATIONS = 500


def pingpong(host: Host, tool: str, *arguments: str, size: int) -> None:
    pair = host.pair(tool, "-g", "0", "-s", str(size), "-n", str(ITERATIONS), *arguments)
    for program in pair:
        assert f"{2 * size * ITERATIONS} bytes in " in program.out, pair.report()
        assert program.err == "", pair.report()


@pytest.mark.parametrize("way", [[], ["-e"]])
@pytest.mark.parametrize("size", [1, 1023, 2048, 4096])
def test_ud_pingpong(host, size, way):
    pingpong(host, "ibv_ud_pingpong", *way, size=size)


@pytest.mark.parametrize("way", [[], ["-e"]])
@pytest.mark.parametrize("size", [1, 4097, 65536])
def test_uc_pingpong(host, size, way):
    pingpong(host, "ibv_uc_pingpong", *way, size=size)


def run(host: Host, tool: str, *arguments: str) -> Pair:
    return host.pair(tool, "-F", "-n", str(ITERATIONS), *arguments)


@pytest.mark.parametrize("tool,service,size", [
    ("ib_send_bw", "UD", 4096), ("ib_send_bw", "UC", 65536), ("ib_write_bw", "UC", 65536)])
def test_bandwidth(host, tool, service, size):
    check_bandwidth(run(host, tool, "-c", service, "-s", str(size)).client.out, [size], ITERATIONS)


@pytest.mark.parametrize("tool,service", [
    ("ib_send_lat", "UD"), ("ib_send_lat", "UC"), ("ib_write_lat", "UC")])
def test_latency(host, tool, service):
    check_latency(run(host, tool, "-c", service, "-s", "64").client.out, [64], ITERATIONS)


def test_many_datagram_queue_pairs(host):
    pair = run(host, "ib_send_bw", "-c", "UD", "-q", "4")
    check_bandwidth(pair.client.out, [4096], 4 * ITERATIONS)


def test_datagrams_carry_no_acknowledgements(host, tmp_path):
    """Of packets to QPs of datagrams tshark knows all headers; none asks for an acknowledgement."""
    capture = tmp_path / "ud.pcapng"
    host.pair("ibv_ud_pingpong", "-g", "0", "-n", "5",
              client_how={"options": ["--capture", str(capture)]})
    fields = ["infiniband.bth.opcode", "infiniband.bth.a", "infiniband.deth.q_key"]
    shown = host.run_bare("tshark", "-r", str(capture), "-T", "fields",
                          *[word for field in fields for word in ("-e", field)]).succeed().out
    lines = shown.splitlines()
    assert len(lines) >= 10, shown
    assert all(re.match(r"100\t(0|False)\t", line) for line in lines), shown
