"""iWARP over our own TCP on a link: unmodified programs joined by a UNIX socket, and with what else
speaks TCP: this host's kernel, by a TAP interface."""

from __future__ import annotations

import os
import pathlib
import re
import struct
import sys

import pytest

import hosts
import link_peer
from link_peer import StreamPeer
from network import fields_of, run_as_root
from rdmacm import connect
from tools.tshark_iwarp import look_at

A, B = "10.7.0.1", "10.7.0.2"
A6, B6 = "fd00:7::1", "fd00:7::2"
TAP = "wire0"
PING = pathlib.Path(__file__).parent / "tools" / "ping.py"
RESET, SYN, ACK = 0x04, 0x02, 0x10


class Wire:
    """Two programs of one host that share nothing but the link. A listens, B connects."""

    def __init__(self, host, directory):
        self.host = host
        self.path = directory / "wire"
        self.a = self.options(A, A6)
        self.b = [*self.options(B, B6), "--fabric", str(host.directory / "b.fabric")]

    def options(self, *addresses: str) -> list[str]:
        prefixed = ",".join(f"{address}/{64 if ':' in address else 24}" for address in addresses)
        return ["--transport", "iwarp", "--link", f"qemu:{self.path}", "--address", prefixed]

    def start_server(self, *command: str, options=()):
        server = self.host.start(*command, options=[*self.a, *options])
        server.wait_until(self.path.exists, "on the link")
        return server

    def connect(self, server, *command: str, options=()):
        client = connect(self.host, server, *command, options=[*self.b, *options])
        server.succeed()
        return client

    def rping(self, address: str = A, count: int = 10, size: int = 64, server=(), client=()):
        port = str(self.host.free_port())
        common = ["-a", address, "-p", port, "-C", str(count), "-S", str(size), "-V"]
        program = self.start_server("rping", "-s", "-v", *common, options=server)
        self.connect(program, "rping", "-c", "-v", *common, options=client)
        assert program.out.count("server ping data: ") == count, program.report()
        return program


@pytest.fixture
def wire(host, tmp_path):
    return Wire(host, tmp_path)


LOST = re.compile("retransmission|previous segment|duplicate ack|out-of-order|unseen segment", re.I)
REFUSED = re.compile(r"^frame (\d+): Connection reset \(RST\)$")


def check_capture(path: pathlib.Path, loses: bool = False) -> list[str]:
    """Real segments: all checksums are right, each FPDU's CRC is, nothing is malformed. A client
    may have been refused, as often as it asked before the server listened."""
    seen = look_at(path)
    accepted = int(fields_of(path, "frame.number", only="tcp.flags.syn == 1 && tcp.flags.ack == 1")
                   [0][0])

    def is_expected(problem: str) -> bool:
        refused = REFUSED.match(problem)
        return bool(loses and LOST.search(problem) or refused and int(refused[1]) < accepted)

    assert [problem for problem in seen.problems if not is_expected(problem)] == []
    assert seen.fpdus > 0 and seen.good_crcs == seen.fpdus
    assert any("[SYN]" in line for line in seen.lines), seen.lines[:5]
    assert any("MPA Request Frame" in line for line in seen.lines), seen.lines[:8]
    assert any("MPA Reply Frame" in line for line in seen.lines), seen.lines[:8]
    assert any(line.endswith("Len=0") or "[ACK]" in line for line in seen.lines)
    bad = run_as_root("tshark", "-n", "-r", str(path), "-o", "tcp.check_checksum:TRUE", "-o",
                      "ip.check_checksum:TRUE", "-Y",
                      "tcp.checksum.status == 0 || ip.checksum.status == 0")
    assert bad == ""
    return seen.lines


def check_alignment(path: pathlib.Path, sender: str) -> None:
    """Each of its segments behind the start frame holds whole FPDUs (RFC 5044, 5)."""
    source = f"{'ipv6' if ':' in sender else 'ip'}.src == {sender}"
    payloads = fields_of(path, "tcp.payload", only=f"tcp.len > 0 && {source}")
    assert payloads
    for (payload,) in payloads:
        rest = bytes.fromhex(payload.replace(":", ""))
        while rest and not rest.startswith(b"MPA ID Re"):
            ulpdu_bytes = int.from_bytes(rest[:2], "big")
            fpdu_bytes = (2 + ulpdu_bytes + 3) // 4 * 4 + 4  # Padding, and the CRC.
            assert fpdu_bytes <= len(rest), (len(payload), ulpdu_bytes)
            rest = rest[fpdu_bytes:]


@pytest.mark.parametrize("address", [A, A6])
def test_rping_and_what_the_wire_carries(wire, tmp_path, address):
    path = tmp_path / "wire.pcapng"
    wire.rping(address, server=["--capture", str(path)])
    lines = "\n".join(check_capture(path))
    for sender in (A, B) if address == A else (A6, B6):
        check_alignment(path, sender)
    for message in ("Send", "Write", "Read Request", "Read Response"):
        assert f"{message} [last DDP segment]" in lines, lines
    asked = {"arp.opcode": {"1", "2"}} if address == A else {"icmpv6.type": {"135", "136"}}
    for field, kinds in asked.items():
        seen = fields_of(path, field, only=field.split(".", maxsplit=1)[0])
        assert {kind for (kind,) in seen} == kinds, seen
    # A handshake of our own making, with options, ends in order.
    syns = fields_of(path, "tcp.options.mss_val", "tcp.options.wscale.shift",
                     only="tcp.flags.syn == 1")
    mss = "1460" if address == A else "1440"
    assert syns and all(options == (mss, "3") for options in syns), syns
    assert fields_of(path, "frame.number", only="tcp.flags.fin == 1")


def test_what_is_lost_is_sent_again_and_arrives(wire, tmp_path):
    path = tmp_path / "wire.pcapng"
    wire.rping(count=30, size=60000, server=["--loss", "1%", "--seed", "3", "--capture",
                                             str(path)], client=["--loss", "1%"])
    check_capture(path, loses=True)
    for sender in (A, B):
        check_alignment(path, sender)
    again = [comment for (comment,) in fields_of(path, "frame.comment", only="frame.comment")
             if "retransmission" in comment]
    assert again


@pytest.mark.parametrize("fault", ["--reorder=5%", "--dup=5%", "--corrupt=2%"])
def test_what_a_bad_network_does_else(wire, fault):
    wire.rping(count=10, size=60000, server=[fault], client=[fault])


def test_ucmatose(wire):
    port = str(wire.host.free_port())
    server = wire.start_server("ucmatose", "-b", A, "-p", port, "-c", "8", "-C", "10")
    client = wire.connect(server, "ucmatose", "-s", A, "-p", port, "-c", "8", "-C", "10")
    assert "return status 0" in client.out, client.report()


def test_rstream_whose_server_ends_while_its_last_bytes_are_under_way(wire):
    port = str(wire.host.free_port())
    arguments = ["-p", port, "-S", "100000", "-C", "20"]
    server = wire.start_server("rstream", "-b", A, *arguments)
    wire.connect(server, "rstream", "-s", A, *arguments)


def test_a_listener_outlives_its_peers(wire):
    port = str(wire.host.free_port())
    server = wire.start_server("stdbuf", "-oL", "rping", "-s", "-a", A, "-p", port, "-P", "-v")
    for _ in range(3):
        connect(wire.host, server, "rping", "-c", "-a", A, "-p", port, "-C", "3", options=wire.b)
    assert server.out.count("server ping data: rdma-ping-") == 9, server.report()
    server.kill()


def test_there_is_no_way_to_another_subnet(wire):
    program = wire.host.run("rping", "-c", "-a", "10.8.0.1", "-C", "1", options=wire.b)
    assert program.status != 0, program.report()


def test_a_stranger_is_reset_and_the_device_lives(wire):
    """A SYN to a port where nobody listens, one whose checksum is wrong, and one of a group."""
    server = wire.start_server("rping", "-s", "-a", A, "-p", str(wire.host.free_port()))
    peer = StreamPeer.to(wire.path)
    reply = link_peer.ask(peer, link_peer.arp_request(B, A),
                          lambda frame: link_peer.kind_of(frame) == link_peer.ARP)
    mac = reply[6:12]

    def syn(source: str, port: int, spoil: int = 0) -> bytes:
        segment = struct.pack("!HHIIBBHHH", 4000, port, 7, 0, 0x50, SYN, 1000, 0, 0)
        pseudo = link_peer.packed(source) + link_peer.packed(A) + struct.pack("!HH", 6, 20)
        check = link_peer.checksum(pseudo + segment) ^ spoil
        segment = segment[:16] + struct.pack("!H", check) + segment[18:]
        header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 1, 0, 64, 6, 0) + link_peer.packed(
            source) + link_peer.packed(A)
        header = header[:10] + struct.pack("!H", link_peer.checksum(header)) + header[12:]
        return link_peer.ethernet(mac, link_peer.IPV4, header + segment)

    def is_tcp(frame: bytes) -> bool:
        if link_peer.kind_of(frame) == link_peer.ARP:
            peer.send(link_peer.arp_reply(frame))
        return link_peer.kind_of(frame) == link_peer.IPV4 and frame[23] == 6

    peer.send(syn(B, 9, spoil=1))
    peer.send(syn("239.1.2.3", 9))
    answer = link_peer.ask(peer, syn(B, 10), is_tcp)
    ports = struct.unpack("!HH", answer[34:38])
    sequence, acknowledged = struct.unpack("!II", answer[38:46])
    assert (ports, sequence, acknowledged) == ((10, 4000), 0, 8)
    assert answer[47] == RESET | ACK
    assert server.is_running(), server.report()
    server.kill()


# --- A TAP interface


class Tap:
    """A network namespace with a TAP interface: the kernel at its one end, a device of ours at the
    other. The kernel's programs run inside as well."""

    def __init__(self, host):
        assert os.geteuid() == 0, (
            "this test makes a network namespace with a TAP interface: it must run as root")
        self.host = host
        self.prefix = host.prefix
        self.name = f"verbena-{os.getpid()}-tap"
        self.inside = ["ip", "netns", "exec", self.name]
        self.ours = ["--link", f"tap:{TAP}", "--address", f"{A}/24,{A6}/64"]
        self.kernels = ["--address", f"{B},{B6}", "--transport", "iwarp", "--fabric",
                        str(host.directory / "kernels.fabric")]
        run_as_root("ip", "netns", "add", self.name)

    def open(self) -> None:
        run_as_root(*self.inside, "sh", "-c",
                    "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad")
        self.ip("link set lo up")
        self.make_interface()
        self.host.prefix = self.inside

    def ip(self, command: str) -> str:
        return run_as_root("ip", "-n", self.name, *command.split())

    def make_interface(self) -> None:
        for command in (f"tuntap add dev {TAP} mode tap", f"addr add {B}/24 dev {TAP}",
                        f"addr add {B6}/64 dev {TAP}", f"link set {TAP} up"):
            self.ip(command)

    def close(self) -> None:
        for program in self.host.programs:
            if program.is_running():
                program.kill()
        self.host.prefix = self.prefix
        run_as_root("ip", "netns", "del", self.name)


@pytest.fixture
def tap(host):
    the_tap = Tap(host)
    try:
        the_tap.open()
        yield the_tap
    finally:
        the_tap.close()


def test_the_kernel_finds_a_device_on_a_tap_interface(tap):
    """ARP, neighbour discovery and ping, asked for by somebody who wrote them long ago."""
    device = tap.host.start("ibv_asyncwatch", options=tap.ours)
    device.wait_for_output("async event")
    for address in (A, A6):
        assert run_as_root(*tap.inside, sys.executable, str(PING), address) == "answered\n"
    device.kill()


def test_an_interface_that_is_made_again_is_found(tap):
    device = tap.host.start("ibv_asyncwatch", options=tap.ours)
    device.wait_for_output("async event")
    tap.ip(f"link del {TAP}")
    tap.make_interface()
    # As soon as somebody has its other end.
    device.wait_until(lambda: "LOWER_UP" in tap.ip(f"link show {TAP}"), "the device is back")
    assert run_as_root(*tap.inside, sys.executable, str(PING), A) == "answered\n"
    device.kill()


@pytest.mark.parametrize("server_is", ["ours", "kernels"])
@pytest.mark.parametrize("address", ["IPv4", "IPv6"])
def test_our_tcp_against_the_kernels(tap, tmp_path, server_is, address):
    """rping between a device with our TCP and one with the kernel's: each judges the other."""
    path = tmp_path / "tap.pcapng"
    ours = [*tap.ours, "--transport", "iwarp", "--capture", str(path)]
    server_options, client_options = ((ours, tap.kernels) if server_is == "ours"
                                      else (tap.kernels, ours))
    place = {("ours", "IPv4"): A, ("ours", "IPv6"): A6, ("kernels", "IPv4"): B,
             ("kernels", "IPv6"): B6}[server_is, address]
    common = ["-a", place, "-p", "7174", "-C", "20", "-S", "50000", "-V"]
    server = tap.host.start("rping", "-s", "-v", *common, options=server_options)
    if server_is == "kernels":
        # Else the capture is of an attempt that was refused.
        server.wait_until(lambda: "7174" in run_as_root(*tap.inside, "ss", "-Hltn"), "listening")
    connect(tap.host, server, "rping", "-c", "-v", *common, options=client_options)
    server.succeed()
    assert server.out.count("server ping data: ") == 20, server.report()
    check_capture(path)
    check_alignment(path, A if address == "IPv4" else A6)


def test_our_tcp_repairs_what_the_kernel_sends(tap):
    common = ["-a", A, "-p", "7174", "-C", "10", "-S", "60000", "-V"]
    server = tap.host.start("rping", "-s", "-v", *common, options=[
        *tap.ours, "--transport", "iwarp", "--loss", "2%", "--reorder", "2%", "--dup", "1%"])
    connect(tap.host, server, "rping", "-c", "-v", *common, options=tap.kernels)
    server.succeed()


def test_one_that_is_not_there_is_told_with_the_commands_to_make_it(host):
    program = host.run("ibv_devinfo", options=["--link", "tap:nowhere0", "--address", f"{A}/24"])
    assert program.status != 0, program.report()
    assert "ip tuntap add dev nowhere0 mode tap" in program.err, program.report()
