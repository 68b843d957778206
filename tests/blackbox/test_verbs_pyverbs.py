"""rdma-core's own test-suite for verbs, pyverbs, on the emulated NIC.

It skips what a device says it doesn't support; so that losing a capability shows, the tests that
must pass are listed in pyverbs_passing.txt. All others must be skipped; none may fail.
"""

from __future__ import annotations

import gzip
import pathlib
import re

import pytest

import hosts
from program import Program

# Where Debian's python3-pyverbs puts the suite, most of it compressed.
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PASSING = pathlib.Path(__file__).with_name("pyverbs_passing.txt")
PASSING_IWARP = pathlib.Path(__file__).with_name("pyverbs_passing_iwarp.txt")
RUNNER = pathlib.Path(__file__).with_name("tools") / "run_pyverbs.py"
TIMEOUT_S = 300.0

# "test_pd (tests.test_pd.PDTest.test_pd)", perhaps a line of description, " ... ok"; lines of the
# test's own output, and warnings, may stand before the word.
RESULT = re.compile(
    r"^\w+ \((tests\.[\w.]+)\)(?:\n[^\n]*?)? \.\.\. "
    r"(?:(?!\w+ \(tests\.)[^\n]*\n)*?(ok|skipped|FAIL|ERROR)", re.M)


@pytest.fixture
def suite(tmp_path) -> pathlib.Path:
    if not SUITE.is_dir():
        pytest.fail(f"{SUITE} doesn't exist: install python3-pyverbs, with its documentation")
    directory = tmp_path / "tests"
    directory.mkdir()
    for source in SUITE.iterdir():
        if source.suffix == ".gz":
            (directory / source.stem).write_bytes(gzip.decompress(source.read_bytes()))
        elif source.suffix == ".py":
            (directory / source.name).write_bytes(source.read_bytes())
    return directory


def run_suite(host, suite, device: str, *arguments: str) -> Program:
    return host.run("/usr/bin/python3", str(RUNNER), str(suite), hosts.LOOPBACK, "--dev", device,
                    *arguments, "-v", timeout_s=TIMEOUT_S)


def test_pyverbs_suite_on_iwarp(host, suite):
    """It has no notion of queue pairs that only rdma_cm can connect, so many tests fail there, as
    on Linux' siw."""
    host.variables["VERBENA_TRANSPORT"] = "iwarp"
    # By itself it looks for a GID of RoCE.
    program = run_suite(host, suite, "verbena_iw0", "--gid", "0")
    passed = {name for name, result in RESULT.findall(program.err) if result == "ok"}
    expected = {line for line in PASSING_IWARP.read_text().splitlines()
                if not line.startswith("#")}
    assert passed >= expected, f"no longer passing: {sorted(expected - passed)}"
    assert "Failed to modify QP state to RTR" in program.err, program.report()


def test_pyverbs_suite(host, suite):
    program = run_suite(host, suite, "verbena0").succeed()
    results = dict(RESULT.findall(program.err))
    announced = int(re.search(r"^Ran (\d+) tests", program.err, re.M)[1])
    assert len(results) == announced, program.report()
    passed = {name for name, result in results.items() if result == "ok"}
    expected = {line for line in PASSING.read_text().splitlines() if not line.startswith("#")}
    assert passed >= expected, f"no longer passing: {sorted(expected - passed)}"
    assert passed <= expected, f"now passing, add to {PASSING.name}: {sorted(passed - expected)}"


def test_every_extension_module_of_pyverbs_resolves(host):
    """Python loads them lazily: a symbol that is missing would show in one test only."""
    modules = sorted(pathlib.Path("/usr/lib/python3/dist-packages/pyverbs").rglob("*.so"))
    assert len(modules) > 20, "python3-pyverbs is not installed"
    for module in modules:
        program = host.run_bare("ldd", "-r", str(module), variables={
            "LD_LIBRARY_PATH": str(hosts.LIBRARIES)}).succeed()
        # Symbols of the interpreter itself resolve inside Python only.
        unresolved = [line for line in (program.out + program.err).splitlines()
                      if re.search(r"undefined symbol: (_*ibv|rdma|_*verbs)|not found", line)]
        assert unresolved == [], f"{module}: {unresolved}"
