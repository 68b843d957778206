"""ibv_rc_pingpong, unmodified, between two processes: every size, path MTU and GID index, with
completions polled and with completions slept for, and the received data validated."""

from __future__ import annotations

import pytest

from hosts import Host, Pair

ITERATIONS = 100
WAYS = {"polling": [], "sleeping": ["-e"]}
KIB = 1024
# Around each power of two that means something: a word, the path MTU, a page, the largest.
SIZES = sorted({2**power for power in range(21)}
               | {3, 5, 4 * KIB - 1, 4 * KIB + 1, 12345, 100_000, KIB * KIB - 1})
PATH_MTUS = [256, 512, 1024, 2048, 4096]


def check(pair: Pair, size: int, iterations: int = ITERATIONS) -> None:
    """Both sides say that everything went both ways, and neither found wrong data."""
    for program in pair:
        assert f"{2 * size * iterations} bytes in " in program.out, pair.report()
        assert f"{iterations} iters in " in program.out, pair.report()
        assert "invalid data" not in program.out, pair.report()
        assert program.err == "", pair.report()


def pingpong(host: Host, *arguments: str, size: int, iterations: int = ITERATIONS, **how) -> Pair:
    pair = host.pair("ibv_rc_pingpong", "-c", "-s", str(size), "-n", str(iterations), *arguments,
                     **how)
    check(pair, size, iterations)
    return pair


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", SIZES)
def test_every_size_arrives(host, size, way):
    pingpong(host, "-g", "0", *WAYS[way], size=size)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mtu", PATH_MTUS)
def test_every_path_mtu(host, mtu, way):
    """Five packets and a bit, whatever the MTU."""
    pingpong(host, "-g", "0", "-m", str(mtu), *WAYS[way], size=5 * mtu + 7)


@pytest.mark.parametrize("mtu", PATH_MTUS)
def test_a_port_has_the_mtu_of_its_configuration(host, mtu):
    """The path MTU may be as large as the port's."""
    pingpong(host, "-g", "0", "-m", str(mtu), size=3 * mtu, options=["--mtu", str(mtu)])


ADDRESSES = ["127.0.0.1", "127.0.0.2", "127.1.2.3"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", range(len(ADDRESSES)))
def test_every_gid_index(host, index, way):
    """A GID table has one entry for each address, in the order of the configuration."""
    pair = pingpong(host, "-g", str(index), *WAYS[way], size=4096,
                    options=["--address", ",".join(ADDRESSES)])
    for program in pair:
        assert program.out.count(f"GID ::ffff:{ADDRESSES[index]}") == 2, pair.report()


GIDS = ["::ffff:127.0.0.1", "fe80::7fff:fe00:1"]


@pytest.mark.parametrize("tool", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
@pytest.mark.parametrize("index", range(2 * len(GIDS)))
def test_every_kind_of_gid(host, tool, index):
    """RoCE v2 over IPv4 and IPv6, then RoCE v1 with the same GIDs."""
    pair = host.pair(tool, "-g", str(index), "-n", "50")
    for program in pair:
        assert program.out.count(f"GID {GIDS[index % len(GIDS)]}") == 2, pair.report()
        assert "50 iters in " in program.out, pair.report()


def test_gid_indices_of_both_sides_may_differ(host):
    pair = pingpong(host, size=4096, options=["--address", ",".join(ADDRESSES)],
                    server_arguments=["-g", "2"], client_arguments=["-g", "1"])
    for address in ("127.1.2.3", "127.0.0.2"):
        assert pair.client.out.count(f"GID ::ffff:{address}") == 1, pair.report()


def test_many_exchanges_wrap_the_queues(host):
    """20,000 exchanges over 500 receives: every queue wraps, and receives are posted on the way."""
    pingpong(host, "-g", "0", size=64, iterations=20_000)


def test_few_receives(host):
    """A receive queue of one entry: every other message may find it empty and is sent again."""
    pingpong(host, "-g", "0", "-r", "1", size=4096)
