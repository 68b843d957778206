"""RoCE v2 between two hosts, through ordinary UDP sockets of ordinary users: unmodified programs
over a veth pair, with an independent look at what the wire carries."""

from __future__ import annotations

import pytest

from network import ADDRESSES, INTERFACE, Cable, captured, fields_of, run_as_root
from perftest_table import check_bandwidth, check_latency
from rough_pingpong import check_exchanges

MTUS = [1500, 9000]
# What a port has behind an interface of that MTU.
PORT_MTU = {1500: 1024, 9000: 4096}


@pytest.fixture
def cable(tmp_path, request):
    the_cable = Cable(tmp_path, **getattr(request, "param", {}))
    yield the_cable
    the_cable.close()


def with_mtu(*mtus: int, **how):
    return pytest.mark.parametrize("cable", [{"mtu": mtu, **how} for mtu in mtus], indirect=True,
                                   ids=[f"mtu{mtu}" for mtu in mtus])


def pingpong(cable, size: int, *arguments: str, iterations: int = 200, **how):
    pair = cable.pair("ibv_rc_pingpong", "-g", "0", "-c", "-s", str(size), "-n", str(iterations),
                      *arguments, **how)
    for program in pair:
        assert f"{2 * size * iterations} bytes in " in program.out, pair.report()
        assert "invalid data" not in program.out, pair.report()
    return pair


@with_mtu(*MTUS)
@pytest.mark.parametrize("way", ["polling", "sleeping"])
@pytest.mark.parametrize("size", [1, 1024, 4097, 100_000])
def test_pingpong(cable, size, way):
    pingpong(cable, size, *(["-e"] if way == "sleeping" else []))


@pytest.mark.parametrize("mtu,cable", [(mtu, {"mtu": mtu}) for mtu in MTUS], indirect=["cable"])
def test_the_port_has_the_largest_mtu_that_the_interface_carries(cable, mtu):
    out = cable.a.run("ibv_devinfo", "-v").succeed().out
    assert f"active_mtu:\t\t{PORT_MTU[mtu]}" in out, out


def test_an_mtu_that_does_not_fit_is_refused(cable):
    program = cable.a.run("ibv_devinfo", options=["--mtu", "2048"])
    assert program.status == 2, program.report()
    assert "packets of 1500 bytes" in program.err, program.report()


@with_mtu(*MTUS)
@pytest.mark.parametrize("tool", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
def test_bandwidth(cable, tool):
    pair = cable.pair(tool, "-F", "-x", "0", "-n", "500")
    check_bandwidth(pair.client.out, [65536], 500)


@pytest.mark.parametrize("cable", [{"mtu": 9000, "cuts": False}], indirect=True)
def test_batches_that_nobody_cuts(cable):
    """Both ends of a veth pair may hand a batch on whole; the receiver solves for its numbers."""
    pair = cable.pair("ib_write_bw", "-F", "-x", "0", "-n", "500", "-b")
    check_bandwidth(pair.client.out, [65536], 500)


@pytest.mark.parametrize("tool", ["ib_write_lat", "ib_read_lat", "ib_send_lat"])
def test_latency(cable, tool):
    pair = cable.pair(tool, "-F", "-x", "0", "-n", "500")
    check_latency(pair.client.out, [2], 500)


def test_several_processes_on_each_side(cable):
    """All of one host's processes share its address and its port; one of them receives."""
    pairs = [cable.start_pair("ib_write_bw", "-F", "-x", "0", "-n", "300"),
             cable.start_pair("ib_read_bw", "-F", "-x", "0", "-n", "300"),
             cable.start_pair("ibv_rc_pingpong", "-g", "0", "-c", "-e", "-s", "10000", "-n", "300"),
             cable.start_pair("ib_send_lat", "-F", "-x", "0", "-n", "300", "-e")]
    for pair in pairs:
        cable.a.wait_for_both(pair, 180.0)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
        assert "invalid data" not in pair.report()


def test_processes_of_one_host_do_not_use_the_network(cable):
    """Their own address is local: with the cable pulled they still reach each other."""
    run_as_root("ip", "-n", cable.b.namespace, "link", "set", INTERFACE, "down")
    server, port = cable.a.start_server("ib_write_bw", "-F", "-x", "0", "-n", "200")
    client = cable.a.start("ib_write_bw", "-F", "-x", "0", "-n", "200", "-p", str(port),
                           ADDRESSES[0])
    client.succeed()
    server.succeed()


@with_mtu(*MTUS)
def test_every_packet_on_the_wire_has_a_good_icrc(cable, tmp_path):
    """Those cut from batches too: their identifications tell that they are."""
    with captured(cable, tmp_path) as path:
        cable.pair("ib_write_bw", "-F", "-x", "0", "-n", "100")
    rows = set(fields_of(path, "ip.id", "ip.flags.df", "udp.srcport"))
    assert any(int(identification, 16) >= 8 for identification, _, _ in rows), rows
    assert {df for _, df, _ in rows} == {"1"}
    assert {port for _, _, port in rows} == {"4791"}


@pytest.mark.parametrize("side", ["a", "b", "both"])
def test_losses_on_the_wire_are_repaired(cable, side):
    for station in [cable.a, cable.b] if side == "both" else [getattr(cable, side)]:
        station.lose(one_of=100)
    exchange = cable.start_pair("ibv_rc_pingpong", "-g", "0", "-c", "-s", "20000", "-n", "100")
    cable.a.wait_for_both(exchange, 120.0)
    check_exchanges(exchange, 20_000, 100)
    pair = cable.pair("ib_write_bw", "-F", "-x", "0", "-n", "100", timeout_s=240.0)
    check_bandwidth(pair.client.out, [65536], 100)


def test_a_peer_that_died_costs_a_timeout(cable):
    """Nobody has the port any more: the sender's error is that of a dead host."""
    pair = cable.start_pair("stdbuf", "-oL", "ib_write_bw", "-F", "-x", "0", "-N", "-n",
                            "100000000")
    pair.client.wait_for_output("#bytes")
    pair.server.kill()
    pair.client.wait(60.0)
    assert "Failed status 12" in pair.client.report(), pair.report()
    assert pair.client.status != 0, pair.report()
