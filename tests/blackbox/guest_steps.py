"""A guest of the lab that runs what it is given until it is told to quit: many tests, one boot."""

from __future__ import annotations

import os
from pathlib import Path

import hosts
from guest_limits import BOOT_LIMIT_S, GUEST_LIMIT_S, STEP_LIMIT_HERE_S, STEP_LIMIT_S

# Runs what comes as NAME.sh, each at once: output in NAME.out, status in NAME.status.
SERVE_STEPS = """{setup} || exit
touch ready
while [ ! -e quit ]; do
  for script in *.sh; do
    [ -e "$script" ] || continue
    name=${{script%.sh}}
    mv "$script" "$name.begun"
    (timeout {limit:.0f} bash -e "$name.begun" >"$name.out" 2>&1; echo $? >"$name.status") &
  done
  sleep 0.1
done
"""


class Guest:
    """`setup` is a line of the guest's shell, which must be good; `share` is where it begins."""

    def __init__(self, host: hosts.Host, share: Path, setup: str, *options: str):
        self.share = share
        self._steps = 0
        self.program = host.start_bare(
            str(host.verbena), "lab", "run", "--share", str(share), *options, "--timeout",
            f"{GUEST_LIMIT_S:.0f}", "--", SERVE_STEPS.format(setup=setup, limit=STEP_LIMIT_S))
        self.wait_for_file("ready", BOOT_LIMIT_S)

    def wait_for_file(self, name: str, timeout_s: float = STEP_LIMIT_HERE_S) -> None:
        """That the guest makes."""
        self.program.wait_until((self.share / name).exists, name, timeout_s=timeout_s)

    def start(self, command: str) -> str:
        """Lets the guest begin a command. Returns the name of the step."""
        self._steps += 1
        name = f"step{self._steps}"
        # Whole or not at all, as the guest looks at any time.
        fresh = self.share / f"{name}.new"
        fresh.write_text(command)
        os.rename(fresh, self.share / f"{name}.sh")
        return name

    def end(self, name: str, status: int = 0) -> str:
        """Waits for the end of a step, which must have this status. Returns its output."""
        path = self.share / f"{name}.status"
        self.program.wait_until(lambda: path.exists() and path.read_text().endswith("\n"), name,
                                timeout_s=STEP_LIMIT_HERE_S)
        output = (self.share / f"{name}.out").read_text()
        assert path.read_text() == f"{status}\n", f"in the guest:\n{output}"
        return output

    def run(self, command: str, status: int = 0) -> str:
        return self.end(self.start(command), status)

    def quit(self) -> None:
        (self.share / "quit").touch()
        self.program.succeed()
