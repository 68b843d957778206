"""`verbena run` with faults: transfers survive losses, repetitions and reordering; what is
corrupted is never delivered; a capture says what was done."""

from __future__ import annotations

import re

import pytest

from pcapng_frames import read_frames
from perftest_table import check_bandwidth, check_latency
from rough_pingpong import check_exchanges

SEEDS = ["1", "2", "3"]
ROUGH = ["--loss", "1%", "--dup", "1%", "--reorder", "1%"]


def with_seed(seed: str, *options: str) -> list[str]:
    return [*options, "--seed", seed]


def pingpong(host, size: int, options: list[str], *arguments: str, iterations: int = 100):
    pair = host.start_pair("ibv_rc_pingpong", "-g", "0", "-c", "-s", str(size), "-n",
                           str(iterations), *arguments, options=options)
    host.wait_for_both(pair, 120.0)
    check_exchanges(pair, size, iterations)
    return pair


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", ["polling", "sleeping"])
@pytest.mark.parametrize("size", [64, 4096, 100_000])
def test_pingpong_over_a_rough_network(host, size, way, seed):
    pingpong(host, size, with_seed(seed, *ROUGH), *(["-e"] if way == "sleeping" else []))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tool", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
def test_bandwidth_over_a_rough_network(host, tool, seed):
    pair = host.pair(tool, "-F", "-n", "100", options=with_seed(seed, *ROUGH), timeout_s=180.0)
    check_bandwidth(pair.client.out, [65536], 100)


@pytest.mark.parametrize("tool", ["ib_write_lat", "ib_read_lat", "ib_send_lat"])
def test_latency_over_a_rough_network(host, tool):
    pair = host.pair(tool, "-F", "-n", "300", options=with_seed("1", *ROUGH), timeout_s=180.0)
    check_latency(pair.client.out, [2], 300)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_corrupt_byte_is_delivered(host, tmp_path, seed):
    capture = tmp_path / "client.pcapng"
    corrupting = with_seed(seed, "--corrupt", "1%")
    pair = host.start_pair("ibv_rc_pingpong", "-g", "0", "-c", "-s", "50000", "-n", "100",
                           server_how={"options": corrupting},
                           client_how={"options": [*corrupting, "--capture", str(capture)]})
    host.wait_for_both(pair, 120.0)
    check_exchanges(pair, 50_000, 100)
    comments = [" / ".join(frame.comments) for frame in read_frames(capture)]
    assert any("changed by 0x" in comment for comment in comments)
    assert any("rx_icrc_encapsulated" in comment for comment in comments)


def test_a_delay_is_felt(host):
    """Each way takes 2 ms more, so a round trip takes at least 4."""
    pair = pingpong(host, 64, ["--delay", "2ms"], iterations=20)
    seconds = float(re.search(r"in ([0-9.]+) seconds", pair.client.out).group(1))
    assert seconds >= 20 * 0.004, pair.report()


def test_a_rule_meets_the_frame_that_it_names(host, tmp_path):
    capture = tmp_path / "client.pcapng"
    host.pair("ib_write_bw", "-F", "-n", "5", "-s", "20000", client_how={"options": [
        "--fault", "drop opcode=WRITE_MIDDLE count=1", "--capture", str(capture)]})
    lost = [frame for frame in read_frames(capture)
            if any("dropped by rule 1" in comment for comment in frame.comments)]
    assert len(lost) == 1
    assert lost[0].direction == "out"
    assert any(comment.startswith("retransmission") for frame in read_frames(capture)
               for comment in frame.comments)


def test_rules_come_from_a_file(host, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[fault]]\naction = "drop"\nopcode = "SEND_*"\nevery = 10\n')
    pingpong(host, 4096, ["--faults", str(rules)])


@pytest.mark.parametrize("options,words", [
    (["--loss", "two"], ["--loss", "two"]),
    (["--fault", "drop opcode=WRITE_MIDDEL"], ["--fault", "WRITE_MIDDEL"]),
    (["--fault", "drop psn=1; explode"], ["--fault", "explode"]),
    (["--faults", "/nowhere/rules.toml"], ["--faults", "/nowhere/rules.toml"]),
    (["--delay", "50"], ["--delay"]),
    (["--seed", "x"], ["--seed", "x"]),
])
def test_mistakes_are_told_before_anything_runs(host, options, words):
    program = host.run("ibv_devices", options=options)
    assert program.status == 2, program.report()
    for word in words:
        assert word in program.err, program.report()
    assert program.out == "", program.report()
