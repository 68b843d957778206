"""`verbena run` with faults: transfers survive losses, repetitions and reordering; what is
corrupted is never delivered; a capture says what was done."""

from __future__ import annotations

import re

import pytest

from pcapng_frames import read_frames
from perftest_table import ALL_SIZES, check_bandwidth, check_latency
from rough_pingpong import check_exchanges

SEEDS = ["1", "2", "3"]
PATH_MTUS = [256, 512, 1024, 2048, 4096]
ROUGH = ["--loss", "1%", "--dup", "1%", "--reorder", "1%"]
# Nobody gives up who only waits for a processor: eight times the floor of the ACK timer that there
# is otherwise, 50 ms, is soon over where many programs run on few.
PATIENT = ["--ack-timeout-min", "250"]
# Millions of bytes, packet by packet with what is repeated: minutes on a busy machine.
ALL_SIZES_S = 900.0


def with_seed(seed: str, *options: str) -> list[str]:
    return [*options, "--seed", seed]


def pingpong(host, size: int, options: list[str], *arguments: str, iterations: int = 100,
             gid_index: int = 0):
    pair = host.start_pair("ibv_rc_pingpong", "-g", str(gid_index), "-c", "-s", str(size), "-n",
                           str(iterations), *arguments, options=options)
    host.wait_for_both(pair)
    check_exchanges(pair, size, iterations)
    return pair


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", ["polling", "sleeping"])
@pytest.mark.parametrize("size", [1, 64, 4096, 100_000, 1 << 20])
def test_pingpong_over_a_rough_network(host, size, way, seed):
    """A MiB meets so many losses that now and then a NAK or what it asked for is lost as well: only
    the timeout repairs that, as in hardware."""
    pingpong(host, size, with_seed(seed, *ROUGH, *PATIENT), *(["-e"] if way == "sleeping" else []),
             iterations=100 if size <= 100_000 else 10)


@pytest.mark.parametrize("seed,mtu", enumerate(PATH_MTUS, 1))
def test_every_path_mtu_over_a_rough_network(host, mtu, seed):
    pingpong(host, 5 * mtu + 7, with_seed(str(seed), *ROUGH, *PATIENT), "-m", str(mtu))


@pytest.mark.parametrize("index", [0, 1])
def test_every_gid_index_over_a_rough_network(host, index):
    options = with_seed("1", *ROUGH, *PATIENT, "--address", "127.0.0.1,127.0.0.2")
    pingpong(host, 4096, options, gid_index=index)


@pytest.mark.parametrize("seed,options", enumerate([
    [], ["-b"], ["-q", "8"], ["-q", "8", "-b"], ["-e"], ["--report_gbits"]], 1),
    ids=lambda value: "".join(value) or "plain" if isinstance(value, list) else f"seed{value}")
@pytest.mark.parametrize("tool", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
def test_bandwidth_over_a_rough_network(host, tool, options, seed):
    """-e: a WRITE has no completion on the other side to sleep for, and the tool says so."""
    if tool == "ib_write_bw" and options == ["-e"]:
        options = ["-b", "-q", "2"]
    pair = host.pair(tool, "-F", "-n", "100", *options,
                     options=with_seed(str(seed), *ROUGH, *PATIENT))
    queue_pairs = int(options[options.index("-q") + 1]) if "-q" in options else 1
    check_bandwidth(pair.client.out, [65536], queue_pairs * 100)


@pytest.mark.parametrize("seed,tool", enumerate(["ib_write_bw", "ib_read_bw", "ib_send_bw"], 1))
def test_all_sizes_over_a_rough_network(host, tool, seed):
    pair = host.pair(tool, "-F", "-a", "-n", "5", options=with_seed(str(seed), *ROUGH),
                     timeout_s=ALL_SIZES_S)
    check_bandwidth(pair.client.out, ALL_SIZES, 5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tool", ["ib_write_lat", "ib_read_lat", "ib_send_lat"])
def test_latency_over_a_rough_network(host, tool, seed):
    pair = host.pair(tool, "-F", "-n", "300", options=with_seed(seed, *ROUGH))
    check_latency(pair.client.out, [2], 300)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_corrupt_byte_is_delivered(host, tmp_path, seed):
    capture = tmp_path / "client.pcapng"
    corrupting = with_seed(seed, "--corrupt", "1%")
    pair = host.start_pair("ibv_rc_pingpong", "-g", "0", "-c", "-s", "50000", "-n", "100",
                           server_how={"options": corrupting},
                           client_how={"options": [*corrupting, "--capture", str(capture)]})
    host.wait_for_both(pair)
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


# Every action and every kind of match, each of which meets a frame of the transfer below.
EVERY_FORM = """
[[fault]]
action = "pass"
opcode = "WRITE_FIRST"
count = 1
[[fault]]
action = "drop"
opcode = "WRITE_MIDDLE"
psn = "+2..+3"
count = 1
[[fault]]
action = "delay"
opcode = "WRITE_LAST"
by = "1ms"
jitter = "100us"
nth = 2
[[fault]]
action = "duplicate"
opcode = "WRITE_FIRST"
copies = 2
by = "10us"
count = 1
[[fault]]
action = "corrupt"
direction = "out"
opcode = "rc_write_middle"
byte = 80
mask = 0x10
nth = 5
[[fault]]
action = "corrupt"
direction = "in"
aeth = "ack"
from = "127.0.0.1"
count = 1
[[fault]]
action = "reorder"
opcode = "WRITE_MIDDLE"
behind = 2
skip = 20
count = 1
[[fault]]
action = "mark"
opcode = "WRITE_*"
to = "127.0.0.1"
after = "0s"
until = "600s"
every = 3
count = 2
[[fault]]
action = "drop"
opcode = "ACKNOWLEDGE"
chance = "1/2"
count = 1
"""


def test_every_form_of_a_rule_works_from_a_file_in_real_time(host, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(EVERY_FORM)
    capture = tmp_path / "client.pcapng"
    # One message at a time, so that there are many acknowledgements for the rules that want one.
    pair = host.pair("ib_write_bw", "-F", "-n", "50", "-s", "20000", "-m", "1024", "-t", "1",
                     client_how={"options": ["--faults", str(rules), "--seed", "5", "--capture",
                                             str(capture)]})
    check_bandwidth(pair.client.out, [20000], 50)
    comments = "\n".join(comment for frame in read_frames(capture) for comment in frame.comments)
    met = {int(number) for number in re.findall(r"rule (\d+)", comments)}
    assert met >= set(range(2, 10)), comments


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
