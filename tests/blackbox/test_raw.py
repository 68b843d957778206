"""RoCE by raw Ethernet between two hosts: an ordinary user with CAP_NET_RAW, a veth pair, and an
independent look at the wire."""

from __future__ import annotations

import pytest

from network import ADDRESSES, INTERFACE, IPV6_ADDRESSES, RAW_ROWS, Cable, captured, fields_of
from perftest_table import check_bandwidth, check_latency
from rdmacm import connect

ROCE_V1 = "0x8915"


@pytest.fixture
def cable(tmp_path, request):
    the_cable = Cable(tmp_path, raw=True, **getattr(request, "param", {}))
    yield the_cable
    the_cable.close()


def pingpong(cable: Cable, row: str, *arguments: str, size: int = 5000, **how):
    pair = cable.pair("ibv_rc_pingpong", "-g", str(RAW_ROWS[row]), "-c", "-s", str(size), "-n",
                      "100", *arguments, **how)
    for program in pair:
        assert f"{2 * size * 100} bytes in " in program.out, pair.report()
        assert "invalid data" not in program.out, pair.report()
    return pair


def test_the_table_has_every_address_as_v2_and_as_v1(cable):
    out = cable.a.run("ibv_devinfo", "-v").succeed().out
    rows = [line.split(maxsplit=2)[1:] for line in out.splitlines() if "GID[" in line]
    kinds = [text.split(",")[-1].strip() for _, text in rows]
    assert kinds == ["RoCE v2"] * 3 + ["RoCE v1"] * 3, out


@pytest.mark.parametrize("way", ["polling", "sleeping"])
@pytest.mark.parametrize("row", RAW_ROWS)
def test_pingpong(cable, row, way):
    pingpong(cable, row, *(["-e"] if way == "sleeping" else []))


@pytest.mark.parametrize("row", RAW_ROWS)
def test_every_packet_on_the_wire_has_a_good_icrc(cable, tmp_path, row):
    with captured(cable, tmp_path) as path:
        cable.pair("ib_write_bw", "-F", "-x", str(RAW_ROWS[row]), "-n", "50")
    packets = fields_of(path, "eth.type", "infiniband.bth.opcode", "eth.src", "eth.dst")
    assert len(packets) > 50
    assert all(opcode != "" for _, opcode, _, _ in packets)
    assert all((kind == ROCE_V1) == row.endswith("v1") for kind, _, _, _ in packets)
    macs = {run_mac(station) for station in (cable.a, cable.b)}
    assert {source for _, _, source, _ in packets} == macs
    assert {destination for _, _, _, destination in packets} == macs


def run_mac(station) -> str:
    return station.run_bare("cat", f"/sys/class/net/{INTERFACE}/address").succeed().out.strip()


@pytest.mark.parametrize("cable", [{"mtu": 9000}], indirect=True)
@pytest.mark.parametrize("tool", ["ib_write_bw", "ib_read_bw"])
def test_bandwidth(cable, tool):
    pair = cable.pair(tool, "-F", "-x", str(RAW_ROWS["IPv4 v1"]), "-n", "500")
    check_bandwidth(pair.client.out, [65536], 500)


def test_datagrams(cable):
    pair = cable.pair("ib_send_lat", "-c", "UD", "-F", "-x", str(RAW_ROWS["link-local v1"]), "-n",
                      "200")
    check_latency(pair.client.out, [2], 200)


def test_several_processes_on_each_side(cable):
    """Each has its own socket on the interface, and takes what is its own."""
    pairs = [cable.start_pair("ib_write_bw", "-F", "-x", str(RAW_ROWS["IPv4"]), "-n", "200"),
             cable.start_pair("ib_read_bw", "-F", "-x", str(RAW_ROWS["IPv6 v1"]), "-n", "200"),
             cable.start_pair("ib_send_lat", "-F", "-x", str(RAW_ROWS["IPv4 v1"]), "-n", "200",
                              "-e")]
    for pair in pairs:
        cable.a.wait_for_both(pair, 180.0)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()


@pytest.mark.parametrize("row", ["IPv4", "IPv6"])
def test_a_peer_with_udp_sockets_speaks_the_same(cable, row):
    del cable.b.variables["VERBENA_RAW"]
    cable.b.variables["VERBENA_INTERFACE"] = INTERFACE
    pingpong(cable, row)


@pytest.mark.parametrize("address", [ADDRESSES[0], IPV6_ADDRESSES[0]])
def test_rdma_cm(cable, address):
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", "-a", address, "-p", port, "-C", "10", "-v")
    connect(cable.b, server, "rping", "-c", "-a", address, "-p", port, "-C", "10")
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 10, server.report()


@pytest.mark.parametrize("row", ["IPv4", "link-local v1"])
def test_a_vlan_tag_carries_the_service_level(cable, tmp_path, row):
    with captured(cable, tmp_path) as path:
        pingpong(cable, row, "-l", "3", options=["--vlan", "100"])
    tags = set(fields_of(path, "vlan.id", "vlan.priority", only="infiniband.bth"))
    assert tags == {("100", "3")}, tags


def test_without_the_capability_it_says_what_to_do(cable):
    cable.a.give_up_capabilities()
    program = cable.a.run("ibv_devinfo")
    assert program.status != 0, program.report()
    lines = [line for line in program.err.splitlines() if "CAP_NET_RAW" in line]
    assert len(lines) == 1, program.report()
    assert "setpriv" in lines[0] and f"--interface {INTERFACE}" in lines[0], program.report()


def test_a_peer_that_nobody_knows_is_told(cable):
    client = cable.b.start("rping", "-c", "-a", "10.77.0.99", "-C", "1")
    client.wait_until(lambda: "no Ethernet address for 10.77.0.99" in client.err, "told")
    client.kill()
