"""The comparison of ./dev bench, in its quick form: that it runs and reports, not how fast anything
is."""

from __future__ import annotations

import json
import os
import subprocess

import hosts

COMPARE = hosts.ROOT / "bench" / "compare.py"
REFERENCE = next((path for path in (hosts.BUILD / "bench" / "reference",
                                    hosts.BUILD / "release" / "bench" / "reference")
                  if path.exists()), None)
PYTHON = "/usr/bin/python3"


def compare(*arguments: str) -> str:
    assert REFERENCE, "bench/reference isn't built: -DVERBENA_BENCH=ON"
    done = subprocess.run([PYTHON, str(COMPARE), "--quick", "--reference", str(REFERENCE),
                           *arguments], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"VERBENA_BUILD": str(hosts.BUILD)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_comparison_prints_figures_ratios_and_targets():
    """Everything that measures bandwidth, by WRITE."""
    lines = compare("--only", "write_bw").splitlines()
    assert lines[0].startswith("64 KiB messages")
    assert any("UDP: ib_write_bw" in line and "GB/s" in line for line in lines)
    targets = lines[lines.index("Targets") + 1:]
    assert targets[0].split()[0] in ("met", "MISSED")
    assert "fabric: ib_write_bw" in targets[0] and "(at least 3)" in targets[0]


def test_as_json_every_contender_has_its_values():
    report = json.loads(compare("--json", "--only", "mem"))
    assert [row["name"] for row in report["rows"]][0] == "memcpy"
    for row in report["rows"]:
        assert row["median"] > 0
        assert row["values"] == [row["median"]]
    assert report["targets"] == []
    assert report["left_out"] == []
