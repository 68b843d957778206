"""Multicast groups whose members are on several hosts, and in several programs of one."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import pytest

from network import (ADDRESSES, INTERFACE, IPV6_ADDRESSES, ROWS, Cable, check_wire, fields_of,
                     run_as_root, stop_capture)
from perftest_table import check_latency
from program import Program

MESSAGES = 20


class Group(NamedTuple):
    address: str
    # Of the hosts, of the same kind.
    hosts: tuple[str, str]
    # How tshark calls it.
    field: str


GROUPS = [Group("239.77.1.1", ADDRESSES, "ip.dst"),
          Group("ff0e::77:1", IPV6_ADDRESSES, "ipv6.dst"),
          # Of the link.
          Group("ff02::77:1", IPV6_ADDRESSES, "ipv6.dst")]


@pytest.fixture
def cable(tmp_path, request):
    the_cable = Cable(tmp_path, **getattr(request, "param", {}))
    yield the_cable
    the_cable.close()


def start_mckey(cable: Cable, group: Group, side: int, *arguments: str, **how) -> Program:
    station = [cable.a, cable.b][side]
    return station.start("stdbuf", "-oL", "mckey", "-m", group.address, "-b", group.hosts[side],
                         "-C", str(MESSAGES), "-S", "200", *arguments, **how)


def datagrams_in(path: pathlib.Path, group: Group) -> int:
    return len(fields_of(path, "frame.number", only=(
        f"infiniband.bth.destqp == 0xffffff && {group.field} == {group.address}")))


@pytest.mark.parametrize("cable", [{}, {"raw": True}], indirect=True, ids=["udp", "raw"])
def test_every_member_gets_every_datagram_once(cable, tmp_path):
    """Two members on the sender's host, and two on the other, whose interface has a second address.
    All groups at once: mckey rests for seconds before it sends."""
    run_as_root("ip", "-n", cable.a.namespace, "addr", "add", "10.77.0.11/24", "dev", INTERFACE)
    wire = tmp_path / "wire.pcapng"
    wire.touch(0o666)
    capture = cable.start_capture(cable.a, wire)
    members = []
    for group in GROUPS:
        for number, side in enumerate([0, 0, 1, 1]):
            seen = [cable.a, cable.b][side].directory / f"{group.address}-{number}.pcapng"
            program = start_mckey(cable, group, side, options=["--capture", str(seen)])
            members.append((group, program, seen))
    for _, program, _ in members:
        program.wait_for_output("receiving data transfers")
    for sender in [start_mckey(cable, group, 1, "-s") for group in GROUPS]:
        sender.succeed()
    for group, program, seen in members:
        program.succeed()
        assert "data transfers complete" in program.out, program.report()
        assert datagrams_in(seen, group) == MESSAGES, seen
        seen.unlink()
    stop_capture(capture)
    check_wire(wire)
    assert [datagrams_in(wire, group) for group in GROUPS] == [MESSAGES] * len(GROUPS)


@pytest.mark.parametrize("kind,group", [
    ("IPv4", "0:0:0:0:0:0:0:0:0:0:255:255:239:77:1:2"),
    ("IPv6", "255:14:0:0:0:0:0:0:0:0:0:0:0:0:77:2")])
def test_perftest_sends_to_a_group_of_the_other_host(cable, kind, group):
    pair = cable.pair("ib_send_lat", "-F", "-c", "UD", "-g", "-M", group, "-x", str(ROWS[kind]),
                      "-n", "100", "-s", "64")
    check_latency(pair.client.out, [64], 100)
