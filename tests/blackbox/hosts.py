"""A host to test on: unmodified programs, a fabric of their own, and nothing left of either."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from program import POLL_INTERVAL_S, TIMEOUT_S, Program

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where to find bin/verbena and lib/; another one than ./dev build's for a build of one's own.
BUILD = pathlib.Path(os.environ.get("VERBENA_BUILD", ROOT / "build")).resolve()
VERBENA = BUILD / "bin" / "verbena"
LIBRARIES = BUILD / "lib"

LOOPBACK = "127.0.0.1"
# Below the ports that the kernel gives to clients (ip_local_port_range), so that nobody takes one
# between our look and a server's bind().
_PORT_MIN = 20000
_PORT_COUNT = 12000
_TCP_LISTEN = "0A"


class Pair(NamedTuple):
    """A server and a client that talked to each other."""

    server: Program
    client: Program

    def report(self) -> str:
        return f"{self.server.report()}\n{self.client.report()}"


class Host:
    """Programs that share a fabric. The fabric is in a directory of its own in /dev/shm, which must
    be empty at the end: programs clean up after themselves, and after those that died."""

    def __init__(self, logs: pathlib.Path):
        self.logs = logs
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="verbena-blackbox-", dir="/dev/shm"))
        self.fabric = self.directory / "test.fabric"
        self.variables: dict[str, str] = {"VERBENA_FABRIC": str(self.fabric)}
        self.verbena = VERBENA
        # Goes before each command, for example to become another user.
        self.prefix: list[str] = []
        self.programs: list[Program] = []
        self._next_port = os.getpid() * 37 % _PORT_COUNT

    # --- Starting programs

    def start(self, *command: str, options: Sequence[str] = (),
              variables: Mapping[str, str] | None = None, **popen) -> Program:
        """Starts a command under `verbena run [options] --`."""
        return self.start_bare(str(self.verbena), "run", *options, "--", *command,
                               variables=variables, **popen)

    def start_bare(self, *command: str, variables: Mapping[str, str] | None = None,
                   **popen) -> Program:
        """Starts a command as it is. None as the value of a variable removes it."""
        wanted = self._environment() | dict(variables or {})
        environment = {name: value for name, value in wanted.items() if value is not None}
        program = Program([*self.prefix, *command], environment,
                          self.logs / f"{len(self.programs)}", **popen)
        self.programs.append(program)
        return program

    def run(self, *command: str, timeout_s: float = TIMEOUT_S, **how) -> Program:
        """Runs a command under `verbena run` to its end, whatever that is."""
        return self.start(*command, **how).wait(timeout_s)

    def run_bare(self, *command: str, timeout_s: float = TIMEOUT_S, **how) -> Program:
        return self.start_bare(*command, **how).wait(timeout_s)

    def verbena_command(self, *arguments: str, timeout_s: float = TIMEOUT_S, **how) -> Program:
        """Runs the `verbena` command itself."""
        return self.run_bare(str(self.verbena), *arguments, timeout_s=timeout_s, **how)

    def _environment(self) -> dict[str, str]:
        """Ours, without what would reach into the test."""
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("VERBENA_", "LD_", "PYTEST_", "ASAN_", "UBSAN_"))}
        return inherited | {"LC_ALL": "C.UTF-8"} | self.variables

    # --- Servers and clients

    def free_port(self) -> int:
        """A TCP port that nobody listens on. Never the same one twice within a test."""
        for _ in range(_PORT_COUNT):
            port = _PORT_MIN + self._next_port
            self._next_port = (self._next_port + 1) % _PORT_COUNT
            with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
                try:
                    probe.bind(("::", port))
                except OSError:
                    continue
                return port
        raise AssertionError("no TCP port is free")

    def start_server(self, *command: str, **how) -> tuple[Program, int]:
        """Starts a server with `-p PORT` added, and waits until it listens there."""
        port = self.free_port()
        server = self.start(*command, "-p", str(port), **how)
        self.wait_for_listener(server, port)
        return server, port

    def wait_for_listener(self, server: Program, port: int) -> None:
        server.wait_until(lambda: _is_listening(port), f"listening on port {port}")

    def start_pair(self, *command: str, server_arguments: Sequence[str] = (),
                   client_arguments: Sequence[str] = (), server_how: Mapping = {},
                   client_how: Mapping = {}, **how) -> Pair:
        """Starts the same command as server and as client."""
        server, port = self.start_server(*command, *server_arguments, **{**how, **server_how})
        client = self.start(*command, *client_arguments, "-p", str(port), LOOPBACK,
                            **{**how, **client_how})
        return Pair(server, client)

    def pair(self, *command: str, timeout_s: float = TIMEOUT_S, **how) -> Pair:
        """Runs the same command as server and as client. Both must succeed."""
        pair = self.start_pair(*command, **how)
        self.wait_for_both(pair, timeout_s)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
        return pair

    def start_endless(self, tool: str, *arguments: str) -> Pair:
        """Starts a transfer of perftest's that only a signal ends, and waits until it goes on."""
        # Line by line, or else what it prints stays in a buffer until it ends.
        pair = self.start_pair("stdbuf", "-oL", tool, "-F", "-N", "-n", "100000000", *arguments)
        pair.client.wait_for_output("#bytes")
        # Before the first answer the two of them still talk over TCP, which would tell who ends.
        pair.client.wait_until(lambda: self.has_received(pair.client), "receiving packets")
        return pair

    def has_received(self, program: Program) -> bool:
        """Whether its device has received a packet, as far as that is published."""
        shown = self.verbena_command("counters", "--json", "--pid", str(program.pid))
        return any(device["counters"]["rcvd_pkts"] > 0
                   for device in json.loads(shown.out or "[]"))

    def wait_for_both(self, pair: Pair, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until both have ended, however they ended. If one hangs, both are shown."""
        deadline = time.monotonic() + timeout_s
        while any(program.is_running() for program in pair):
            assert time.monotonic() < deadline, (
                f"still running after {timeout_s:g} s\n{pair.report()}")
            time.sleep(POLL_INTERVAL_S)

    # --- What is left

    def files(self) -> list[str]:
        """What is in the fabric's directory."""
        return sorted(path.name for path in self.directory.iterdir())

    def close(self) -> None:
        """Ends what still runs, and looks for what was left behind."""
        someone_crashed = False
        for program in self.programs:
            if program.is_running():
                program.kill()
            someone_crashed |= program.status is not None and program.status < 0
        try:
            if someone_crashed:
                # Nobody can clean up after the last one but the next one.
                self.run("ibv_devinfo")
            files = self.files()
            assert files == [], f"the programs left files of the fabric behind: {files}"
            left = _processes_with(f"VERBENA_FABRIC={self.fabric}")
            assert left == [], f"processes are left: {left}"
        finally:
            shutil.rmtree(self.directory)


def _is_listening(port: int) -> bool:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            local, state = (line.split()[column] for column in (1, 3))
            if state == _TCP_LISTEN and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def _processes_with(setting: str) -> list[str]:
    """Processes that have this in their environment, but for this one."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            if setting.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()!r}")
        except OSError:
            continue  # It has ended, or it isn't ours.
    return found


def stop(program: Program) -> None:
    """Holds a program, as a debugger would."""
    program.send_signal(signal.SIGSTOP)
