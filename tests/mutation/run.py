#!/usr/bin/env python3
"""Breaks the NIC on purpose, one line at a time, and checks that a scenario notices.

    run.py [--build DIR] [--from N] [WORD ...]

DIR is a build directory. For each mutant of mutants.py (or those whose names contain a WORD) the
one file is compiled into an object that takes the sound one's place in a program that runs all
scenarios. The exit status is 0 only if every mutant makes a scenario fail, and every scenario that
docs/scenario-index.md names fails for some mutant.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

from mutants import MUTANTS, Mutant

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "scenario-index.md"
TARGET = "mutation_runner"
RUNNER = "tests/mutation_runner"
SECONDS_MAX = 900


class Broken(Exception):
    """Why a mutant can't be tried."""


def run(command: list[str], cwd: pathlib.Path, seconds: int = SECONDS_MAX):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False,
                          timeout=seconds)


class Workshop:
    """A build directory, with the commands that compile one file and link the runner."""

    def __init__(self, build: pathlib.Path):
        self.build = build
        self.folder = build / "mutation"
        self.folder.mkdir(exist_ok=True)
        made = run(["ninja", TARGET], build)
        if made.returncode != 0:
            sys.exit(made.stdout[-2000:])
        self.compile = {entry["file"]: shlex.split(entry["command"])
                        for entry in json.loads((build / "compile_commands.json").read_text())}
        commands = run(["ninja", "-t", "commands", TARGET], build).stdout.splitlines()
        self.link = commands[-1]

    def program_for(self, mutant: Mutant) -> pathlib.Path:
        source = ROOT / mutant.file
        text = source.read_text()
        if text.count(mutant.old) != 1:
            raise Broken("its line isn't in the source exactly once: bring the list up to date")
        broken = self.folder / source.name
        broken.write_text(text.replace(mutant.old, mutant.new))
        obj = broken.with_suffix(".o")
        command = list(self.compile[str(source)])
        command[command.index("-o") + 1] = str(obj)
        command[command.index(str(source))] = str(broken)
        # What a broken line leaves unused is no error. Compiled fast, because it runs once.
        compiled = run([*command, "-Wno-error", "-O1", "-g0"], self.build)
        if compiled.returncode != 0:
            raise Broken("it doesn't compile:\n" + compiled.stderr[-2000:])
        program = self.folder / "runner"
        linked = run(["sh", "-c", self.link.replace(f" -o {RUNNER} ", f" -o {program} {obj} ")],
                     self.build)
        if linked.returncode != 0:
            raise Broken("it doesn't link:\n" + linked.stderr[-2000:])
        return program

    def failing_scenarios(self, program: pathlib.Path) -> list[str]:
        """Names of files, with how they fail if it isn't by an expectation."""
        lines = run([str(program), str(ROOT / "scenarios")], ROOT).stdout.splitlines()
        names = []
        for line in lines:
            path, how = line.split(" ", 1)
            name = pathlib.Path(path).stem
            names.append(name if how == "fails" else f"{name} ({how})")
        return names


def names_in_index() -> set[str]:
    return set(re.findall(r"\.\./scenarios/(\w+)\.toml", INDEX.read_text()))


def try_all(workshop: Workshop, mutants: list[Mutant]) -> tuple[int, dict[str, list[str]]]:
    """How many weren't caught, and which mutants each scenario caught."""
    uncaught = 0
    catches: dict[str, list[str]] = collections.defaultdict(list)
    for number, mutant in enumerate(mutants, 1):
        try:
            failing = workshop.failing_scenarios(workshop.program_for(mutant))
            fate = "caught by " + ", ".join(failing) if failing else "SURVIVES"
        except Broken as reason:
            failing, fate = [], f"WRONG: {reason}"
        uncaught += not failing
        for name in failing:
            catches[name.split()[0]].append(mutant.name)
        print(f"[{number}/{len(mutants)}] {mutant.name}: {fate}", flush=True)
    return uncaught, catches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "dev")
    parser.add_argument("--from", type=int, default=1, dest="first", help="begin with the N-th")
    parser.add_argument("words", nargs="*", help="only mutants whose names contain one of these")
    arguments = parser.parse_args()
    os.nice(5)
    started = time.monotonic()
    workshop = Workshop(arguments.build.resolve())
    if failing := workshop.failing_scenarios(workshop.build / RUNNER):
        print(f"scenarios fail without a mutant: {', '.join(failing)}", file=sys.stderr)
        return 1
    mutants = [mutant for mutant in MUTANTS[arguments.first - 1:]
               if not arguments.words or any(word in mutant.name for word in arguments.words)]
    uncaught, catches = try_all(workshop, mutants)
    unproven: list[str] = []
    if len(mutants) == len(MUTANTS):
        print("\nWhat makes each scenario of the index fail:")
        for name in sorted(names_in_index()):
            print(f"  {name:<32} {'; '.join(catches[name]) or 'NOTHING'}")
        unproven = [name for name in names_in_index() if not catches[name]]
    print(f"\n{len(mutants)} mutants, {uncaught} not caught; {len(unproven)} scenarios that no "
          f"mutant makes fail; {time.monotonic() - started:.0f} s")
    return 1 if uncaught or unproven else 0


if __name__ == "__main__":
    sys.exit(main())
