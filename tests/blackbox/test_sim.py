"""`verbena sim`, `timeline` and `swarm` as people call them: exit statuses, reports, captures that
tshark reads and that are equal in every run."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree

import pytest

import hosts
import tools.tshark_clean as tshark_clean

SCENARIOS = hosts.ROOT / "scenarios"
LOSS = SCENARIOS / "loss.toml"
# Numbers in our list of what users of software RDMA reported, as far as it concerns RC.
REPORTS = [9, 11, 12, 14, *range(16, 26), 27, 29, 30, 31, 33, 34, 35, 36, 38, 39]
# Those that concern what has tests of its own.
TESTED_ELSEWHERE = [1, 2, 6, 3, 4, 5, 7, 8, 26, 40, 41, 42, 43, 44, 45, 47, 48, 50, 51]


def verbena(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([hosts.VERBENA, *map(str, arguments)], capture_output=True, text=True,
                          check=False, timeout=600)


def test_all_scenarios_pass():
    result = verbena("sim", "--json", SCENARIOS)
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    assert [report["file"] for report in reports if not report["passed"]] == []
    assert result.returncode == 0 and len(reports) > 100


def test_every_scenario_has_a_title():
    listed = verbena("sim", "--list", SCENARIOS).stdout.splitlines()
    assert listed and all(len(line.split(maxsplit=1)) == 2 for line in listed)


def test_the_index_names_every_scenario_and_no_other():
    text = (hosts.ROOT / "docs" / "scenario-index.md").read_text()
    named = set(re.findall(r"\[(\w+)\]\(\.\./scenarios/\1\.toml\)", text))
    assert named == {path.stem for path in SCENARIOS.glob("*.toml")}


def test_every_report_that_concerns_rc_has_scenarios():
    text = (hosts.ROOT / "docs" / "scenario-index.md").read_text().split("tests of their own")[0]
    rows = re.findall(r"^\| (\d+) \|.*\.toml\)", text, re.MULTILINE)
    assert [int(row) for row in rows] == REPORTS


def test_the_other_reports_have_tests_that_are_there():
    text = (hosts.ROOT / "docs" / "scenario-index.md").read_text().split("tests of their own")[1]
    rows = re.findall(r"^\| ([\d, ]+) \|(.*)", text, re.MULTILINE)
    assert [int(number) for numbers, _ in rows for number in numbers.split(",")] == TESTED_ELSEWHERE
    for _, row in rows:
        files = re.findall(r"`(tests/\S+)`", row)
        assert files and all((hosts.ROOT / file).is_file() for file in files)


def test_an_unmet_expectation_is_a_failure_with_its_place(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text(LOSS.read_text().replace("retransmitted_pkts=3", "retransmitted_pkts=2"))
    result = verbena("sim", broken)
    assert result.returncode == 1
    assert "FAIL" in result.stdout and "retransmitted_pkts of client is 3" in result.stdout
    assert f"{broken}:" in result.stdout


def test_a_file_that_makes_no_sense_is_a_failure_with_its_place(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text('[story]\nsteps = ["client wirte 1"]\n')
    result = verbena("sim", broken)
    assert result.returncode == 1
    assert f"{broken}:2:18: " in result.stderr and "Did you mean write?" in result.stderr
    assert verbena("sim", tmp_path / "none.toml").returncode == 1
    assert verbena("sim").returncode == 2


def test_captures_are_equal_in_every_run_and_clean_to_tshark(tmp_path):
    captures = [tmp_path / "a.pcapng", tmp_path / "b.pcapng"]
    for capture in captures:
        assert verbena("sim", "--capture", capture, LOSS).returncode == 0
    assert captures[0].read_bytes() == captures[1].read_bytes()
    fields = subprocess.run(
        ["tshark", "-r", captures[0], "-T", "fields", "-e", "infiniband.bth.opcode", "-e",
         "frame.interface_name", "-e", "frame.comment"],
        capture_output=True, text=True, check=True).stdout
    assert "dropped by rule 1" in fields and "retransmission 1 after a NAK" in fields
    assert "client" in fields and "server" in fields


# Scenarios that hold every operation of the transport between them, and what dump must find there.
OPERATIONS = {
    "atomics": {"RC CmpSwap", "RC FetchAdd", "RC ATOMIC Acknowledge"},
    "atomic_write": {"RC ATOMIC WRITE", "RC RDMA READ Response Only"},
    "flush": {"RC FLUSH", "RC RDMA WRITE Middle"},
    "window_invalidated": {"RC SEND Only with Invalidate"},
    "srq": {"RC SEND First", "RC SEND Middle", "RC SEND Last"},
    "write_imm_byte_len": {"RC RDMA WRITE Last with Immediate",
                           "RC RDMA WRITE Only with Immediate"},
    "read": {"RC RDMA READ Request", "RC RDMA READ Response First"},
    "uc_loss": {"UC RDMA WRITE First", "UC RDMA WRITE Last"},
    "ud_send": {"UD SEND Only with Immediate"},
    "xrc": {"XRC SEND First", "XRC RDMA WRITE Middle", "XRC Acknowledge"},
    "encapsulations": {"RC RDMA WRITE First"},
    "path_migration": {"RC RDMA WRITE Only"},
    "cm_connect": {"UD SEND Only"},
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_clean_to_tshark_and_named_by_dump(tmp_path, name):
    capture = tmp_path / "capture.pcapng"
    assert verbena("sim", "--capture", capture, SCENARIOS / f"{name}.toml").returncode == 0
    assert tshark_clean.problems_of(capture) == []
    dumped = verbena("dump", "--json", capture)
    packets = [json.loads(line) for line in dumped.stdout.splitlines()]
    assert all(packet["icrc"]["status"] == "good" for packet in packets)
    found = {packet["bth"]["opcode_text"] for packet in packets}
    assert OPERATIONS[name] <= found, found


def test_a_tap_captures_at_one_place(tmp_path):
    def frames(*taps) -> list[str]:
        capture = tmp_path / f"{'-'.join(taps)}.pcapng"
        options = [option for tap in taps for option in ("--tap", tap)]
        result = verbena("sim", SCENARIOS / "many_to_one.toml", "--capture", capture, *options)
        assert result.returncode == 0, result.stderr
        return subprocess.run(
            ["tshark", "-r", capture, "-T", "fields", "-e", "frame.interface_name", "-e",
             "frame.comment"], capture_output=True, text=True, check=True).stdout.splitlines()

    at_switch = frames("switch")
    assert {line.split("\t")[0] for line in at_switch} == {"switch"}
    assert any("the queue is full" in line for line in at_switch)
    assert {line.split("\t")[0] for line in frames("a", "server")} == {"a", "server"}
    assert verbena("sim", LOSS, "--capture", tmp_path / "x.pcapng", "--tap", "x").returncode == 1


def test_timelines_in_text_and_as_a_picture(tmp_path):
    text = verbena("timeline", LOSS, "--width", 120).stdout
    assert "WRITE_MIDDLE psn=1" in text and "lost" in text and "rdma_write success" in text
    picture = tmp_path / "loss.svg"
    page = tmp_path / "loss.html"
    assert verbena("timeline", LOSS, "--svg", picture, "--html", page).returncode == 0
    root = xml.etree.ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert picture.read_text() in page.read_text()


def test_a_capture_s_timeline_knows_what_was_lost(tmp_path):
    capture = tmp_path / "loss.pcapng"
    assert verbena("sim", "--capture", capture, LOSS).returncode == 0
    text = verbena("timeline", capture, "--width", 120).stdout
    lost = [line for line in text.splitlines() if "  lost" in line]
    assert len(lost) == 1 and "WRITE_MIDDLE psn=1" in lost[0]


def test_the_swarm_s_sum_is_the_same_however_it_is_run():
    alone = verbena("swarm", "--seeds", "1..40", "-j", "1")
    together = verbena("swarm", "--seeds", "1..40", "-j", "4")
    assert alone.returncode == 0 and alone.stdout == together.stdout
    assert verbena("swarm", "--seeds", "9..1").returncode == 2
