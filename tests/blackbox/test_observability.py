"""`verbena counters` and `verbena top`: live, for whoever looks, without disturbing."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence

import pytest

import hosts
from hosts import Host, Pair
from program import TIMEOUT_S, Program

TX_BYTES_OF_TOP = re.compile(r"^ *(\d+) (\S+) +verbena0 ", re.MULTILINE)
ESCAPE = "\x1b"


def counters(host: Host, *options: str) -> list[dict]:
    return json.loads(host.verbena_command("counters", "--json", *options).succeed().out)


def of_process(listed: list[dict], program: Program) -> dict:
    found = [device for device in listed if device["pid"] == program.pid]
    assert len(found) == 1, f"process {program.pid} isn't in {listed}"
    return found[0]


@pytest.fixture
def busy_pair(host) -> Pair:
    """Both have told that they are busy: what they did is known 100 ms later."""
    pair = host.start_endless("ib_write_bw", "-t", "64")
    pair.client.wait_until(
        lambda: all(of_process(counters(host), program)["counters"]["rcvd_pkts"] > 0
                    for program in pair), "telling that it received")
    return pair


def test_nobody_there(host):
    assert counters(host) == []
    assert host.verbena_command("counters").succeed().out == ""
    assert "0 open devices" in host.verbena_command("top", "--once", "-d", "0.1").succeed().out


def test_counters_of_a_transfer(host, busy_pair):
    """Both sides are there with their queue pairs, which know each other, and they grow."""
    first = counters(host)
    client, server = (of_process(first, program) for program in (busy_pair.client,
                                                                busy_pair.server))
    assert client["program"] == "ib_write_bw" and client["device"] == "verbena0"
    qp, peer = client["qps"][0], server["qps"][0]
    assert qp["type"] == "RC" and qp["state"] == "RTS"
    assert (qp["peer"]["qpn"], peer["peer"]["qpn"]) == (peer["qpn"], qp["qpn"])
    assert qp["peer"]["gid"].endswith(":7f00:0001")
    assert client["counters"]["sent_pkts"] > 0 and qp["counters"]["tx_bytes"] > 0

    def has_grown() -> bool:
        later = of_process(counters(host), busy_pair.client)
        return (later["counters"]["sent_pkts"] > client["counters"]["sent_pkts"]
                and later["qps"][0]["counters"]["tx_bytes"] > qp["counters"]["tx_bytes"]
                and later["monotonic_ns"] > client["monotonic_ns"])

    busy_pair.client.wait_until(has_grown, "telling of more")


def test_text_hides_what_is_zero(host, busy_pair):
    pid = str(busy_pair.client.pid)
    short = host.verbena_command("counters", "--pid", pid).succeed().out
    assert f"process {pid}  ib_write_bw  verbena0" in short
    assert "sent_pkts" in short and "rx_drop_malformed" not in short
    assert f"process {busy_pair.server.pid} " not in short
    whole = host.verbena_command("counters", "--all", "--pid", pid).succeed().out
    assert "rx_drop_malformed" in whole


def test_a_process_that_has_no_device(host, busy_pair):
    program = host.verbena_command("counters", "--pid", str(os.getpid()))
    assert program.status == 1, program.report()
    assert f"process {os.getpid()} has no device open" in program.err


def test_the_dead_are_not_shown(host, busy_pair):
    busy_pair.server.kill()
    assert [device["pid"] for device in counters(host)] in ([busy_pair.client.pid], [])


def test_a_stopped_process_still_tells_what_it_counted(host, busy_pair):
    hosts.stop(busy_pair.server)
    assert of_process(counters(host), busy_pair.server)["counters"]["rcvd_pkts"] > 0


def test_losses_are_counted_for_the_queue_pair_that_has_them(host):
    pair = host.start_pair("ib_send_bw", "-F", "-n", "20000", "-t", "32", options=["--loss", "1%"])

    def has_sent_again() -> bool:
        """Told together: who sends again tells what its port has lost."""
        return any(qp["counters"]["retransmitted_pkts"] > 0 and device["port"]["frames_faulted"] > 0
                   for device in counters(host) for qp in device["qps"])

    pair.client.wait_until(has_sent_again, "sending again")
    host.wait_for_both(pair)


def test_top_once(host, busy_pair):
    """The pair moves more than a megabyte a second each way and is listed by process and by queue
    pair; no escape codes for a pipe."""
    # So long that whoever else runs here doesn't take all of it.
    out = host.verbena_command("top", "--once", "-d", "3").succeed().out
    assert ESCAPE not in out
    assert "2 open devices, 2 queue pairs" in out
    rows = {int(pid): name for pid, name in TX_BYTES_OF_TOP.findall(out)}
    assert rows == {busy_pair.client.pid: "ib_write_bw", busy_pair.server.pid: "ib_write_bw"}
    sender = next(line for line in out.splitlines()
                  if line.split()[:1] == [str(busy_pair.client.pid)])
    assert sender.split()[4].endswith(("M", "G")), out
    assert "RTS" in out and "127.0.0.1 QP 0x" in out


def test_top_into_a_pipe_goes_on_until_nobody_reads(host, busy_pair):
    out = host.run_bare("sh", "-c", f"{hosts.VERBENA} top -d 0.1 | head -n 40").succeed().out
    assert ESCAPE not in out
    assert out.count("open devices") >= 2


def read_until(terminal: int, text: str, timeout_s: float = TIMEOUT_S) -> str:
    """What is read up to the next such text, byte by byte, so that the rest stays for later."""
    seen = b""
    deadline = time.monotonic() + timeout_s
    while not seen.endswith(text.encode()):
        assert time.monotonic() < deadline, f"no {text!r} in {seen!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 1)
            except OSError:  # The other side has gone: what it said is all there is.
                raise AssertionError(f"no {text!r} in {seen!r}") from None
    return seen.decode(errors="replace")


def start_on_terminal(command: Sequence[str], rows: int, columns: int,
                      variables: Mapping[str, str]) -> tuple[int, int, list]:
    """Starts a program on a terminal of that size. Returns its process, our end of the terminal,
    and the terminal's settings from before."""
    terminal, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(its_end)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            fcntl.ioctl(its_end, termios.TIOCSCTTY, 0)
            for descriptor in range(3):
                os.dup2(its_end, descriptor)
            os.execve(command[0], command, {**os.environ, **variables})
        finally:
            os._exit(127)
    os.close(its_end)
    return pid, terminal, before


def next_frame(terminal: int) -> list[str]:
    """The lines of the next screen that is drawn."""
    read_until(terminal, f"{ESCAPE}[H")
    frame = read_until(terminal, f"{ESCAPE}[J").removesuffix(f"{ESCAPE}[J")
    return frame.replace(f"{ESCAPE}[K", "").split("\r\n")


@pytest.mark.parametrize("end", ["q", "\x03"], ids=["q", "Ctrl-C"])
def test_top_on_a_terminal(host, busy_pair, end):
    """It takes the screen, follows its size, and gives it back as it was."""
    pid, terminal, before = start_on_terminal(
        [str(hosts.VERBENA), "top", "-d", "0.2"], 24, 80, host.variables)
    try:
        read_until(terminal, f"{ESCAPE}[?1049h")
        lines = next_frame(terminal)
        assert len(lines) > 6 and max(map(len, lines)) in range(41, 81), lines
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 40, 0, 0))
        # Those that were drawn before are as they were.
        deadline = time.monotonic() + TIMEOUT_S
        while len(lines) > 6 or any(len(line) > 40 for line in lines):
            assert time.monotonic() < deadline, lines
            lines = next_frame(terminal)
        os.write(terminal, end.encode())
        read_until(terminal, f"{ESCAPE}[?1049l")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        pid = 0
        assert termios.tcgetattr(terminal)[3] == before[3]
    finally:
        if pid:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        os.close(terminal)


def test_looking_costs_a_transfer_nothing_to_speak_of(host):
    """Somebody who looks as often as he can doesn't make a ping-pong fail or stall."""
    pair = host.start_pair("ibv_rc_pingpong", "-g", "0", "-n", "3000")
    while pair.client.is_running():
        host.verbena_command("counters", "--json")
    host.wait_for_both(pair)
    assert (pair.server.status, pair.client.status) == (0, 0), pair.report()


# --- VERBENA_LOG


HEAD = r"\[\d+\.\d{6}\] verbena0 of process (\d+)"
RETRANSMISSION = re.compile(rf"^verbena: debug: {HEAD}: sent RC .*: retransmission \d",
                            re.MULTILINE)
CHANGE = re.compile(rf"^verbena: info: {HEAD}, QP 0x[0-9a-f]{{6}}: (.*)$", re.MULTILINE)


def said_with(host, level: str | None) -> Program:
    """The client of a transfer over a network that loses."""
    options = ["--loss", "10%", *(["--log", level] if level else [])]
    return host.pair("ib_write_bw", "-F", "-n", "200", "-s", "4096",
                     client_how={"options": options}).client


def lines_of_ours(program: Program) -> list[str]:
    return [line for line in program.err.splitlines() if line.startswith("verbena:")]


@pytest.mark.parametrize("level", [None, "off", "error", "warn"])
def test_nothing_is_said_of_what_goes_as_it_should(host, level):
    assert lines_of_ours(said_with(host, level)) == []


def test_info_tells_states_and_rings(host):
    client = said_with(host, "info")
    changes = CHANGE.findall(client.err)
    assert changes[:3] == [(str(client.pid), change) for change in (
        "RESET to INIT", "INIT to RTR", "RTR to RTS")], client.report()
    assert "made a ring to process" in client.err and "debug" not in client.err, client.report()


def test_debug_tells_losses_and_what_follows(host):
    client = said_with(host, "debug")
    assert RETRANSMISSION.findall(client.err)[:1] == [str(client.pid)], client.report()
    assert "dropped by rule 1" in client.err, client.report()
    assert " trace:" not in client.err, client.report()


def test_trace_tells_every_frame(host):
    pair = host.pair("ibv_rc_pingpong", "-g", "0", "-n", "5", client_how={
        "options": ["--log", "trace"]})
    # What is sent again is told at the level debug.
    sent = [line for line in pair.client.err.splitlines() if "trace" in line and ": sent RC SEND" in
            line]
    assert len(sent) == 5 * 4, pair.client.report()


def test_the_end_of_a_queue_pair_has_a_reason(host):
    host.variables["VERBENA_LOG"] = "info"
    pair = host.start_endless("ib_write_bw", "-t", "64")
    pair.server.kill()
    pair.client.wait()
    reasons = [change for _, change in CHANGE.findall(pair.client.err)]
    assert "RTS to ERR: a request completed with retry_exc_err" in reasons, pair.report()


def test_a_level_that_doesnt_exist(host):
    program = host.run("true", options=["--log", "loud"])
    assert program.status == 2 and "--log is \"loud\"; it may be off, error" in program.err, (
        program.report())


def test_a_file_that_makes_no_sense_is_said(host, busy_pair):
    """And what the others tell is shown nevertheless."""
    files = sorted(pathlib.Path(host.directory).glob("*.stats"))
    assert len(files) == 2
    # The device makes it anew when it needs more room, and otherwise goes on with its own.
    good = files[0].read_bytes()
    files[0].unlink()
    files[0].write_bytes(b"\xff" * len(good))
    program = host.verbena_command("counters", "--json")
    assert program.status == 1 and "is no statistics file" in program.err, program.report()
    assert len(json.loads(program.out)) == 1
    files[0].unlink()
