"""rsockets: programs of rdma-core's, and plain socket programs with rdma-core's librspreload.so in
front of libc, over the emulated NIC."""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
import time

import pytest

import hosts
from pcapng_frames import read_frames
from programs import compiled
from rdmacm import connect

PRELOAD = pathlib.Path("/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so")
CLIENT_PROGRAM = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.sendall(b"verbena" * int(sys.argv[2]))
peer.shutdown(socket.SHUT_WR)
total = 0
while data := peer.recv(65536):
    total += len(data)
print("echoed", total, "bytes by", peer.getpeername()[0])
"""


def with_sockets(host: hosts.Host, *command: str, **how):
    """A plain socket program; the preloaded library needs no more than ours in its place."""
    return host.start("env", f"LD_PRELOAD={PRELOAD}", *command, **how)


@pytest.mark.parametrize("way", ["b", "n", "a"])
def test_rstream(host, way):
    """Blocking calls, calls that don't block, and poll(); each checks every byte."""
    for size in [1, 64, 4096, 300_000]:
        port = str(host.free_port())
        common = ["rstream", "-p", port, "-T", way, "-T", "v", "-S", str(size), "-C", "20", "-I",
                  "2"]
        server = host.start(*common)
        connect(host, server, *common, "-s", "127.0.0.1")
        server.succeed()


def test_rstream_with_small_buffers(host):
    """Credits and room run out all the time."""
    port = str(host.free_port())
    common = ["rstream", "-p", port, "-T", "v", "-B", "2048", "-S", "100000", "-C", "5", "-I", "2"]
    server = host.start(*common)
    connect(host, server, *common, "-s", "127.0.0.1")
    server.succeed()


def test_every_wait_for_nothing_ends_with_its_timeout(host):
    """Users of the kernel's siw saw rselect() time out once, and never again."""
    program = host.run(compiled("socket_timeouts"), str(host.free_port()))
    assert program.status == 0, program.report()
    assert program.out.splitlines() == [
        "listening: 6 timeouts", "listening: 3 time limits", "datagrams: 3 time limits",
        "connected: 6 timeouts", "connected: 3 time limits"]


# Idle until a file is there.
IDLE_PROGRAM = """
import os, socket, sys, time
peer = socket.socket()
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(sys.argv[2]))
peer.connect(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
"""
KEEP_ALIVE_INTERVAL_S = 1.0
# The upper three bits of immediate data say control message, the lower ones which.
KEEP_ALIVE = 0xE000_0001


@pytest.mark.parametrize("wanted", [True, False])
def test_keepalives(host, tmp_path, wanted):
    """An idle connection says every second that it is alive, if the program asks for that."""
    capture, end = tmp_path / "client.pcapng", tmp_path / "end"

    def captured() -> list[dict]:
        """Also while it is written."""
        lines = host.verbena_command("dump", "--json", str(capture)).out.splitlines()
        return [json.loads(line) for line in lines]

    def keep_alives(packets: list[dict]) -> list[dict]:
        return [packet for packet in packets if packet["frame"]["direction"] == "out"
                and packet.get("imm_dt", {}).get("immediate") == KEEP_ALIVE]

    port = str(host.free_port())
    server = with_sockets(host, compiled("plain_server"), "echo", port)
    server.wait_for_output("listening")
    client = with_sockets(host, sys.executable, "-c", IDLE_PROGRAM, port, str(int(wanted)),
                          str(end), options=["--capture", str(capture)])
    client.wait_for_output("connected")
    if wanted:
        client.wait_until(lambda: len(keep_alives(captured())) >= 3, "keepalives")
    else:
        time.sleep(3.5 * KEEP_ALIVE_INTERVAL_S)
    end.touch()
    client.succeed()
    server.succeed()
    packets = captured()
    times = [packet["frame"]["relative_ns"] for packet in packets]
    most = (max(times) - min(times)) / 1e9 / KEEP_ALIVE_INTERVAL_S
    sent = keep_alives(packets)
    assert 3 <= len(sent) <= most if wanted else sent == [], sent


def test_rcopy(host, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(hashlib.shake_256(b"rcopy").digest(5_000_011))
    target = tmp_path / "target"
    port = str(host.free_port())
    server = host.start("rcopy", "-p", port)
    connect(host, server, "rcopy", str(source), f"127.0.0.1:{target}", "-p", port)
    assert target.read_bytes() == source.read_bytes()


def test_riostream(host):
    """Writes into memory that the peer has mapped."""
    port = str(host.free_port())
    common = ["riostream", "-p", port, "-T", "v", "-S", "65536", "-C", "50", "-I", "2"]
    server = host.start(*common)
    connect(host, server, *common, "-s", "127.0.0.1")
    server.succeed()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_udpong(host, address):
    """Also by addresses of this host that no device has. What doesn't arrive, it sends for ever."""
    port = str(host.free_port())
    server = host.start("udpong", "-p", port, "-b", address)
    client = connect(host, server, "udpong", "-p", port, "-s", address, "-C", "50", "-S", "100")
    assert client.status == 0, client.report()


def test_a_plain_socket_program(host, tmp_path):
    capture = tmp_path / "client.pcapng"
    port = str(host.free_port())
    server = with_sockets(host, compiled("plain_server"), "echo", port)
    server.wait_for_output("listening")
    client = with_sockets(host, sys.executable, "-c", CLIENT_PROGRAM, port, "20000",
                          options=["--capture", str(capture)])
    client.succeed()
    server.succeed()
    assert "echoed 140000 bytes by 127.0.0.1" in client.out, client.report()
    # It went by the emulated NIC.
    assert sum(len(frame.data) for frame in read_frames(capture)) > 2 * 140_000


def test_iperf3(host):
    port = str(host.free_port())
    server = with_sockets(host, "stdbuf", "-oL", "iperf3", "-s", "-1", "-p", port)
    server.wait_for_output("Server listening")
    client = with_sockets(host, "iperf3", "-c", "127.0.0.1", "-p", port, "-n", "32M").succeed()
    assert "receiver" in client.out, client.report()
    server.succeed()


def test_curl(host, tmp_path):
    port = str(host.free_port())
    server = with_sockets(host, compiled("plain_server"), "http", port, "1400000")
    server.wait_for_output("listening")
    fetched = tmp_path / "fetched"
    with_sockets(host, "curl", "-sS", "-o", str(fetched), f"http://127.0.0.1:{port}/").succeed()
    server.succeed()
    assert fetched.read_bytes() == b"v" * 1_400_000


def test_nc(host, tmp_path):
    """Debian's netcat sends a file and gets it back. As a server it calls accept4(), for which
    librspreload has no function, so that isn't ours to show."""
    source = tmp_path / "source"
    source.write_bytes(hashlib.shake_256(b"nc").digest(700_001))
    port = str(host.free_port())
    capture = tmp_path / "client.pcapng"
    server = with_sockets(host, compiled("plain_server"), "echo", port)
    server.wait_for_output("listening")
    # The shell only redirects: nc reads its standard input.
    client = host.run("sh", "-c", f"LD_PRELOAD={PRELOAD} exec nc -N 127.0.0.1 {port} < {source}",
                      options=["--capture", str(capture)]).succeed()
    server.succeed()
    assert client.out_path.read_bytes() == source.read_bytes()
    assert sum(len(frame.data) for frame in read_frames(capture)) > 2 * 700_001
