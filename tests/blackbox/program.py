"""A program that a test runs: bounded in time, its output kept, nothing of it left behind."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

# Far above what any program of these tests needs on a busy machine: only a hang takes that long.
TIMEOUT_S = 180.0
POLL_INTERVAL_S = 0.005


class Program:
    """A child process in a session of its own, with standard output and error in files, so that no
    full pipe holds it up."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str],
                 log: pathlib.Path, ignored_signals: Sequence[signal.Signals] = ()):
        self.command = list(command)
        self.out_path = log.with_suffix(".out")
        self.err_path = log.with_suffix(".err")

        def ignore_signals() -> None:
            for number in ignored_signals:
                signal.signal(number, signal.SIG_IGN)

        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=dict(environment), cwd=log.parent, start_new_session=True,
                preexec_fn=ignore_signals if ignored_signals else None)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> str:
        return self.out_path.read_text(encoding="utf-8", errors="replace")

    @property
    def err(self) -> str:
        return self.err_path.read_text(encoding="utf-8", errors="replace")

    @property
    def status(self) -> int | None:
        """The exit status, the negated number of the signal that ended it, None while it runs."""
        return self._process.poll()

    def is_running(self) -> bool:
        return self.status is None

    def wait(self, timeout_s: float = TIMEOUT_S) -> Program:
        """Waits for the end, whatever it is. A hang is a failure that shows where it hangs."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s:g} s\n{self.report()}") from None
        return self

    def succeed(self, timeout_s: float = TIMEOUT_S) -> Program:
        """Waits for the end, which must be exit status 0."""
        self.wait(timeout_s)
        assert self.status == 0, self.report()
        return self

    def wait_until(self, is_true, what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until something becomes true that this program does, which must not end before."""
        deadline = time.monotonic() + timeout_s
        while True:
            # In this order: it may do it and end between two looks.
            was_running = self.is_running()
            if is_true():
                return
            assert was_running, f"ended before {what}\n{self.report()}"
            assert time.monotonic() < deadline, f"no {what} in {timeout_s:g} s\n{self.report()}"
            time.sleep(POLL_INTERVAL_S)

    def wait_for_output(self, text: str, timeout_s: float = TIMEOUT_S) -> None:
        self.wait_until(lambda: text in self.out, f"printing \"{text}\"", timeout_s)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it, and whatever it started, as a crash would: nothing of it can clean up. Nothing
        of it is left when this returns."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        deadline = time.monotonic() + TIMEOUT_S
        while left := _living_in_group(self.pid):
            assert time.monotonic() < deadline, f"processes {left} don't die\n{self.report()}"
            time.sleep(POLL_INTERVAL_S)

    def cpu_ticks(self) -> int:
        """What it has used so far: user and system time, in clock ticks (proc(5))."""
        after_name = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = after_name[11:13]
        return int(user) + int(system)

    def report(self) -> str:
        """What it is, how it ended or where it is, and all that it printed."""
        status = self.status
        state = "running" if status is None else f"ended with status {status}"
        parts = [f"--- {' '.join(self.command)}", f"({state})"]
        if status is None:
            parts += [_describe_threads(self.pid)]
        for name, text in (("stdout", self.out), ("stderr", self.err)):
            if text:
                parts += [f"{name}:", text.rstrip()]
        return "\n".join(parts)


def _living_in_group(group: int) -> list[str]:
    """Processes of a group, but for those that have ended and whom nobody has fetched."""
    living = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # It has ended.
        if int(its_group) == group and state not in "ZX":
            living.append(process.name)
    return living


def _describe_threads(pid: int) -> str:
    """Name, state and system call of each thread, as far as the kernel tells us."""

    def read(path: pathlib.Path) -> str:
        try:
            return path.read_text().strip()
        except OSError as error:
            return error.strerror or "?"

    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        state = read(task / "stat").rpartition(")")[2].split()[:1]
        lines.append(f"thread {task.name} {read(task / 'comm')}: state {''.join(state)}, "
                     f"in {read(task / 'wchan')}, system call {read(task / 'syscall')}")
    return "\n".join(lines)
