"""Captures of unmodified programs' traffic: Wireshark has nothing against any packet, an oracle
agrees with each ICRC, `verbena dump` shows the same, and both ends saw the same frames."""

from __future__ import annotations

import json
import os
import pathlib
import signal

import pytest

import hosts
from hosts import Host
from pcapng_frames import Frame, read_frames
from tools.icrc_check import icrcs_of_file
from tools.tshark_clean import fields_of, problems_of

# Each kind of traffic, and the opcodes that make it up (IBTA vol 1, table 38).
SEND_OPCODES = {0x00, 0x01, 0x02, 0x04}
WRITE_OPCODES = {0x06, 0x07, 0x08, 0x0A}
READ_REQUEST = 0x0C
READ_RESPONSES = {0x0D, 0x0E, 0x0F, 0x10}
ACKNOWLEDGE = 0x11

TRAFFIC = {
    "pingpong": (["ibv_rc_pingpong", "-g", "0", "-n", "30", "-s", "5000"],
                 (SEND_OPCODES - {0x04}) | {ACKNOWLEDGE}),
    "pingpong, sleeping": (["ibv_rc_pingpong", "-g", "0", "-n", "30", "-s", "3", "-e"],
                           {0x04, ACKNOWLEDGE}),
    "pingpong, small MTU": (["ibv_rc_pingpong", "-g", "0", "-n", "5", "-s", "100000", "-m", "256"],
                            (SEND_OPCODES - {0x04}) | {ACKNOWLEDGE}),
    "SEND": (["ib_send_bw", "-F", "-n", "200", "-s", "10001"],
             (SEND_OPCODES - {0x04}) | {ACKNOWLEDGE}),
    "SEND latency": (["ib_send_lat", "-F", "-n", "100"], {0x04, ACKNOWLEDGE}),
    "WRITE": (["ib_write_bw", "-F", "-n", "200", "-s", "10001"],
              (WRITE_OPCODES - {0x0A}) | {ACKNOWLEDGE}),
    "WRITE latency": (["ib_write_lat", "-F", "-n", "100"], {0x0A, ACKNOWLEDGE}),
    "READ": (["ib_read_bw", "-F", "-n", "200", "-s", "10001"],
             {READ_REQUEST} | (READ_RESPONSES - {0x10})),
    "READ latency": (["ib_read_lat", "-F", "-n", "100"], {READ_REQUEST, 0x10}),
    "both directions": (["ib_write_bw", "-F", "-b", "-n", "200", "-s", "3000"],
                        {0x0A, ACKNOWLEDGE}),
    "eight queue pairs": (["ib_send_bw", "-F", "-q", "8", "-n", "100", "-s", "4096"],
                          {0x04, ACKNOWLEDGE}),
}


# Nothing is sent twice because a program isn't scheduled for a moment: the last of what is sent
# again would find nobody.
PATIENT = ["--ack-timeout-min", "10000"]


def dump(host: Host, capture: pathlib.Path) -> list[dict]:
    """What `verbena dump --json` says: one object for each packet."""
    program = host.verbena_command("dump", "--json", str(capture)).succeed()
    return [json.loads(line) for line in program.out.splitlines()]


def check_capture(host: Host, capture: pathlib.Path) -> list[Frame]:
    """Everybody who reads the capture agrees that it is sound, and how many frames it has."""
    frames = read_frames(capture)
    assert frames, "the capture is empty"
    assert problems_of(capture) == []
    icrcs = icrcs_of_file(capture)
    assert len(icrcs) == len(frames), "not every frame is RoCE"
    assert all(icrc.is_good for icrc in icrcs)
    lines = host.verbena_command("dump", str(capture)).succeed().out.splitlines()
    assert len(lines) == len(frames)
    assert all("ICRC good" in line for line in lines)
    assert len(dump(host, capture)) == len(frames)
    times = [frame.time_ns for frame in frames]
    assert times == sorted(times)
    return frames


def data_of(frames: list[Frame], direction: str) -> list[bytes]:
    return [frame.data for frame in frames if frame.direction == direction]


def capture_pair(host: Host, command: list[str]) -> tuple[pathlib.Path, pathlib.Path]:
    server, client = host.logs / "server.pcapng", host.logs / "client.pcapng"
    host.pair(*command, server_how={"options": [*PATIENT, "--capture", str(server)]},
              client_how={"options": [*PATIENT, "--capture", str(client)]})
    return server, client


@pytest.mark.parametrize("kind", TRAFFIC)
def test_both_ends_captured_the_same_sound_traffic(host, kind):
    command, opcodes = TRAFFIC[kind]
    server, client = capture_pair(host, command)
    of_server, of_client = check_capture(host, server), check_capture(host, client)
    # What one sends is what the other receives, byte for byte and in this order.
    assert data_of(of_client, "out") == data_of(of_server, "in")
    assert data_of(of_server, "out") == data_of(of_client, "in")
    seen = {int(row[0], 0) for row in fields_of(client, ["infiniband.bth.opcode"])}
    assert seen == opcodes


def test_the_captured_payload_is_what_was_sent(host):
    """ibv_rc_pingpong fills its buffer: the server with 0x7C, the client with 0x7B."""
    size, iterations, mtu = 2500, 10, 1024
    _, client = capture_pair(host, ["ibv_rc_pingpong", "-g", "0", "-n", str(iterations), "-s",
                                    str(size), "-m", str(mtu)])
    headers, icrc = 14 + 20 + 8 + 12, 4
    sends = [frame for frame in read_frames(client)
             if frame.direction == "out" and frame.data[42] in SEND_OPCODES]
    payloads = [frame.data[headers:-icrc] for frame in sends]
    assert [len(payload) for payload in payloads] == [1024, 1024, 452] * iterations
    assert payloads[0] == b"\x7b" * mtu


def test_a_fifo_shows_packets_while_the_program_runs(host):
    """Nothing waits for the end: the reader sees packets of a transfer that never ends."""
    fifo = host.logs / "capture.fifo"
    os.mkfifo(fifo)
    server, port = host.start_server("ib_write_bw", "-F", "-N", "-n", "100000000", "-s", "1000")
    reader = host.start_bare("sh", "-c", f"stdbuf -oL {host.verbena} dump {fifo}")
    writer = host.start("ib_write_bw", "-F", "-N", "-n", "100000000", "-s", "1000", "-p", str(port),
                        hosts.LOOPBACK, options=["--capture", str(fifo)])
    reader.wait_until(lambda: reader.out.count("\n") > 1000, "showing a thousand packets")
    assert writer.is_running(), writer.report()
    server.kill()
    writer.kill()
    reader.wait()


def test_a_reader_that_goes_away_ends_the_capture_not_the_program(host):
    fifo = host.logs / "capture.fifo"
    os.mkfifo(fifo)
    reader = host.start_bare("head", "-c", "1000", str(fifo))
    pair = host.pair("ibv_rc_pingpong", "-g", "0", "-n", "2000",
                     client_how={"options": ["--capture", str(fifo)]})
    reader.wait()
    assert f"the reader of the capture {fifo} has gone" in pair.client.err, pair.report()


def test_the_capture_of_a_killed_program_is_readable(host):
    """It was written as it went; at most its last block is cut, and everything before is shown."""
    capture = host.logs / "client.pcapng"
    server, port = host.start_server("ib_write_bw", "-F", "-N", "-n", "100000000", "-s", "1000")
    client = host.start("ib_write_bw", "-F", "-N", "-n", "100000000", "-s", "1000", "-p", str(port),
                        hosts.LOOPBACK, options=["--capture", str(capture)])
    client.wait_until(lambda: capture.exists() and capture.stat().st_size > 1 << 20,
                      "capturing a megabyte")
    client.kill()
    server.kill()
    program = host.verbena_command("dump", str(capture))
    lines = program.out.splitlines()
    assert len(lines) > 500 and all("ICRC good" in line for line in lines)
    if program.status != 0:
        assert program.status == 1 and "truncated at byte" in program.err, program.err


def test_retransmissions_carry_a_comment(host):
    """The client repeats what a stopped server doesn't answer; the capture says so. It writes and
    waits for nobody, so that there is always something that the server has to acknowledge."""
    capture = host.logs / "client.pcapng"
    server, port = host.start_server("ib_write_bw", "-F", "-N", "-n", "100000000", "-s", "1000")
    client = host.start("ib_write_bw", "-F", "-N", "-n", "100000000", "-s", "1000", "-p", str(port),
                        hosts.LOOPBACK, options=["--capture", str(capture)])
    client.wait_until(lambda: capture.exists() and capture.stat().st_size > 100_000, "traffic")
    server.send_signal(signal.SIGSTOP)
    client.wait_until(lambda: b"retransmission" in capture.read_bytes(), "a retransmission")
    server.kill()
    # It gives up by itself: one that is killed may leave half a block behind.
    client.wait()
    comments = [comment for frame in read_frames(capture) for comment in frame.comments]
    assert any("retransmission" in comment for comment in comments), comments[:10]
