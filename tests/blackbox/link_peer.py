"""A station at the other end of a link, of a few lines that share nothing with Verbena: it speaks
QEMU's framings, ARP, neighbour discovery and echo, and keeps what it saw."""

from __future__ import annotations

import ipaddress
import pathlib
import socket
import struct
import time

from program import POLL_INTERVAL_S, TIMEOUT_S

MAC = bytes.fromhex("525400000002")
BROADCAST = b"\xff" * 6
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
ICMP, ICMPV6 = 1, 58


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[:len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def ethernet(destination: bytes, kind: int, payload: bytes) -> bytes:
    return destination + MAC + struct.pack("!H", kind) + payload


def arp_request(own: str, target: str) -> bytes:
    return ethernet(BROADCAST, ARP, struct.pack("!HHBBH", 1, IPV4, 6, 4, 1) + MAC + packed(own) +
                    bytes(6) + packed(target))


def arp_reply(request: bytes) -> bytes:
    """To a request, whomever it asks for."""
    return ethernet(request[6:12], ARP, request[14:20] + b"\0\2" + MAC + request[38:42] +
                    request[22:32])


def echo_request(mac: bytes, own: str, target: str, data: bytes) -> bytes:
    message = struct.pack("!BBHHH", 8, 0, 0, 7, 1) + data
    message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(message), 1, 0, 64, ICMP, 0) + packed(
        own) + packed(target)
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return ethernet(mac, IPV4, header + message)


def icmpv6(mac: bytes, own: str, target: str, message: bytes, hop_limit: int) -> bytes:
    pseudo = packed(own) + packed(target) + struct.pack("!II", len(message), ICMPV6)
    message = message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]
    header = struct.pack("!IHBB", 6 << 28, len(message), ICMPV6, hop_limit)
    return ethernet(mac, IPV6, header + packed(own) + packed(target) + message)


def echo_request_v6(mac: bytes, own: str, target: str, data: bytes) -> bytes:
    return icmpv6(mac, own, target, struct.pack("!BBHHH", 128, 0, 0, 7, 1) + data, 64)


def solicitation(own: str, target: str) -> bytes:
    group = packed("ff02::1:ff00:0")[:13] + packed(target)[13:]
    return icmpv6(b"\x33\x33" + group[12:], own, str(ipaddress.ip_address(group)),
                  struct.pack("!BBHI", 135, 0, 0, 0) + packed(target) + b"\1\1" + MAC, 255)


def kind_of(frame: bytes) -> int:
    return struct.unpack_from("!H", frame, 12)[0]


class StreamPeer:
    """As QEMU's `-netdev stream`."""

    def __init__(self, connected: socket.socket):
        self._socket = connected
        self._socket.settimeout(TIMEOUT_S)
        self._buffer = b""

    @classmethod
    def to(cls, path: pathlib.Path) -> StreamPeer:
        """Connects to whoever listens there, or is about to."""
        return cls(_connected(path))

    def send(self, frame: bytes) -> None:
        self.send_raw(struct.pack("!I", len(frame)) + frame)

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next frame; None when the other end has hung up."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._length():
            data = self._socket.recv(65536)
            if not data:
                return None
            self._buffer += data
        length = self._length()
        frame, self._buffer = self._buffer[4:4 + length], self._buffer[4 + length:]
        return frame

    def _length(self) -> int:
        return struct.unpack_from("!I", self._buffer)[0]

    def close(self) -> None:
        self._socket.close()


class DatagramPeer:
    """As QEMU's `-netdev dgram`."""

    def __init__(self, own: pathlib.Path, other: pathlib.Path):
        self._other = str(other)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.bind(str(own))

    def send(self, frame: bytes) -> None:
        self._socket.sendto(frame, self._other)

    def receive(self) -> bytes | None:
        return self._socket.recv(65536)

    def close(self) -> None:
        self._socket.close()


def ask(peer, frame: bytes, is_answer) -> bytes:
    """Sends a frame and returns the first that is an answer to it."""
    peer.send(frame)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        answer = peer.receive()
        assert answer is not None, "the other end hung up"
        if is_answer(answer):
            return answer
    raise AssertionError(f"no answer to {frame.hex()}")


def mac_by_arp(peer, own: str, target: str) -> bytes:
    answer = ask(peer, arp_request(own, target),
                 lambda frame: kind_of(frame) == ARP and frame[20:22] == b"\0\2")
    assert answer[28:32] == packed(target) and answer[22:28] == answer[6:12]
    assert answer[:6] == MAC and answer[32:42] == MAC + packed(own)
    return answer[6:12]


def mac_by_solicitation(peer, own: str, target: str) -> bytes:
    answer = ask(peer, solicitation(own, target),
                 lambda frame: kind_of(frame) == IPV6 and frame[54] == 136)
    assert answer[62:78] == packed(target) and answer[78:80] == b"\2\1"
    return answer[80:86]


def ping(peer, mac: bytes, own: str, target: str, data: bytes) -> None:
    answer = ask(peer, echo_request(mac, own, target, data),
                 lambda frame: kind_of(frame) == IPV4 and frame[23] == ICMP)
    assert answer[34] == 0 and answer[42:] == data
    assert checksum(answer[14:34]) == 0 and checksum(answer[34:]) == 0


def ping_v6(peer, mac: bytes, own: str, target: str, data: bytes) -> None:
    answer = ask(peer, echo_request_v6(mac, own, target, data),
                 lambda frame: kind_of(frame) == IPV6 and frame[54] == 129)
    assert answer[62:] == data
    pseudo = answer[22:54] + struct.pack("!II", len(answer) - 54, ICMPV6)
    assert checksum(pseudo + answer[54:]) == 0


def listen_as_qemu(path: pathlib.Path) -> socket.socket:
    """QEMU's `server=on`: removes the socket that it finds and binds its own. Whose it was may have
    bound another one in between."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.settimeout(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        path.unlink(missing_ok=True)
        try:
            server.bind(str(path))
            break
        except OSError:
            assert time.monotonic() < deadline, f"somebody else is at {path} again and again"
    server.listen(1)
    return server


def _connected(path: pathlib.Path) -> socket.socket:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.connect(str(path))
            return connecting
        except OSError:
            connecting.close()
            assert time.monotonic() < deadline, f"nobody listens at {path}"
            time.sleep(POLL_INTERVAL_S)
