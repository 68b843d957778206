"""`verbena dump`, against tshark and against an ICRC checker of its own; and captures: what
programs send under `verbena run --capture` is what Wireshark expects."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess

import pytest

import hosts
import tools.icrc_check as icrc_check
import tools.tshark_clean as tshark_clean

CAPTURES = sorted((hosts.ROOT / "tests" / "data" / "captures").glob("*.pcap"))
SEND = hosts.ROOT / "tests" / "data" / "captures" / "v4_rc_send.pcap"
FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16

# A field of tshark's, and where the same number is in the JSON of the dump.
COMPARED = {
    "frame.len": ("frame", "size"),
    "infiniband.bth.opcode": ("bth", "opcode"),
    "infiniband.bth.se": ("bth", "solicited"),
    "infiniband.bth.m": ("bth", "migrated"),
    "infiniband.bth.padcnt": ("bth", "pad_count"),
    "infiniband.bth.p_key": ("bth", "pkey"),
    "infiniband.bth.destqp": ("bth", "destination_qp"),
    "infiniband.bth.a": ("bth", "ack_request"),
    "infiniband.bth.psn": ("bth", "psn"),
    "infiniband.aeth.syndrome": ("aeth", "syndrome"),
    "infiniband.aeth.msn": ("aeth", "msn"),
    "infiniband.reth.dmalen": ("reth", "dma_length"),
    "infiniband.immdt": ("imm_dt", "immediate"),
    "infiniband.ieth": ("ieth", "rkey"),
    "infiniband.deth.q_key": ("deth", "qkey"),
    "infiniband.deth.srcqp": ("deth", "source_qp"),
    "infiniband.atomiceth.swapdt": ("atomic_eth", "swap_or_add"),
    "infiniband.atomiceth.cmpdt": ("atomic_eth", "compare"),
    "infiniband.atomicacketh.origremdt": ("atomic_ack_eth", "original"),
    "udp.srcport": ("udp", "source_port"),
}
# The same in tshark for RETH and AtomicETH.
ADDRESSES = {"infiniband.reth.va": "va", "infiniband.reth.r_key": "rkey"}
# Fields of the connection manager's messages, which tshark names by message.
CM_FIELDS = {
    "infiniband.cm.req.localcaguid": "local_ca_guid",
    "infiniband.cm.req.localqpn": "local_qpn",
    "infiniband.cm.req.responderres": "responder_resources",
    "infiniband.cm.req.initdepth": "initiator_depth",
    "infiniband.cm.req.remoteresptout": "remote_cm_response_timeout",
    "infiniband.cm.req.startpsn": "starting_psn",
    "infiniband.cm.req.localresptout": "local_cm_response_timeout",
    "infiniband.cm.req.retrcount": "retry_count",
    "infiniband.cm.req.pppmtu": "path_mtu",
    "infiniband.cm.req.rnrretrcount": "rnr_retry_count",
    "infiniband.cm.req.maxcmretr": "max_cm_retries",
    "infiniband.cm.req.prim_hoplim": "hop_limit",
    "infiniband.cm.req.prim_localacktout": "local_ack_timeout",
    "infiniband.cm.rep.remotecommid": "remote_comm_id",
    "infiniband.cm.rep.localqpn": "local_qpn",
    "infiniband.cm.rep.startpsn": "starting_psn",
    "infiniband.cm.rep.respres": "responder_resources",
    "infiniband.cm.rep.initdepth": "initiator_depth",
    "infiniband.cm.rep.tgtackdelay": "target_ack_delay",
    "infiniband.cm.rep.rnrretrcount": "rnr_retry_count",
}
# What tshark shows as bytes.
BYTES = {"infiniband.immdt", "infiniband.ieth"}
ICRC = "infiniband.invariant.crc"


def dump(host: hosts.Host, *arguments: str) -> list[str]:
    return host.verbena_command("dump", *arguments).succeed().out.splitlines()


def dump_json(host: hosts.Host, path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in dump(host, "--json", str(path))]


def join_captures(paths: list[pathlib.Path], joined: pathlib.Path) -> None:
    """One classic pcap with the packets of all: one run of a program instead of forty."""
    contents = [path.read_bytes() for path in paths]
    assert len({content[:FILE_HEADER_BYTES] for content in contents}) == 1
    packets = b"".join(content[FILE_HEADER_BYTES:] for content in contents)
    joined.write_bytes(contents[0][:FILE_HEADER_BYTES] + packets)


def number(value) -> int | None:
    """A number of tshark's text or of the dump's JSON."""
    if value is None or value == "":
        return None
    return int(value, 0) if isinstance(value, str) else int(value)


def number_of_tshark(name: str, values: str) -> int | None:
    """tshark has some fields twice: in their place and for filters."""
    value = values.split(tshark_clean.VALUES_BETWEEN)[0]
    if value in ("True", "False"):
        return int(value == "True")
    return number(f"0x{value}" if value and name in BYTES else value)


def disagreements(rows: list[list[str]], packets: list[dict]) -> list[str]:
    """Where tshark and the dump say something else about a packet."""
    names = [*COMPARED, *ADDRESSES, *CM_FIELDS, ICRC]
    found = []
    for row, packet in zip(rows, packets, strict=True):
        theirs = dict(zip(names, row))
        ours = {name: packet.get(layer, {}).get(field)
                for name, (layer, field) in COMPARED.items()}
        addressed = packet.get("reth") or packet.get("atomic_eth") or {}
        ours |= {name: addressed.get(field) for name, field in ADDRESSES.items()}
        for name in [*COMPARED, *ADDRESSES]:
            if number_of_tshark(name, theirs[name]) != number(ours[name]):
                found.append(f"frame {packet['frame']['number']}: {name} is {theirs[name]!r} to "
                             f"tshark, {ours[name]!r} to the dump")
        for name, field in CM_FIELDS.items():
            ours_here = packet.get("mad", {}).get(field)
            if theirs[name] and number_of_tshark(name, theirs[name]) != number(ours_here):
                found.append(f"frame {packet['frame']['number']}: {name} is {theirs[name]!r} to "
                             f"tshark, {ours_here!r} to the dump")
        # tshark shows the bytes in the order of the wire, the least significant one first.
        value = struct.unpack(">I", struct.pack("<I", packet["icrc"]["value"]))[0]
        if theirs[ICRC] and int(theirs[ICRC], 0) != value:
            found.append(f"frame {packet['frame']['number']}: ICRC {theirs[ICRC]}, {value:#x}")
    return found


def compare_with_tshark(host: hosts.Host, path: pathlib.Path) -> int:
    """Returns how many packets were compared."""
    rows = tshark_clean.fields_of(path, [*COMPARED, *ADDRESSES, *CM_FIELDS, ICRC])
    packets = dump_json(host, path)
    assert disagreements(rows, packets) == []
    return len(packets)


# --- Our decoder against others


def test_tshark_agrees_on_every_field_of_the_kernels_captures(host, tmp_path):
    joined = tmp_path / "all.pcap"
    join_captures(CAPTURES, joined)
    assert compare_with_tshark(host, joined) > 700


def test_a_difference_would_be_seen(host):
    """The positive control of the comparison."""
    rows = tshark_clean.fields_of(SEND, [*COMPARED, *ADDRESSES, *CM_FIELDS, ICRC])
    packets = dump_json(host, SEND)
    packets[3]["bth"]["psn"] += 1
    packets[1]["aeth"]["msn"] = 7
    found = disagreements(rows, packets)
    assert len(found) == 2 and "msn" in found[0] and "psn" in found[1]


def test_the_icrc_checker_agrees_on_every_packet(host, tmp_path):
    joined = tmp_path / "all.pcap"
    join_captures(CAPTURES, joined)
    theirs = icrc_check.icrcs_of_file(joined)
    ours = [packet["icrc"] for packet in dump_json(host, joined)]
    assert [(icrc.wire, icrc.computed) for icrc in theirs] == [
        (icrc["value"], icrc["computed"]) for icrc in ours]
    assert all(icrc.is_good for icrc in theirs)
    assert {icrc["status"] for icrc in ours} == {"good"}


def test_a_flipped_bit_is_a_bad_icrc_to_both(host, tmp_path):
    content = bytearray(SEND.read_bytes())
    payload_of_the_first = FILE_HEADER_BYTES + RECORD_HEADER_BYTES + 14 + 20 + 8 + 12
    content[payload_of_the_first] ^= 1
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(content)
    assert [icrc.is_good for icrc in icrc_check.icrcs_of_file(broken)] == [False] + [True] * 9
    lines = dump(host, str(broken))
    assert "ICRC BAD" in lines[0]
    assert all("ICRC good" in line for line in lines[1:])


def test_tshark_clean_has_teeth(tmp_path):
    """The positive control of tools/tshark_clean.py: a cut frame, another protocol, no frame."""
    content = SEND.read_bytes()
    assert tshark_clean.problems_of(SEND) == []
    header, record = content[:FILE_HEADER_BYTES], content[FILE_HEADER_BYTES:]
    frame_bytes = struct.unpack_from("<I", record, 8)[0]
    frame = record[RECORD_HEADER_BYTES:RECORD_HEADER_BYTES + frame_bytes]
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(header + record[:8] + struct.pack("<II", 60, frame_bytes) + frame[:60])
    assert tshark_clean.problems_of(cut) != []
    other = tmp_path / "other.pcap"
    other.write_bytes(header + record[:RECORD_HEADER_BYTES] + frame[:12] + b"\x08\x06" + frame[14:])
    assert tshark_clean.problems_of(other) != []
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(header)
    assert tshark_clean.problems_of(empty) == ["no frames"]
    with pytest.raises(RuntimeError):
        tshark_clean.fields_of(SEND, ["no.such.field"])


# --- The command


def test_a_capture_cut_anywhere_shows_what_came_before(host, tmp_path):
    content = SEND.read_bytes()
    whole = dump(host, str(SEND))
    second = FILE_HEADER_BYTES + RECORD_HEADER_BYTES + struct.unpack_from("<I", content, 32)[0]
    for size, lines, begin in [(second + 1, 1, second), (second + 20, 1, second),
                               (len(content) - 1, 9, None)]:
        cut = tmp_path / "cut.pcap"
        cut.write_bytes(content[:size])
        program = host.verbena_command("dump", str(cut))
        assert program.status == 1
        assert program.out.splitlines() == whole[:lines]
        assert f"{cut}: truncated at byte {size}, inside the packet" in program.err
        assert begin is None or f"begins at byte {begin}\n" in program.err


def test_garbage_is_told_at_its_offset(host, tmp_path):
    broken = tmp_path / "broken.pcap"
    content = SEND.read_bytes()
    broken.write_bytes(content + b"\xff" * 100)
    program = host.verbena_command("dump", str(broken))
    assert program.status == 1
    assert len(program.out.splitlines()) == 10
    assert f"{broken}: garbage at byte {len(content)}: " in program.err


@pytest.mark.parametrize("content, error", [
    (b"", "the file is empty"),
    (b"#!/bin/sh\n", "not a capture: it begins like neither pcap nor pcapng"),
])
def test_what_is_no_capture_is_told(host, tmp_path, content, error):
    path = tmp_path / "file"
    path.write_bytes(content)
    program = host.verbena_command("dump", str(path))
    assert (program.status, program.out) == (1, "")
    assert program.err == f"verbena: {path}: {error}\n"


def test_a_missing_capture_is_told(host):
    program = host.verbena_command("dump", "/no/such/file")
    assert program.status == 1
    assert program.err == "verbena: /no/such/file: No such file or directory\n"


def test_count_ends_the_dump(host):
    assert dump(host, "-n", "3", str(SEND)) == dump(host, str(SEND))[:3]
    assert dump(host, "-n", "0", str(SEND)) == []


def test_details_have_every_layer(host):
    text = "\n".join(dump(host, "-v", "-n", "1", str(SEND)))
    for layer in ("Ethernet, 14 bytes at 0", "IPv4, 20 bytes at 14", "UDP, 8 bytes at 34",
                  "BTH, 12 bytes at 42", "Payload, 104 bytes at 54", "ICRC, 4 bytes at 158"):
        assert layer in text


def test_comments_of_other_programs_are_shown(host, tmp_path):
    commented = tmp_path / "commented.pcapng"
    subprocess.run(["editcap", "-a", "2:lost, I think", str(SEND), str(commented)], check=True)
    lines = dump(host, str(commented))
    assert lines[1].endswith("  # lost, I think")
    assert [line for line in lines if "#" in line] == [lines[1]]


def test_standard_input_is_shown_as_it_comes():
    """The first packet is shown while the second one hasn't been written yet."""
    content = SEND.read_bytes()
    first = FILE_HEADER_BYTES + RECORD_HEADER_BYTES + struct.unpack_from("<I", content, 32)[0]
    with subprocess.Popen([hosts.VERBENA, "dump", "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdin.write(content[:first])
        process.stdin.flush()
        assert b"RC SEND Only" in process.stdout.readline()
        process.stdin.write(content[first:])
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) == 9
        assert process.wait(hosts.TIMEOUT_S) == 0


def test_a_full_disk_is_told(host):
    with open("/dev/full", "wb") as full:
        result = subprocess.run([hosts.VERBENA, "dump", str(SEND)], stdout=full,
                                stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "verbena: standard output: No space left on device\n"


# --- Captures of programs


def is_clean(host: hosts.Host, path: pathlib.Path) -> int:
    """All that can be said against a capture of ours; returns the number of its packets."""
    assert tshark_clean.problems_of(path) == []
    icrcs = icrc_check.icrcs_of_file(path)
    assert all(icrc.is_good for icrc in icrcs)
    packets = compare_with_tshark(host, path)
    assert packets == len(icrcs)
    return packets


def test_what_programs_send_is_clean(host, tmp_path):
    server, client = tmp_path / "server.pcapng", tmp_path / "client.pcapng"
    # Nothing is sent twice because one of them isn't scheduled for a moment.
    patient = ["--ack-timeout-min", "10000"]
    host.pair("ibv_rc_pingpong", "-g", "0", "-n", "20", "-s", "3000", "-c",
              server_how={"options": [*patient, "--capture", str(server)]},
              client_how={"options": [*patient, "--capture", str(client)]})
    # 20 messages each way, each of at least one packet; both ends see the same.
    assert is_clean(host, server) == is_clean(host, client) >= 40
    directions = [packet["frame"]["direction"] for packet in dump_json(host, client)]
    assert set(directions) == {"in", "out"}
    rows = tshark_clean.fields_of(client, ["frame.interface_name", "frame.packet_flags_direction"])
    numbers = {"in": 1, "out": 2}
    assert [(name, int(direction, 0)) for name, direction in rows] == [
        ("verbena0", numbers[direction]) for direction in directions]


def test_a_capture_is_shown_live(host, tmp_path):
    """verbena run --capture - -- COMMAND | verbena dump -"""
    server, port = host.start_server("ibv_rc_pingpong", "-g", "0", "-n", "5")
    arguments = ["--capture", "-", "--", "ibv_rc_pingpong", "-g", "0", "-n", "5", "-p", str(port)]
    environment = os.environ | host.variables
    errors = tmp_path / "errors"
    with open(errors, "wb") as to_errors:
        with subprocess.Popen([hosts.VERBENA, "run", *arguments, hosts.LOOPBACK],
                              stdout=subprocess.PIPE, stderr=to_errors,
                              env=environment) as program:
            lines = subprocess.run([hosts.VERBENA, "dump", "-"], stdin=program.stdout,
                                   capture_output=True, text=True, check=True).stdout.splitlines()
            assert program.wait(hosts.TIMEOUT_S) == 0
    server.succeed()
    assert sum("SEND" in line for line in lines) >= 10
    # What the program prints isn't mixed with its capture.
    assert "5 iters" in errors.read_text()


def test_a_fifo_takes_a_capture(host, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = host.start_bare(str(hosts.VERBENA), "dump", str(fifo))
    host.pair("ibv_rc_pingpong", "-g", "0", "-n", "5",
              client_how={"options": ["--capture", str(fifo)]})
    lines = reader.succeed().out.splitlines()
    assert sum("SEND" in line for line in lines) >= 10
    assert all("ICRC good" in line for line in lines)


def test_each_process_of_a_command_has_a_capture_of_its_own(host, tmp_path):
    capture = tmp_path / "trace.pcapng"
    capture.write_text("an old capture, which run empties")
    host.run("sh", "-c", "ibv_devinfo >/dev/null; ibv_devinfo >/dev/null",
             options=["--capture", str(capture)]).succeed()
    files = sorted(path.name for path in tmp_path.glob("trace*"))
    assert len(files) == 2 and "trace.pcapng" in files
    for name in files:
        host.verbena_command("dump", str(tmp_path / name)).succeed()
