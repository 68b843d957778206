#!/usr/bin/env python3
"""clang-tidy over the files of a build, many at a time.

Most of clang-tidy's time goes into what a file includes, and it walks all of that anew for each
file: hours for the whole project. So the sources of a folder are looked at together, as one file
that includes them. Two that can't live together (each has a helper of the same name) go into
different batches: the compiler tells.

usage: tidy.py [--jobs N] BUILD [FOLDER ...]

BUILD has the compile_commands.json; FOLDERs are those of the project, by default all. Exits with 1
if there is a finding.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("base", "proto", "nic_model", "pcap", "faults", "ports", "sim", "verbs", "cli", "lab",
           "examples", "bench", "fuzz", "tests")
CLANG = "clang++-19"
TIDY = "clang-tidy-19"
BATCH_MAX = 24
# What the code needs to know; the warnings are the build's, as far as clang knows them.
NEEDED = re.compile(r"-[DI].|-std=|-W(?!error)")
ERROR_AT = re.compile(r"^(/[^:\n]+):\d+:\d+: (?:fatal )?error:", re.MULTILINE)
# A batch includes source files, of which the compiler can't know that they are main files.
EXTRA = ("-Wno-unknown-warning-option", "-Wno-unused-function", "-Wno-pragma-once-outside-header")
NOT_FOR_BATCHES = "-bugprone-suspicious-include"


class Batch:
    """Source files of one folder that compile together."""

    def __init__(self, place: pathlib.Path, number: int, files: list[str], flags: list[str]):
        self.files = files
        self.flags = flags
        self.path = place / f"batch-{number}{pathlib.Path(files[0]).suffix}"

    def write(self) -> None:
        self.path.write_text("".join(f'#include "{file}"\n' for file in self.files))

    def run(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    def misfits(self) -> set[str]:
        """Those in which the compiler finds an error because the others are there."""
        self.write()
        done = self.run(CLANG, *self.flags, "-fsyntax-only", "-ferror-limit=0", "-w",
                        *(("-x", "c") if self.path.suffix == ".c" else ()), str(self.path))
        if done.returncode == 0 or len(self.files) == 1:
            return set()
        blamed = set(ERROR_AT.findall(done.stderr)) & set(self.files[1:])
        return blamed or {self.files[-1]}

    def findings(self) -> str:
        self.write()
        folder = os.path.dirname(self.files[0])
        # The configuration of a folder counts for its files: it is looked up beside the batch.
        config = next(parent / ".clang-tidy" for parent in pathlib.Path(folder, "x").parents
                      if (parent / ".clang-tidy").exists())
        done = self.run(TIDY, "--quiet", f"--checks={NOT_FOR_BATCHES}{inherited(config)}",
                        f"--config-file={ROOT / '.clang-tidy'}", f"--header-filter=^{ROOT}/",
                        str(self.path), "--", *self.flags, *EXTRA)
        if done.returncode != 0 and not done.stdout.strip():
            return f"{' '.join(self.files)}: {TIDY} failed\n{done.stderr}"
        return done.stdout


def inherited(config: pathlib.Path) -> str:
    """The checks that a folder's own configuration adds or takes away."""
    if config.parent == ROOT:
        return ""
    checks = re.search(r"^Checks: (\S+)", config.read_text(), re.MULTILINE)
    return f",{checks.group(1)}" if checks else ""


def needed(command: str) -> tuple[str, ...]:
    """The options of a compiler's command that change what the code means, and the warnings."""
    words = shlex.split(command)
    options = {word for word in words if NEEDED.match(word)}
    return tuple(sorted(options)) + tuple(
        sorted(f"-isystem{word}" for flag, word in itertools.pairwise(words) if flag == "-isystem"))


def groups(build: pathlib.Path, folders: list[str]) -> dict[tuple, list[str]]:
    """The files by folder, language and flags."""
    found: dict[tuple, set[str]] = collections.defaultdict(set)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = entry["file"]
        if any(file.startswith(f"{ROOT / folder}/") for folder in folders):
            key = os.path.dirname(file), pathlib.Path(file).suffix, needed(entry["command"])
            found[key].add(file)
    return {key: sorted(files) for key, files in sorted(found.items())}


def look_at(place: pathlib.Path, number: int, files: list[str],
            flags: list[str]) -> tuple[int, str]:
    """Looks at the files of one group. Returns how many batches it took, and the findings."""
    left, batches, findings = list(files), 0, ""
    while left:
        batch = Batch(place, number, left[:BATCH_MAX], flags)
        while misfits := batch.misfits():
            batch.files = [file for file in batch.files if file not in misfits]
        left = [file for file in left if file not in batch.files]
        findings += batch.findings()
        batches += 1
    return batches, findings


def main() -> int:
    parser = argparse.ArgumentParser(description="clang-tidy over the files of a build.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    wishes = parser.parse_args()
    if unknown := [folder for folder in wishes.folders if not (ROOT / folder).is_dir()]:
        parser.error(f"there is no folder {unknown[0]}")
    place = wishes.build.resolve() / "lint"
    place.mkdir(exist_ok=True)
    found = groups(wishes.build, wishes.folders)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(wishes.jobs) as pool:
        running = {}
        for number, (key, files) in enumerate(found.items()):
            running[pool.submit(look_at, place, number, files, list(key[2]))] = key[0], files
        for count, done in enumerate(concurrent.futures.as_completed(running), 1):
            folder, files = running[done]
            batches, findings = done.result()
            print(f"[{count}/{len(running)}] {os.path.relpath(folder, ROOT)}: {len(files)} files "
                  f"in {batches} batches", flush=True)
            if findings.strip():
                failed = True
                print(findings, flush=True)
    total = sum(len(files) for files in found.values())
    print(f"{total} files: {'findings, see above' if failed else 'nothing found'}")
    return failed or total == 0


if __name__ == "__main__":
    sys.exit(main())
