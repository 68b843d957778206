"""A device on a link that no kernel knows of: unmodified programs joined by a UNIX socket, as a
QEMU guest would be, and a station of a few lines that asks for them."""

from __future__ import annotations

import signal
import struct

import pytest

import link_peer
from hosts import Pair
from link_peer import DatagramPeer, StreamPeer
from network import check_wire, fields_of
from rdmacm import connect
from rough_pingpong import check_exchanges

A, B = "10.7.0.1", "10.7.0.2"
A6, B6 = "fd00:7::1", "fd00:7::2"
# The GID table of a device with an IPv4 and an IPv6 address.
ROWS = {"IPv4": 0, "IPv6": 1, "link-local": 2, "IPv4 v1": 3, "IPv6 v1": 4, "link-local v1": 5}


class Wire:
    """Two stations: programs of one host that share nothing but the link. A listens, B connects."""

    def __init__(self, host, directory):
        self.host = host
        self.path = directory / "wire"
        self.a = {"options": self.options(A, A6)}
        self.b = {"options": [*self.options(B, B6), "--fabric", str(host.directory / "b.fabric")]}

    def options(self, *addresses: str, link: str = "") -> list[str]:
        prefixed = ",".join(f"{address}/{64 if ':' in address else 24}" for address in addresses)
        return ["--link", link or f"qemu:{self.path}", "--address", prefixed]

    def wait_for_a(self, program) -> None:
        program.wait_until(self.path.exists, "listening")


@pytest.fixture
def wire(host, tmp_path):
    return Wire(host, tmp_path)


def start_pingpong(wire: Wire, row: str, *arguments: str, options=()) -> Pair:
    """Their TCP connection goes by the loopback interface, all else by the link."""
    command = ["ibv_rc_pingpong", "-g", str(ROWS[row]), "-c", "-n", "100", *arguments]
    server, port = wire.host.start_server(*command, options=[*wire.a["options"], *options])
    client = wire.host.start(*command, "-p", str(port), "127.0.0.1",
                             options=[*wire.b["options"], *options])
    return Pair(server, client)


def pingpong(wire: Wire, row: str, *arguments: str):
    for program in start_pingpong(wire, row, *arguments):
        program.succeed()
        assert "invalid data" not in program.out, program.report()


@pytest.mark.parametrize("way", ["polling", "sleeping"])
@pytest.mark.parametrize("row", ROWS)
def test_pingpong(wire, row, way):
    pingpong(wire, row, "-s", "5000", *(["-e"] if way == "sleeping" else []))


def test_pingpong_with_large_packets_and_losses(wire):
    pair = start_pingpong(wire, "IPv4", "-s", "100000", "-m", "4096",
                          options=["--mtu", "4096", "--loss", "1%"])
    wire.host.wait_for_both(pair)
    check_exchanges(pair, 100000, 100)


@pytest.mark.parametrize("address", [A, A6])
def test_rping_and_what_the_wire_carries(wire, tmp_path, address):
    path = tmp_path / "wire.pcapng"
    port = str(wire.host.free_port())
    server = wire.host.start("rping", "-s", "-a", address, "-p", port, "-C", "10", "-v",
                             options=[*wire.a["options"], "--capture", str(path)])
    wire.wait_for_a(server)
    connect(wire.host, server, "rping", "-c", "-a", address, "-p", port, "-C", "10", **wire.b)
    server.succeed()
    assert server.out.count("server ping data: rdma-ping-") == 10, server.report()

    check_wire(path)
    asked = {"arp.opcode": {"1", "2"}} if address == A else {"icmpv6.type": {"135", "136"}}
    for field, kinds in asked.items():
        seen = fields_of(path, field, only=field.split(".", maxsplit=1)[0])
        assert {kind for (kind,) in seen} == kinds, seen
    packets = fields_of(path, "eth.src", "eth.dst", "infiniband.bth.opcode", only="infiniband")
    assert len(packets) > 40
    macs = {source for source, _, _ in packets}
    assert macs == {destination for _, destination, _ in packets} and len(macs) == 2, macs
    assert fields_of(path, "frame.number", only="_ws.malformed") == []
    assert not wire.path.exists()


def test_each_end_begins_with_the_psn_that_the_other_one_chose(wire, tmp_path):
    """As the kernel has it: the starting PSN of a REQ or a REP is its receiver's to begin with."""
    path = tmp_path / "wire.pcapng"
    port = str(wire.host.free_port())
    server = wire.host.start("rping", "-s", "-a", A, "-p", port, "-C", "1",
                             options=[*wire.a["options"], "--capture", str(path)])
    wire.wait_for_a(server)
    connect(wire.host, server, "rping", "-c", "-a", A, "-p", port, "-C", "1", **wire.b)
    server.succeed()
    # The last REQ is the one that found somebody to answer it.
    *_, (chosen_by_b,) = fields_of(path, "infiniband.cm.req.startpsn",
                                   only="infiniband.cm.req.startpsn")
    *_, (chosen_by_a,) = fields_of(path, "infiniband.cm.rep.startpsn",
                                   only="infiniband.cm.rep.startpsn")
    for chosen, sender, requests in ((chosen_by_a, B, "4"), (chosen_by_b, A, "12")):
        first, *_ = fields_of(path, "infiniband.bth.psn",
                              only=f"ip.src == {sender} && infiniband.bth.opcode == {requests}")
        assert int(first[0]) == int(chosen, 16), (sender, first, chosen)


def test_an_address_on_the_link_may_be_one_of_this_host_too(wire):
    """The kernel would lead to ourselves; a program that names its source isn't led there."""
    port = str(wire.host.free_port())
    server = wire.host.start("rping", "-s", "-a", A, "-p", port, "-C", "1", **wire.a)
    wire.wait_for_a(server)
    client = f"ip link set lo up && ip address add {A}/32 dev lo && rping -c -I {B} -a {A}"
    connect(wire.host, server, "unshare", "-rn", "sh", "-c", f"{client} -p {port} -C 1", **wire.b)
    server.succeed()


def test_a_listener_outlives_its_peers(wire):
    port = str(wire.host.free_port())
    server = wire.host.start("stdbuf", "-oL", "rping", "-s", "-a", A, "-p", port, "-P", "-v",
                             **wire.a)
    wire.wait_for_a(server)
    for _ in range(3):
        connect(wire.host, server, "rping", "-c", "-a", A, "-p", port, "-C", "3", **wire.b)
    assert server.out.count("server ping data: rdma-ping-") == 9, server.report()
    server.kill()


def test_a_socket_goes_with_its_program_or_is_taken_over(wire):
    dead = wire.host.start("ibv_asyncwatch", **wire.a)
    wire.wait_for_a(dead)
    dead.kill()
    assert wire.path.is_socket()
    program = wire.host.run("ibv_devinfo", **wire.a).succeed()
    assert not wire.path.exists(), program.report()


def test_datagrams(wire):
    server = wire.host.start("udaddy", "-c", "4", "-C", "10", **wire.a)
    wire.wait_for_a(server)
    client = connect(wire.host, server, "udaddy", "-s", A, "-c", "4", "-C", "10", **wire.b)
    server.succeed()
    assert "return status 0" in client.out, client.report()


@pytest.mark.parametrize("group,addresses", [("239.77.2.1", (A, B)), ("ff15::77:2", (A6, B6))])
def test_a_group(wire, group, addresses):
    def start(side: int, *arguments: str):
        return wire.host.start("stdbuf", "-oL", "mckey", "-m", group, "-b", addresses[side], "-C",
                               "5", *arguments, **(wire.a, wire.b)[side])

    receiver = start(0)
    # With its receives posted. From when it joins itself a sender waits for 3 s, and for nobody.
    receiver.wait_for_output("joined dgid")
    for program in (start(1, "-s"), receiver):
        program.succeed()
        assert "return status 0" in program.out, program.report()


def test_either_end_may_start_first(wire):
    """A client that nobody answers yet waits for the other end."""
    port = str(wire.host.free_port())
    client = wire.host.start("ibv_asyncwatch", **wire.b)
    wire.wait_for_a(client)
    peer = StreamPeer.to(wire.path)
    link_peer.mac_by_arp(peer, A, B)
    peer.close()
    server = wire.host.start("rping", "-s", "-a", A, "-p", port, "-C", "2", **wire.a)
    client.wait_until(lambda: not wire.path.exists(), "connected to the server")
    end(client)
    connect(wire.host, server, "rping", "-c", "-a", A, "-p", port, "-C", "2", **wire.b)
    server.succeed()


# --- A station that isn't Verbena


def station_of(wire: Wire, kind: str):
    """A device of A, and who is at its other end."""
    if kind == "stream":
        program = wire.host.start("ibv_asyncwatch", **wire.a)
        return program, StreamPeer.to(wire.path)
    own, other = wire.path.with_name("peer"), wire.path.with_name("own")
    link = f"qemu-dgram:{other},{own}"
    program = wire.host.start("ibv_asyncwatch", options=wire.options(A, A6, link=link))
    peer = DatagramPeer(own, other)
    program.wait_until(other.exists, "there")
    return program, peer


def end(program) -> None:
    """A program that a signal ends leaves its socket, for the next one to remove."""
    program.send_signal(signal.SIGTERM)
    program.wait()


@pytest.mark.parametrize("kind", ["stream", "datagram"])
def test_a_station_asks_and_pings(wire, kind):
    program, peer = station_of(wire, kind)
    mac = link_peer.mac_by_arp(peer, B, A)
    assert mac.hex(":") == "02:00:0a:07:00:01"
    assert link_peer.mac_by_solicitation(peer, B6, A6) == mac
    for size in (0, 1, 56, 8000):
        link_peer.ping(peer, mac, B, A, bytes(range(256)) * 32 if size > 256 else bytes(size))
        link_peer.ping_v6(peer, mac, B6, A6, bytes(size))
    # Counters are published ten times a second.
    program.wait_until(lambda: "link_answers" in wire.host.verbena_command("counters").out,
                       "counting its answers")
    peer.close()
    end(program)


def test_an_ethernet_address_of_its_own(wire):
    program = wire.host.start("ibv_asyncwatch", options=[*wire.a["options"], "--mac",
                                                         "52:54:00:aa:bb:cc"])
    peer = StreamPeer.to(wire.path)
    assert link_peer.mac_by_arp(peer, B, A).hex(":") == "52:54:00:aa:bb:cc"
    assert link_peer.mac_by_solicitation(peer, "fe80::2", "fe80::5054:ff:feaa:bbcc")
    peer.close()
    end(program)


def test_a_peer_that_talks_nonsense_is_hung_up_on_and_may_come_again(wire):
    program, peer = station_of(wire, "stream")
    link_peer.mac_by_arp(peer, B, A)
    # Frames too short, of other protocols, cut: ignored. A length that no frame has: the end.
    for frame in (b"", b"x", bytes(14), bytes(60000), link_peer.arp_request(B, A)[:30]):
        peer.send(frame)
    link_peer.mac_by_arp(peer, B, A)
    peer.send_raw(struct.pack("!I", 0xFFFFFFFF) + bytes(100))
    assert peer.receive() is None
    again = StreamPeer.to(wire.path)
    link_peer.mac_by_arp(again, B, A)
    assert program.is_running(), program.report()
    again.close()
    end(program)


def test_a_server_of_qemus_takes_the_place_of_one_that_listens(wire):
    """QEMU's `server=on` removes the socket that it finds and binds its own."""
    program = wire.host.start("ibv_asyncwatch", **wire.a)
    wire.wait_for_a(program)
    with link_peer.listen_as_qemu(wire.path) as server:
        peer = StreamPeer(server.accept()[0])
        link_peer.mac_by_arp(peer, B, A)
        end(program)


# --- Errors in words


@pytest.mark.parametrize("options,words", [
    (["--link", "qemu:/tmp/x"], "needs an IP address of its own"),
    (["--link", "tun:tun0", "--address", A], "is no link: write qemu:PATH"),
    (["--link", "qemu:/tmp/x", "--address", "127.0.0.1"], "is an address of this host"),
    (["--link", "qemu:/tmp/x", "--address", "10.7.0.1/33"], "is no IP address"),
    (["--link", "qemu:/tmp/x", "--interface", "lo"], "contradict each other"),
    (["--link", "qemu:/tmp/x", "--address", A, "--vlan", "5"], "untagged"),
    (["--link", "qemu:/tmp/x", "--address", A, "--mac", "01:00:00:00:00:01"],
     "no Ethernet address of a station"),
    (["--mac", "02:00:00:00:00:01"], "goes with VERBENA_LINK"),
    (["--address", "127.0.0.1/8"], "only the address of a link"),
])
def test_a_setting_that_makes_no_sense_is_refused(host, options, words):
    program = host.run("ibv_devinfo", options=options)
    assert program.status == 2, program.report()
    assert words in program.err, program.report()


def test_a_link_is_one_programs(wire):
    first = wire.host.start("ibv_asyncwatch", **wire.a)
    peer = StreamPeer.to(wire.path)
    link_peer.mac_by_arp(peer, B, A)
    second = wire.host.run("ibv_devinfo", **wire.b)
    assert "another program of yours is on the link" in second.err, second.report()
    assert second.status != 0, second.report()
    peer.close()
    end(first)


def test_a_place_where_no_socket_can_be_is_told(wire, tmp_path):
    (tmp_path / "file").write_text("not a socket")
    for path in (tmp_path / "nowhere" / "wire", tmp_path / "file"):
        program = wire.host.run("ibv_devinfo", options=wire.options(A, link=f"qemu:{path}"))
        assert program.status != 0 and "can't" in program.err, program.report()
        assert str(path) in program.err, program.report()
    assert (tmp_path / "file").read_text() == "not a socket"


def test_nobody_at_the_other_end_is_told(wire):
    client = wire.host.start("rping", "-c", "-a", A, "-C", "1", options=wire.options(B))
    client.wait_until(lambda: "nobody is at the other end of the link" in client.err, "told")
    client.kill()


def test_a_neighbour_that_does_not_answer_is_told(wire):
    client = wire.host.start("rping", "-c", "-a", A, "-C", "1", options=wire.options(B))
    peer = StreamPeer.to(wire.path)
    client.wait_until(lambda: f"no Ethernet address for {A}" in client.err, "told")
    client.kill()
    peer.close()


def test_what_is_in_no_subnet_is_told(wire):
    client = wire.host.run("rping", "-c", "-a", "192.0.2.1", "-C", "1", **wire.b)
    assert "no device leads to 192.0.2.1" in client.err, client.report()
