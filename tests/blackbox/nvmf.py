"""The programs of examples/nvmf, and what tshark makes of their captures."""

from __future__ import annotations

import json
import pathlib
import re

import hosts
from program import Program
from tools.tshark_clean import fields_of

TARGET = str(hosts.BUILD / "examples" / "nvmf_target")
INITIATOR = str(hosts.BUILD / "examples" / "nvmf_initiator")
PORT = 4420
NQN = "nqn.2026-11.example.verbena:memory"


def start_target(host: hosts.Host, port: int, *arguments: str, **how) -> Program:
    target = host.start(TARGET, "--port", str(port), *arguments, **how)
    target.wait_for_output("listening on")
    return target


def stop_target(target: Program) -> str:
    """Ends it as Ctrl-C would. Returns its last line, with the totals."""
    target.send_signal(2)
    return target.succeed().out.splitlines()[-1]


def run_initiator(host: hosts.Host, port: int, *arguments: str, **how) -> dict:
    program = host.run(INITIATOR, "--port", str(port), "--json", *arguments, **how)
    assert program.status == 0, program.report()
    return json.loads(program.out)


# What our captures say of a frame that is sent again, and of one that wasn't taken.
AGAIN = re.compile(r"retransmission|replay|(duplicate|early|refused|dropped) by the ")


class Seen:
    """What tshark finds in a capture: a text for each frame, and how often each command comes. A
    peer that wasn't scheduled for a while may make the other one send again: each is there once."""

    def __init__(self, capture: pathlib.Path, port: int):
        rows = fields_of(capture, ["_ws.malformed", "_ws.col.Info", "frame.comment"],
                         ["-o", f"nvme-rdma.subsystem_ports:{port}"])
        self.malformed = [info for malformed, info, _ in rows if malformed]
        self.lines = [info for _, info, comment in rows if not AGAIN.match(comment)]

    def count(self, command: str) -> int:
        """Frames in which this command ends: capsules, named for what is in them."""
        return sum(1 for line in self.lines if re.search(rf"\| {command}\b", line))

    def unnamed(self) -> list[str]:
        """Messages of queue pairs that tshark has no name for."""
        return [line for line in self.lines
                if re.match(r"RC (Send|RDMA Write|RDMA Read Request)", line) and "|" not in line]
