"""iWARP in the simulator, as people meet it: captures that tshark dissects down to the last CRC,
and one story on four wires."""

from __future__ import annotations

import pathlib
import re
import subprocess
import xml.etree.ElementTree

import pytest

import test_sim
import tools.tshark_clean as tshark_clean

FOUR_WIRES = test_sim.SCENARIOS / "four_wires.toml"
WIRES = ("roce_v1", "roce_v2", "roce_v2_ipv6", "iwarp")


def capture_of(tmp_path: pathlib.Path, scenario: str, *options) -> pathlib.Path:
    """What the client's interface saw."""
    capture = tmp_path / f"{scenario}.pcapng"
    result = test_sim.verbena("sim", test_sim.SCENARIOS / f"{scenario}.toml", "--capture", capture,
                              "--tap", "client", *options)
    assert result.returncode == 0, result.stdout + result.stderr
    return capture


@pytest.mark.parametrize("scenario", ["iwarp_write", "iwarp_read", "iwarp_send", "iwarp_refused",
                                      "iwarp_loss", "iwarp_write_imm", "iwarp_atomics",
                                      "iwarp_no_extensions"])
def test_tshark_finds_handshakes_and_good_crcs_and_nothing_malformed(tmp_path, scenario):
    capture = capture_of(tmp_path, scenario)
    frames = tshark_clean.fields_of(
        capture, ["tcp.flags.syn", "iwarp_mpa.rev", "_ws.malformed"])
    assert sum(syn in ("1", "True") for syn, *_ in frames) == 2
    assert [rev for _, rev, *_ in frames if rev] == ["2", "2"]
    assert not [frame for frame in frames if frame[2]]
    text = subprocess.run(
        [*tshark_clean.TSHARK, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
         "-r", capture, "-V"], capture_output=True, text=True, check=True, timeout=60).stdout
    fpdus = len(re.findall(r"ULPDU length: ", text))
    assert fpdus > 1
    assert len(re.findall(r"CRC check: 0x[0-9a-f]{8} \(Good CRC32\)", text)) == fpdus
    assert "Bad CRC" not in text and "Malformed" not in text
    assert "incorrect" not in text  # Checksums of IP and TCP.


def test_verbena_dump_reads_what_the_simulator_wrote(tmp_path):
    text = test_sim.verbena("dump", "-v", capture_of(tmp_path, "iwarp_send")).stdout
    assert "MPA Request" in text and "MPA Reply" in text
    assert "Terminate" in text


def test_the_timeline_of_a_sweep_shows_four_wires_beside_each_other(tmp_path):
    result = test_sim.verbena("timeline", "--sweep", "--width", 640, FOUR_WIRES)
    assert result.returncode == 0, result.stderr
    head = result.stdout.splitlines()[0]
    starts = [head.index(f"transport={wire}") for wire in WIRES[:2]]
    assert starts[0] < starts[1] and "transport=iwarp" in head
    # RoCE refuses what follows the gap and sends it all again; TCP keeps it.
    assert "NAK" in result.stdout and "duplicate ACKs" in result.stdout
    picture = tmp_path / "four.svg"
    assert test_sim.verbena("timeline", "--sweep", FOUR_WIRES, "--svg", picture).returncode == 0
    root = xml.etree.ElementTree.parse(picture).getroot()
    titles = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")
              if text.get("class") == "title"]
    assert titles == [f"transport={wire}" for wire in WIRES]


def test_without_the_option_the_first_row_is_drawn():
    text = test_sim.verbena("timeline", "--width", 120, FOUR_WIRES).stdout
    assert "One WRITE and one loss on four wires" in text and "MPA_REQUEST" not in text
