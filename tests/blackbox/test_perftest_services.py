"""perftest's twelve tools on every service that they know, with the ways to post and to wait that
people combine them with. What RC does with large tables is in test_perftest.py."""

from __future__ import annotations

import pytest

from perftest_table import check_bandwidth, check_latency

# A multiple of the 100 requests that perftest has one completion for. With a remainder it counts
# more completions than there are, and may stop to poll before every queue pair has sent all. And
# one of the lists of 16 requests.
ITERATIONS = 400
TWO_BYTES, ATOMIC_BYTES, DATAGRAM_BYTES, LARGE_BYTES = 2, 8, 1024, 65536


def size_of(tool: str, arguments: list[str]) -> int:
    if "-s" in arguments:
        return int(arguments[arguments.index("-s") + 1])
    if "atomic" in tool:
        return ATOMIC_BYTES
    return TWO_BYTES if tool.endswith("_lat") else LARGE_BYTES


def queue_pairs_of(arguments: list[str]) -> int:
    return int(arguments[arguments.index("-q") + 1]) if "-q" in arguments else 1


def check(host, tool: str, options: str) -> None:
    arguments = options.split()
    pair = host.pair(tool, "-F", "-n", str(ITERATIONS), *arguments)
    size = size_of(tool, arguments)
    if tool.endswith("_lat"):
        check_latency(pair.client.out, [size], ITERATIONS)
    else:
        check_bandwidth(pair.client.out, [size], ITERATIONS * queue_pairs_of(arguments))


# Every tool on every service that it has, but for what test_perftest.py (RC), test_unreliable.py
# and test_shared_queues.py run.
SERVICES = [
    ("ib_send_lat", "-c XRC"), ("ib_write_lat", "-c XRC"), ("ib_read_lat", "-c XRC"),
    ("ib_atomic_bw", "-c XRC"), ("ib_atomic_lat", "-c XRC"),
]


@pytest.mark.parametrize("tool,options", SERVICES)
def test_every_service(host, tool, options):
    check(host, tool, options)


INLINE = [
    ("ib_send_bw", "-I 200 -s 200"), ("ib_send_bw", "-c UC -I 200 -s 200"),
    ("ib_send_lat", "-c UD -I 100 -s 100"), ("ib_write_bw", "-I 200 -s 200"),
    ("ib_write_bw", "-c XRC -I 200 -s 200"),
]


@pytest.mark.parametrize("tool,options", INLINE)
def test_inline_data(host, tool, options):
    """-I: the payload is copied when it is posted."""
    check(host, tool, options)


SLEEPING = [
    ("ib_send_bw", "-c UC -e"), ("ib_send_bw", "-c UD -e -s 1024"), ("ib_send_bw", "-c XRC -e"),
    ("ib_read_bw", "-c XRC -e"), ("ib_atomic_lat", "-e"),
]


@pytest.mark.parametrize("tool,options", SLEEPING)
def test_sleeping_for_completions(host, tool, options):
    """-e: a completion wakes them."""
    check(host, tool, options)


MANY = [
    ("ib_send_bw", "-c UC -q 8"), ("ib_write_bw", "-c XRC -q 4"), ("ib_atomic_bw", "-q 8"),
    ("ib_send_bw", "-q 32 -s 4096"),
]


@pytest.mark.parametrize("tool,options", MANY)
def test_many_queue_pairs(host, tool, options):
    check(host, tool, options)


LISTS = [
    ("ib_send_bw", "-l 4 --recv_post_list=4"), ("ib_send_bw", "-c UC -l 8"),
    ("ib_send_bw", "-c UD -l 4 -s 1024"), ("ib_write_bw", "-l 16"), ("ib_read_bw", "-l 4"),
]


@pytest.mark.parametrize("tool,options", LISTS)
def test_lists_of_requests(host, tool, options):
    """-l: several requests with each call."""
    check(host, tool, options)


# perftest wants both ends' addresses of one kind, and takes its group's for IPv6.
MULTICAST = [("ib_send_bw", "-c UD -g -s 1024 -x 1"), ("ib_send_lat", "-c UD -g")]


@pytest.mark.parametrize("tool,options", MULTICAST)
def test_multicast(host, tool, options):
    """-g: to a group that the server's queue pair is attached to."""
    check(host, tool, options)


SHARED = [("ib_send_bw", "-c UD --use-srq -s 1024"), ("ib_send_lat", "--use-srq -e")]


@pytest.mark.parametrize("tool,options", SHARED)
def test_shared_receive_queue(host, tool, options):
    check(host, tool, options)


@pytest.mark.parametrize("tool", ["raw_ethernet_bw", "raw_ethernet_lat", "raw_ethernet_burst_lat",
                                  "raw_ethernet_fs_rate"])
def test_raw_packets_are_refused(host, tool):
    """The four tools for queue pairs of raw packets: they end with an error, without a hang."""
    program = host.run(tool, "-F", "--server", "-B", "02:00:7f:00:00:01", "-E",
                       "02:00:7f:00:00:02")
    assert program.status not in (0, None) and program.status > 0, program.report()
