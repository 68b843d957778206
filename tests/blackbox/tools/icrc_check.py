#!/usr/bin/env python3
"""Checks the ICRC of every RoCE packet of captures (pcap or pcapng).

An implementation of its own, from the specification (IBTA vol 1, 7.8.1; annex A16.5.1.4 for RoCE
v1, A17.3.3 for RoCE v2), that shares nothing with Verbena's code: the oracle of the tests.

usage: icrc_check.py FILE...      exit status 1 if an ICRC is wrong or a file has no RoCE packet
"""

from __future__ import annotations

import pathlib
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

ROCE_V1 = 0x8915
IPV4 = 0x0800
IPV6 = 0x86DD
VLAN_TAGS = (0x8100, 0x88A8)
UDP = 17
ROCE_V2_PORT = 4791
ICRC_BYTES = 4
# Stands for the local route header, which Ethernet doesn't have.
MISSING_LRH = b"\xff" * 8


class Icrc(NamedTuple):
    """Both as numbers; on the wire the least significant byte comes first."""

    wire: int
    computed: int

    @property
    def is_good(self) -> bool:
        return self.wire == self.computed


# --- Capture files


def frames_of(content: bytes) -> Iterator[bytes]:
    """The frames of a capture, whole ones only."""
    if content[:4] == b"\x0a\x0d\x0d\x0a":
        yield from _frames_of_pcapng(content)
    else:
        yield from _frames_of_pcap(content)


def _frames_of_pcap(content: bytes) -> Iterator[bytes]:
    little = content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
    big = content[:4] in (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")
    if not (little or big):
        raise ValueError("neither pcap nor pcapng")
    order = "<" if little else ">"
    offset = 24
    while offset < len(content):
        captured, original = struct.unpack_from(order + "II", content, offset + 8)
        if captured != original or offset + 16 + captured > len(content):
            raise ValueError(f"a frame is cut, at byte {offset}")
        yield content[offset + 16:offset + 16 + captured]
        offset += 16 + captured


def _frames_of_pcapng(content: bytes) -> Iterator[bytes]:
    order = "<"
    offset = 0
    while offset < len(content):
        if content[offset:offset + 4] == b"\x0a\x0d\x0d\x0a":
            order = "<" if content[offset + 8:offset + 12] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, length = struct.unpack_from(order + "II", content, offset)
        if length < 12 or offset + length > len(content):
            raise ValueError(f"a block is cut, at byte {offset}")
        if kind == 6:
            captured, original = struct.unpack_from(order + "II", content, offset + 20)
            if captured != original:
                raise ValueError(f"a frame is cut, at byte {offset}")
            yield content[offset + 28:offset + 28 + captured]
        offset += length


# --- The ICRC


def icrc_of(frame: bytes) -> Icrc | None:
    """Both ICRCs of an Ethernet frame without FCS; None if it isn't RoCE."""
    offset = 12
    ethertype, = struct.unpack_from("!H", frame, offset)
    while ethertype in VLAN_TAGS:
        offset += 4
        ethertype, = struct.unpack_from("!H", frame, offset)
    packet = bytearray(frame[offset + 2:])
    if ethertype == ROCE_V1:
        return _icrc(packet, 40 + _u16(packet, 4), bth=40, masked=_ipv6_masks())
    if ethertype == IPV4 and packet[9] == UDP and _u16(packet, 22) == ROCE_V2_PORT:
        # Type of service, time to live, header checksum, UDP checksum.
        masks = [(1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF), (26, 0xFF), (27, 0xFF)]
        return _icrc(packet, _u16(packet, 2), bth=28, masked=masks)
    if ethertype == IPV6 and packet[6] == UDP and _u16(packet, 42) == ROCE_V2_PORT:
        masks = _ipv6_masks() + [(46, 0xFF), (47, 0xFF)]
        return _icrc(packet, 40 + _u16(packet, 4), bth=48, masked=masks)
    return None


def _u16(packet: bytearray, offset: int) -> int:
    return struct.unpack_from("!H", packet, offset)[0]


def _ipv6_masks() -> list[tuple[int, int]]:
    """Traffic class and flow label, but not the version before them; hop limit."""
    return [(0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF)]


def _icrc(packet: bytearray, size: int, bth: int, masked: list[tuple[int, int]]) -> Icrc:
    if size > len(packet):
        raise ValueError(f"a length field says {size} bytes, there are {len(packet)}")
    del packet[size:]  # Ethernet padding
    wire, = struct.unpack_from("<I", packet, size - ICRC_BYTES)
    del packet[size - ICRC_BYTES:]
    # FECN, BECN and the reserved bits beside them may be changed on the way.
    for offset, mask in [*masked, (bth + 4, 0xFF)]:
        packet[offset] |= mask
    return Icrc(wire, zlib.crc32(MISSING_LRH + bytes(packet)))


def icrcs_of_file(path: pathlib.Path) -> list[Icrc]:
    """One for each RoCE packet, in the order of the file."""
    found = (icrc_of(frame) for frame in frames_of(path.read_bytes()))
    return [icrc for icrc in found if icrc is not None]


def main(paths: list[str]) -> int:
    if not paths:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        icrcs = icrcs_of_file(pathlib.Path(path))
        bad = sum(not icrc.is_good for icrc in icrcs)
        print(f"{path}: {len(icrcs) - bad} good, {bad} bad")
        if bad or not icrcs:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
