#!/usr/bin/env python3
"""Checks that tshark reads captures of RoCE traffic with nothing to complain about: no malformed
packet, no warning, every frame InfiniBand with an ICRC where it belongs.

What tshark 4.0 gets wrong is turned off or allowed for: it takes short SENDs for RPC-over-RDMA and
some payloads for Ethernet, calls the UDP checksum 0 of RoCE v2 over IPv6 an error, and doesn't know
the opcodes of CNP, XRC, FLUSH and ATOMIC WRITE.

usage: tshark_clean.py FILE...      exit status 1 if there is something
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Sequence

TSHARK = ["tshark", "-n", "-o", "udp.ignore_ipv6_zero_checksum:TRUE",
          "--disable-heuristic", "rpcrdma_infiniband",
          "--disable-heuristic", "rpcrdma_iwarp",
          "--disable-heuristic", "eth_over_ib"]

FIELDS = ["frame.number", "_ws.malformed", "_ws.short", "_ws.unreassembled",
          "_ws.expert.severity", "_ws.expert.message", "infiniband.bth.opcode",
          "infiniband.vendor", "infiniband.invariant.crc", "_ws.col.Info"]
# Values of severities: comment 0x100000, chat 0x200000, note 0x400000, warning 0x600000, error
# 0x800000.
WARNING = 0x600000
# Opcodes that tshark 4.0 doesn't dissect behind the BTH.
OPCODES_UNKNOWN_TO_TSHARK = {0x1C, 0x1D, 0x5C, 0x81, *range(0xA0, 0xC0)}
SEPARATOR = "\t"
VALUES_BETWEEN = "\x1f"


def fields_of(path: pathlib.Path, fields: Sequence[str],
              options: Sequence[str] = ()) -> list[list[str]]:
    """The fields of each frame; several values of one field are joined by VALUES_BETWEEN. An error
    of tshark's, for example an unknown field or a file that is cut, is a RuntimeError."""
    names = [argument for field in fields for argument in ("-e", field)]
    result = subprocess.run(
        [*TSHARK, *options, "-r", str(path), "-T", "fields", *names, "-E", f"separator={SEPARATOR}",
         "-E", f"aggregator={VALUES_BETWEEN}"],
        capture_output=True, text=True, errors="replace", check=False)
    if result.returncode != 0:
        raise RuntimeError(f"tshark on {path}: {result.stderr.strip()}")
    rows = [line.split(SEPARATOR) for line in result.stdout.splitlines()]
    assert all(len(row) == len(fields) for row in rows), "a value contains a separator"
    return rows


def problems_of_row(row: dict[str, str]) -> list[str]:
    """What is wrong with one frame."""
    problems = [name for name in ("_ws.malformed", "_ws.short", "_ws.unreassembled") if row[name]]
    severities = [int(value, 0) for value in row["_ws.expert.severity"].split(VALUES_BETWEEN)
                  if value]
    if any(severity >= WARNING for severity in severities):
        problems.append(f"expert information: {row['_ws.expert.message']!r}")
    # Frames that are cut are no "malformed" ones to tshark 4.0.
    if "Invalid Packet Length" in row["_ws.col.Info"]:
        problems.append("invalid packet length")
    if not row["infiniband.bth.opcode"]:
        problems.append("no BTH")
    elif int(row["infiniband.bth.opcode"], 0) not in OPCODES_UNKNOWN_TO_TSHARK:
        if row["infiniband.vendor"]:
            problems.append("unknown opcode")
        if not row["infiniband.invariant.crc"]:
            problems.append("no ICRC")
    return problems


def problems_of(path: pathlib.Path) -> list[str]:
    """Everything that tshark has against a capture; empty if it is clean. A capture without frames
    isn't."""
    rows = fields_of(path, FIELDS)
    problems = [] if rows else ["no frames"]
    for row in rows:
        named = dict(zip(FIELDS, row))
        problems += [f"frame {named['frame.number']}: {problem}"
                     for problem in problems_of_row(named)]
    return problems


def main(paths: list[str]) -> int:
    if not paths:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        problems = problems_of(pathlib.Path(path))
        print(f"{path}: {'clean' if not problems else f'{len(problems)} problems'}")
        for problem in problems:
            print(f"  {problem}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
