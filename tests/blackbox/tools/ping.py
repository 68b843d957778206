"""Asks an address for an echo through the kernel: `ping.py ADDRESS` says "answered", or fails."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
import time

TIMEOUT_S = 50.0
# The kernel looks for a neighbour for 3 s, and drops what waits for one.
INTERVAL_S = 1.0
TEXT = b"is anybody there?"


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def main(address: str) -> None:
    is_v4 = ipaddress.ip_address(address).version == 4
    kind, protocol = (8, socket.IPPROTO_ICMP) if is_v4 else (128, socket.IPPROTO_ICMPV6)
    question = struct.pack("!BBHHH", kind, 0, 0, 77, 1) + TEXT
    if is_v4:  # The kernel computes that of ICMPv6.
        question = question[:2] + struct.pack("!H", checksum(question)) + question[4:]
    family = socket.AF_INET if is_v4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.settimeout(INTERVAL_S)
        deadline = time.monotonic() + TIMEOUT_S
        raw.sendto(question, (address, 0))
        while time.monotonic() < deadline:
            try:
                answer, (sender, *_) = raw.recvfrom(2048)
            except OSError:  # Nothing came, or that there is nobody yet.
                raw.sendto(question, (address, 0))
                continue
            if sender == address and answer.endswith(TEXT):
                print("answered")
                return
    sys.exit("no answer")


if __name__ == "__main__":
    main(sys.argv[1])
