"""RoCE v2 over IPv6 between two hosts, through UDP sockets; and header fields of both kinds of IP
that programs choose, as an independent look at the wire has them."""

from __future__ import annotations

import pytest

from network import IPV6_ADDRESSES, ROWS, Cable, captured, fields_of
from perftest_table import check_bandwidth, check_latency
from rdmacm import connect

IPV6_ROWS = ["IPv6", "link-local"]


@pytest.fixture
def cable(tmp_path, request):
    the_cable = Cable(tmp_path, **getattr(request, "param", {}))
    yield the_cable
    the_cable.close()


def test_the_table_has_a_row_for_each_address(cable):
    out = cable.a.run("ibv_devinfo", "-v").succeed().out
    rows = [line.split() for line in out.splitlines() if "GID[" in line]
    gids = [row[2].rstrip(",") for row in rows]
    assert gids[:2] == ["::ffff:10.77.0.1", IPV6_ADDRESSES[0]], out
    assert gids[2].startswith("fe80::") and len(gids) == 3, out


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("way", ["polling", "sleeping"])
@pytest.mark.parametrize("row", IPV6_ROWS)
def test_pingpong(cable, row, way, size):
    pair = cable.pair("ibv_rc_pingpong", "-g", str(ROWS[row]), "-c", "-s", str(size), "-n", "100",
                      *(["-e"] if way == "sleeping" else []))
    for program in pair:
        assert f"{2 * size * 100} bytes in " in program.out, pair.report()
        assert "invalid data" not in program.out, pair.report()


@pytest.mark.parametrize("cable", [{"mtu": 1500}, {"mtu": 9000}, {"mtu": 9000, "cuts": False}],
                         indirect=True, ids=["mtu1500", "mtu9000", "uncut"])
def test_bandwidth(cable):
    pair = cable.pair("ib_write_bw", "-F", "-x", str(ROWS["IPv6"]), "-n", "500")
    check_bandwidth(pair.client.out, [65536], 500)


def test_datagrams(cable):
    pair = cable.pair("ib_send_lat", "-c", "UD", "-F", "-x", str(ROWS["IPv6"]), "-n", "200")
    check_latency(pair.client.out, [2], 200)


def test_several_processes_on_each_side(cable):
    """One of them receives what the peer's address sends, and hands over what is the others'."""
    row = str(ROWS["IPv6"])
    pairs = [cable.start_pair("ib_write_bw", "-F", "-x", row, "-n", "200"),
             cable.start_pair("ib_read_bw", "-F", "-x", row, "-n", "200"),
             cable.start_pair("ib_send_lat", "-F", "-x", row, "-n", "200", "-e")]
    for pair in pairs:
        cable.a.wait_for_both(pair, 180.0)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()


def test_programs_of_one_host_reach_each_other(cable):
    row = str(ROWS["IPv6"])
    server, port = cable.a.start_server("ib_write_bw", "-F", "-x", row, "-n", "200")
    cable.a.start("ib_write_bw", "-F", "-x", row, "-n", "200", "-p", str(port),
                  cable.a.address).succeed()
    server.succeed()


@pytest.mark.parametrize("on_b", [IPV6_ADDRESSES[0], "::1"])
def test_rdma_cm(cable, on_b):
    """To the other host, and to a loopback address that the device has not."""
    client_host = cable.b if on_b == IPV6_ADDRESSES[0] else cable.a
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", "-a", "::0", "-p", port, "-C", "10", "-v")
    connect(client_host, server, "rping", "-c", "-a", on_b, "-p", port, "-C", "10")
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 10, server.report()


@pytest.mark.parametrize("row", IPV6_ROWS)
def test_every_packet_on_the_wire_has_a_good_icrc(cable, tmp_path, row):
    with captured(cable, tmp_path) as path:
        cable.pair("ib_write_bw", "-F", "-x", str(ROWS[row]), "-n", "100")
    packets = fields_of(path, "ipv6.src", "ipv6.dst", "udp.srcport", "infiniband.bth.opcode")
    assert len(packets) > 100
    prefix = IPV6_ADDRESSES[0].rstrip("1") if row == "IPv6" else "fe80::"
    for source, destination, port, opcode in packets:
        assert source.startswith(prefix) and destination.startswith(prefix), (source, destination)
        assert port == "4791" and opcode != "", (port, opcode)


# --- What programs choose of the header

TRAFFIC_CLASS = 0x6A  # DSCP 26 (AF31), ECN 2: capable.


@pytest.mark.parametrize("row,field", [("IPv4", "ip.dsfield"), ("IPv6", "ipv6.tclass")])
def test_the_traffic_class_is_on_the_wire(cable, tmp_path, row, field):
    with captured(cable, tmp_path) as path:
        cable.pair("ib_write_bw", "-F", "-x", str(ROWS[row]), "-n", "20", "--tclass",
                   str(TRAFFIC_CLASS))
    assert {int(value, 16) for value, in fields_of(path, field)} == {TRAFFIC_CLASS}


@pytest.mark.parametrize("row,field", [(0, "ip.dsfield"), (1, "ipv6.tclass")])
def test_the_traffic_class_is_in_frames_within_a_host(host, tmp_path, row, field):
    path = tmp_path / "local.pcapng"
    host.pair("ib_write_bw", "-F", "-x", str(row), "-n", "20", "--tclass", str(TRAFFIC_CLASS),
              client_how={"options": ["--capture", str(path)]})
    assert {int(value, 16) for value, in fields_of(path, field)} == {TRAFFIC_CLASS}


def test_a_flow_label_chosen_by_the_connection_manager_is_on_the_wire(cable, tmp_path):
    """It is made of both ports, for routers that spread load by it."""
    with captured(cable, tmp_path) as path:
        port = str(cable.a.free_port())
        server = cable.a.start("rping", "-s", "-a", "::0", "-p", port, "-C", "5")
        connect(cable.b, server, "rping", "-c", "-a", IPV6_ADDRESSES[0], "-p", port, "-C", "5")
        server.wait()
    labels = {int(label, 16) for label, in fields_of(
        path, "ipv6.flow", only=f"ipv6.src == {IPV6_ADDRESSES[1]} && infiniband.reth")}
    labels |= {int(label, 16) for label, in fields_of(
        path, "ipv6.flow", only=f"ipv6.src == {IPV6_ADDRESSES[1]} && infiniband.bth.opcode == 4")}
    assert len(labels) == 1 and labels != {0}, labels
