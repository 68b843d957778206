"""iWARP between two hosts: TCP connections of two kernels."""

from __future__ import annotations

import pytest

from network import INTERFACE, IPV6_ADDRESSES, Cable, run_as_root
from perftest_table import check_bandwidth
from rdmacm import connect


@pytest.fixture
def cable(tmp_path):
    the_cable = Cable(tmp_path)
    for station in (the_cable.a, the_cable.b):
        station.speak_iwarp()
    yield the_cable
    the_cable.close()


def link_local_address(station) -> str:
    # "3: rdma    inet6 fe80::1/64 scope link ..."
    shown = run_as_root(*station.inside, "ip", "-o", "-6", "address", "show", "dev", INTERFACE,
                        "scope", "link")
    return shown.split()[3].split("/")[0]


def rping(cable, address: str, bound: str, count: int = 20):
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", "-a", bound, "-p", port, "-C", str(count), "-v")
    connect(cable.b, server, "rping", "-c", "-a", address, "-p", port, "-C", str(count))
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == count, server.report()


def test_rping(cable):
    rping(cable, cable.a.address, cable.a.address)


def test_rping_by_ipv6(cable):
    rping(cable, IPV6_ADDRESSES[0], "::0")


@pytest.mark.parametrize("scope", ["", f"%{INTERFACE}"], ids=["no-scope", "scope"])
def test_a_link_local_address_means_the_link_of_the_device(cable, scope):
    """Many programs have no place for a scope."""
    rping(cable, link_local_address(cable.a) + scope, "::0")
    rping(cable, link_local_address(cable.a) + scope, link_local_address(cable.a) + scope)


def test_what_the_network_loses_tcp_sends_again(cable):
    cable.a.lose(100)
    cable.b.lose(100)
    port = str(cable.a.free_port())
    arguments = ["ib_write_bw", "-R", "-F", "-n", "100", "-s", "65536", "-p", port]
    server = cable.a.start(*arguments)
    cable.a.wait_for_listener(server, int(port))
    client = cable.b.start(*arguments, cable.a.address)
    client.succeed()
    server.succeed()
    check_bandwidth(client.out, [65536], 100)
