"""Small verbs programs of our own, for what no program of Debian's does: C files in programs/,
compiled against the system's libibverbs, as any program is."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess

import hosts

SOURCES = pathlib.Path(__file__).resolve().parent / "programs"
BINARIES = hosts.BUILD / "blackbox-programs"


@functools.cache
def compiled(name: str) -> str:
    """The path of a program; it is compiled if its source, or a header, is newer."""
    source = SOURCES / f"{name}.c"
    binary = BINARIES / name
    newest = max(path.stat().st_mtime for path in (source, *SOURCES.glob("*.h")))
    if not binary.exists() or binary.stat().st_mtime < newest:
        BINARIES.mkdir(exist_ok=True)
        # Under a name of its own first: test runs may be at it side by side.
        fresh = BINARIES / f"{name}.{os.getpid()}"
        done = subprocess.run(
            ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", str(hosts.ROOT),
             str(source), "-o", str(fresh), "-Wl,--as-needed", "-libverbs", "-lrdmacm", "-ldl"],
            capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        fresh.replace(binary)
    return str(binary)


def shared_library(name: str, soname: str, *more: str) -> str:
    """The path of a library, under the name that programs load it by, in a folder of its own.
    `more` is for the compiler: what it needs."""
    folder = BINARIES / name
    folder.mkdir(parents=True, exist_ok=True)
    fresh, library = folder / f"{soname}.{os.getpid()}", folder / soname
    done = subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
         str(SOURCES / f"{name}.c"), "-o", str(fresh), f"-Wl,-soname,{soname}", *more],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fresh.replace(library)
    return str(library)
