"""Unmodified programs on an iWARP device, with peers that are plain sockets of Python: what they
are sent first, and what they are told of handshakes that come to nothing."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

import pytest

import hosts
from programs import compiled

HOST = hosts.LOOPBACK
REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
FLAGS_ENHANCED = 0x10
PEER_TO_PEER = 0x8000  # In the word of IRD; RFC 6581, 4.
RTR_WRITE = 0x8000  # In the word of ORD.
RTR_READ = 0x4000
RTR_FPDU = 0x4000  # In the word of IRD.


@pytest.fixture
def iwarp(host) -> hosts.Host:
    host.variables["VERBENA_TRANSPORT"] = "iwarp"
    return host


def reply(ird: int = 1, ord_: int = 1) -> bytes:
    """Without CRC, unless the request asks for it: that is enough."""
    return REPLY_KEY + struct.pack(">BBHHH", FLAGS_ENHANCED, 2, 4, ird, ord_)


@contextlib.contextmanager
def asked(iwarp):
    """A program that connects to us: its socket, after its request was read, and the program."""
    with socket.socket() as listener:
        listener.settimeout(hosts.TIMEOUT_S)
        listener.bind((HOST, 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        client = iwarp.start(compiled("iw_talk"), "connect", HOST, port, "0", "4")
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(hosts.TIMEOUT_S)
            request = connection.recv(1000)
            assert request.startswith(REQUEST_KEY), request
            yield connection, request, client


def events_of(client) -> list[str]:
    """Those after its own preparations."""
    lines = [line.split()[:2] for line in client.out.splitlines()
             if line.startswith("RDMA_CM_EVENT_")]
    assert [line[0] for line in lines[:2]] == ["RDMA_CM_EVENT_ADDR_RESOLVED",
                                               "RDMA_CM_EVENT_ROUTE_RESOLVED"], client.report()
    return [" ".join(line) for line in lines[2:]]


@pytest.mark.parametrize("chosen,ulpdu_bytes,control", [(RTR_READ, 46, b"\x41\x41"),
                                                       (RTR_WRITE, 14, b"\xc1\x40")])
def test_the_rtr_is_the_one_that_the_reply_chose(iwarp, chosen, ulpdu_bytes, control):
    """C-5 52: a WRITE where a READ was chosen makes the peer end the connection."""
    with asked(iwarp) as (connection, request, _):
        ird, ord_ = struct.unpack(">HH", request[20:24])
        assert ird & PEER_TO_PEER and ord_ & RTR_WRITE and ord_ & RTR_READ, request
        connection.sendall(reply(PEER_TO_PEER | 1, chosen | 1))
        first = connection.recv(4, socket.MSG_WAITALL)
        assert first == struct.pack(">H", ulpdu_bytes) + control


def test_an_rtr_that_was_not_offered_is_answered_by_a_terminate(iwarp):
    with asked(iwarp) as (connection, _, client):
        connection.sendall(reply(PEER_TO_PEER | RTR_FPDU | 1, 1))
        said = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(1000):
                said += more
    client.wait()
    # DDP and RDMAP: untagged, last, TERMINATE; queue 2; then layer LLP, type MPA, code 7.
    assert said[2:4] == b"\x41\x47" and said[11] == 2, said.hex()
    assert said[20:22] == b"\x20\x07", said.hex()
    assert events_of(client) == [f"RDMA_CM_EVENT_CONNECT_ERROR {-errno.EPROTO}"]


@pytest.mark.parametrize("ending", ["fin", "reset"])
@pytest.mark.parametrize("sent", [0, 1, 15, 16, 19, 20, 23])
def test_a_reply_that_ends_early_is_one_event(iwarp, ending, sent):
    """C-5 55; the unit tests have each byte, and silence."""
    with asked(iwarp) as (connection, _, client):
        connection.sendall(reply()[:sent])
        if ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.wait()
    assert events_of(client) == [f"RDMA_CM_EVENT_REJECTED {-errno.ECONNRESET}"], client.report()


def test_a_silent_peer_is_one_event(iwarp):
    iwarp.variables["VERBENA_CONNECT_TIMEOUT_S"] = "5"
    with asked(iwarp) as (_, _, client):
        client.wait()
    assert events_of(client) == [f"RDMA_CM_EVENT_UNREACHABLE {-errno.ETIMEDOUT}"], client.report()
