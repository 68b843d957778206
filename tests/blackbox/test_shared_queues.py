"""Programs that share receive queues, XRC, and atomics: rdma-core's examples and perftest,
unmodified, between two processes."""

from __future__ import annotations

import pytest

from perftest_table import check_bandwidth, check_latency

ITERATIONS = 500


def check_pingpong(pair) -> None:
    for program in pair:
        assert f"{ITERATIONS} iters in " in program.out, pair.report()
        assert "invalid data" not in program.out, pair.report()
        assert program.err == "", pair.report()


@pytest.mark.parametrize("way", [[], ["-e"]], ids=["polling", "sleeping"])
def test_srq_pingpong(host, way):
    """Sixteen queue pairs take their requests from one queue."""
    check_pingpong(host.pair("ibv_srq_pingpong", "-g", "0", "-n", str(ITERATIONS), *way))


def test_xsrq_pingpong(host):
    """XRC: as many targets as the other side has initiators, one queue."""
    pair = host.pair("ibv_xsrq_pingpong", "-g", "0", "-n", str(ITERATIONS))
    for program in pair:
        assert program.out.endswith("\nsuccess\n"), pair.report()


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_send_lat"])
def test_perftest_with_a_shared_queue(host, tool):
    pair = host.pair(tool, "-F", "--use-srq", "-n", "1000")
    check = check_latency if tool.endswith("_lat") else check_bandwidth
    check(pair.client.out, [2 if tool.endswith("_lat") else 65536], 1000)


def test_perftest_with_a_shared_queue_and_many_queue_pairs(host):
    pair = host.pair("ib_send_bw", "-F", "--use-srq", "-q", "8", "-n", "1000")
    check_bandwidth(pair.client.out, [65536], 8 * 1000)


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_write_bw", "ib_read_bw"])
def test_perftest_over_xrc(host, tool):
    pair = host.pair(tool, "-F", "-c", "XRC", "-n", "1000")
    check_bandwidth(pair.client.out, [65536], 1000)


@pytest.mark.parametrize("kind", ["CMP_AND_SWAP", "FETCH_AND_ADD"])
@pytest.mark.parametrize("tool", ["ib_atomic_bw", "ib_atomic_lat"])
def test_perftest_atomics(host, tool, kind):
    pair = host.pair(tool, "-F", "-A", kind, "-n", "1000")
    check = check_latency if tool.endswith("_lat") else check_bandwidth
    check(pair.client.out, [8], 1000)
