"""What tshark finds in captures of iWARP traffic: what it complains about, and how many FPDUs have
a good CRC."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import NamedTuple

from tools.tshark_clean import TSHARK, VALUES_BETWEEN, WARNING, fields_of

# tshark 4.0 takes revision 2 and the bits that it gave a meaning for errors.
FORGIVEN = re.compile(r"(Res|Rev) field is NOT set")
FIELDS = ["frame.number", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message",
          "iwarp_mpa.ulpdulength", "iwarp_rdma.opcode", "_ws.col.Info"]


class Seen(NamedTuple):
    """What tshark finds in a capture."""

    # Everything that it has against it.
    problems: list[str]
    fpdus: int
    good_crcs: int
    # "MPA Request Frame", "Write [last DDP segment]", ..., a line for each frame.
    lines: list[str]


def _problems_of(row: dict[str, str]) -> list[str]:
    problems = ["malformed"] if row["_ws.malformed"] else []
    severities = [value for value in row["_ws.expert.severity"].split(VALUES_BETWEEN) if value]
    messages = row["_ws.expert.message"].split(VALUES_BETWEEN)
    problems += [message for severity, message in zip(severities, messages)
                 if int(severity, 0) >= WARNING and not FORGIVEN.search(message)]
    return [f"frame {row['frame.number']}: {problem}" for problem in problems]


def look_at(path: pathlib.Path) -> Seen:
    rows = [dict(zip(FIELDS, row)) for row in fields_of(path, FIELDS)]
    details = subprocess.run([*TSHARK, "-V", "-O", "iwarp_mpa", "-r", str(path)],
                             capture_output=True, text=True, errors="replace", check=True).stdout
    problems = [problem for row in rows for problem in _problems_of(row)]
    problems += re.findall(r"CRC check: .*Bad CRC.*", details)
    return Seen(problems if rows else ["no frames"],
                len(re.findall(r"ULPDU length: ", details)),
                details.count("(Good CRC32)"),
                [row["_ws.col.Info"] for row in rows])
