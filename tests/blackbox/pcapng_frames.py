"""The frames of a pcapng file, read by a few lines that share nothing with the writer's code
(draft-ietf-opsawg-pcapng): the machine's own byte order, Enhanced Packet Blocks."""

from __future__ import annotations

import pathlib
import struct
from typing import NamedTuple

SECTION_HEADER = 0x0A0D0D0A
ENHANCED_PACKET = 0x00000006
BYTE_ORDER_MAGIC = 0x1A2B3C4D
OPTION_COMMENT = 1
OPTION_FLAGS = 2
DIRECTIONS = {1: "in", 2: "out"}


class Frame(NamedTuple):
    time_ns: int
    direction: str
    data: bytes
    comments: tuple[str, ...]


def read_frames(path: pathlib.Path) -> list[Frame]:
    """All frames, in the order of the file. Anything unexpected is an error."""
    content = path.read_bytes()
    frames = []
    offset = 0
    while offset < len(content):
        block_type, length = struct.unpack_from("=II", content, offset)
        assert length >= 12 and length % 4 == 0, f"{path}: block of {length} bytes at {offset}"
        body = content[offset + 8:offset + length - 4]
        assert len(body) == length - 12, f"{path}: cut short at {offset}"
        assert content[offset + length - 4:offset + length] == content[offset + 4:offset + 8]
        if block_type == SECTION_HEADER:
            assert struct.unpack_from("=I", body)[0] == BYTE_ORDER_MAGIC
        elif block_type == ENHANCED_PACKET:
            frames.append(_frame(body))
        offset += length
    return frames


def _frame(body: bytes) -> Frame:
    _, high, low, captured, original = struct.unpack_from("=IIIII", body)
    assert captured == original, "a frame was cut"
    direction, comments = "unknown", []
    offset = 20 + captured + -captured % 4
    while offset < len(body):
        code, length = struct.unpack_from("=HH", body, offset)
        value = body[offset + 4:offset + 4 + length]
        if code == OPTION_FLAGS:
            direction = DIRECTIONS[struct.unpack("=I", value)[0] & 3]
        elif code == OPTION_COMMENT:
            comments.append(value.decode())
        offset += 4 + length + -length % 4
    return Frame(high << 32 | low, direction, body[20:20 + captured], tuple(comments))
