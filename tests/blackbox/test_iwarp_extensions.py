"""RFC 7306 on an iWARP device, for programs that know nothing of it: atomics and immediate data if
both ends are told to have them, and what happens if one isn't."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

import hosts
from programs import compiled
from tools.tshark_clean import TSHARK
from tools.tshark_iwarp import look_at

HOST = hosts.LOOPBACK
ON = ["--rdmap-extensions", "on"]
REFUSED = "refused, Invalid argument"


@pytest.fixture
def iwarp(host) -> hosts.Host:
    host.variables["VERBENA_TRANSPORT"] = "iwarp"
    return host


def work(host, how: str = "post", server_options=(), client_options=()):
    """What both ends print (programs/iw_extensions.c): the server's lines, the client's."""
    port = host.free_port()
    server = host.start(compiled("iw_extensions"), "listen", HOST, str(port),
                        options=server_options)
    host.wait_for_listener(server, port)
    client = host.run(compiled("iw_extensions"), "connect", HOST, str(port), how,
                      options=client_options)
    client.succeed()
    server.succeed()
    return server.out.splitlines(), client.out.splitlines()


@pytest.mark.parametrize("how", ["post", "wr"])
def test_atomics_and_immediate_data_by_either_way_to_post(iwarp, how):
    server, client = work(iwarp, how, ON, ON)
    expected = ["atomic_cap 1", "FetchAdd: success, 5", "CmpSwap: success, 8",
                "WRITE with immediate: success, 8"]
    # RFC 7306 has no such message.
    expected += [f"SEND with immediate: {REFUSED}"] if how == "post" else []
    assert client == expected
    assert server == ["receive 7: success, immediate 0x12345678, 16 bytes", "memory: 100 222 333"]


def test_without_them_nothing_of_them_can_be_posted(iwarp):
    server, client = work(iwarp)
    assert client == ["atomic_cap 0", f"FetchAdd: {REFUSED}", f"CmpSwap: {REFUSED}",
                      f"WRITE with immediate: {REFUSED}", f"SEND with immediate: {REFUSED}"]
    assert server[1] == "memory: 5 0 0"


def test_a_peer_without_them_ends_the_connection(iwarp):
    """As siw does: the operation is one that it doesn't expect."""
    server, client = work(iwarp, client_options=ON)
    assert client[1] == "FetchAdd: remote invalid request error, 0"
    assert server == ["receive 7: Work Request Flushed Error", "memory: 5 0 0"]


@pytest.mark.parametrize("tool", ["ib_atomic_bw", "ib_atomic_lat"])
@pytest.mark.parametrize("kind", ["FETCH_AND_ADD", "CMP_AND_SWAP"])
def test_perftest(iwarp, tool, kind):
    pair = iwarp.pair(tool, "-R", "-n", "100", "-F", "-A", kind,
                      server_how={"options": ON}, client_how={"options": ON})
    assert "#bytes" in pair.client.out, pair.report()


def test_wireshark_and_dump_name_the_messages(iwarp, tmp_path: pathlib.Path):
    captures = [tmp_path / "server.pcapng", tmp_path / "client.pcapng"]
    work(iwarp, server_options=[*ON, "--capture", str(captures[0])],
         client_options=[*ON, "--capture", str(captures[1])])
    for capture in captures:
        seen = look_at(capture)
        assert seen.problems == []
        assert seen.good_crcs == seen.fpdus > 0
        lines = "\n".join(seen.lines)
        assert "Atomic Request [last DDP segment]" in lines, lines
        assert "Atomic Response [last DDP segment]" in lines, lines
        # tshark 4.0 has no name for immediate data.
        fields = subprocess.run(
            [*TSHARK, "-r", str(capture), "-T", "fields", "-e", "iwarp_rdma.opcode", "-e",
             "iwarp_rdma.atomic.opcode"], capture_output=True, text=True, check=True).stdout
        opcodes = {value for line in fields.splitlines()
                   for value in line.split("\t")[0].split(",") if value}
        assert {"0x08", "0x0a", "0x0b"} <= opcodes, fields
        dumped = iwarp.verbena_command("dump", str(capture)).succeed().out
        assert "iWARP Atomic Request" in dumped and "FetchAdd at STag" in dumped, dumped
        assert "CmpSwap at STag" in dumped and "iWARP Atomic Response" in dumped, dumped
        assert "iWARP Immediate" in dumped and "immediate 0x12345678" in dumped, dumped


def test_devices_tell_the_setting(iwarp):
    assert "immediate data" not in iwarp.verbena_command("devices").succeed().out
    iwarp.variables["VERBENA_RDMAP_EXTENSIONS"] = "on"
    assert "immediate data and atomics" in iwarp.verbena_command("devices").succeed().out
    device = json.loads(iwarp.verbena_command("devices", "--json").succeed().out)[0]
    assert device["rdmap_extensions"] is True
