"""verbena doctor: says what is well, what failed and why, and whom to look at."""

from __future__ import annotations

import json
import signal
import time

from hosts import Host
from network import Cable
from rdmacm import connect


def findings(host: Host, *options: str, well: bool) -> list[dict]:
    program = host.verbena_command("doctor", "--json", *options)
    assert program.status == (0 if well else 1), program.report()
    return json.loads(program.out)


def about(subject: str, found: list[dict]) -> list[str]:
    return [finding["sentence"] for finding in found if finding["subject"] == subject]


def test_all_is_well(host):
    found = findings(host, well=True)
    assert about("libraries", found)[0].endswith("libibverbs.so.1")
    assert "127.0.0.1" in about("device", found)[0]
    assert "no program has a device open" in about("fabric", found)[0]


def test_text_has_a_line_for_each_finding(host):
    lines = host.verbena_command("doctor").succeed().out.splitlines()
    assert len(lines) == len(findings(host, well=True))
    assert all(line.startswith("ok ") for line in lines), lines


def test_who_listens_and_why_a_connection_failed(host):
    """The client has ended when the doctor is asked; the server still runs."""
    port, other = str(host.free_port()), str(host.free_port())
    server = host.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-P")
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1")
    client = host.run("rping", "-c", "-a", "127.0.0.1", "-p", other, "-C", "1")
    assert client.status != 0, client.report()
    found = findings(host, well=False)
    assert f"TCP port {port} of 127.0.0.1 (process {server.pid})" in about("listening", found)
    # While the server was starting, nobody listened on its own port either.
    latest = about("failure", found)[-1]
    assert f"process {client.pid}: nobody listens on port {other} of 127.0.0.1" in latest


def test_why_a_queue_pair_failed(host):
    """Both ends of the connection have gone; somebody else keeps the fabric."""
    witness = host.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "verbena0")
    witness.wait_for_output("FD")
    pair = host.start_endless("ib_write_bw")
    pair.server.kill()
    pair.client.wait()
    found = findings(host, well=False)
    assert any(f"process {pair.client.pid}: QP 0x" in sentence and
               "connected to 127.0.0.1 QP 0x" in sentence and
               "retry_exc_err: no answer, retry_cnt times over" in sentence
               for sentence in about("failure", found)), found
    witness.kill()


def test_a_server_that_was_stopped(host):
    """No answer at all is told to the user at once, with what it may mean, when the patience that
    was asked for is over."""
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-P")
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1")
    server.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    client = host.run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1",
                      options=["--connect-timeout", "5"])
    assert time.monotonic() - started > 5, client.report()
    server.send_signal(signal.SIGCONT)
    assert f"no answer from port {port} of 127.0.0.1: the process that listens" in client.err
    assert client.status != 0, client.report()


def test_a_device_for_a_network(tmp_path):
    """Whether UDP port 4791 can be had, and how large the device's world is."""
    cable = Cable(tmp_path)
    try:
        found = findings(cable.a, well=True)
        assert any("for this host and others" in sentence for sentence in about("device", found))
        network = about("network", found)
        assert network[0] == f"UDP port 4791 of {cable.a.address} can be had"
        assert all(sentence.endswith(" can be had") for sentence in network)
    finally:
        cable.close()
