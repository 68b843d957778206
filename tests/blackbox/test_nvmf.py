"""NVMe over Fabrics on our NICs: the target and the initiator of examples/nvmf, to each other."""

from __future__ import annotations

import re
import struct

import pytest

import hosts
import nvmf
from programs import compiled

COUNT = 200
SIZES = "512,4096,65536"
# Of three sizes, two are short enough to come with the command.
IN_CAPSULE = sum(1 for number in range(COUNT) if number % 3 < 2)


@pytest.mark.parametrize("transport", ["roce", "iwarp"])
def test_what_is_written_is_read(host, transport):
    """In the capsule, by RDMA READ of the target, and back by RDMA WRITE; several queues."""
    host.variables["VERBENA_TRANSPORT"] = transport
    port = host.free_port()
    target = nvmf.start_target(host, port)
    report = nvmf.run_initiator(host, port, "--count", str(COUNT), "--sizes", SIZES,
                                "--queues", "3", "--depth", "5")
    assert report["nqn"] == nvmf.NQN
    assert report["verified"] == COUNT and report["queues"] == 3, report
    # Each queue's Connect has data in its capsule, too; two reads are of the tests at the end.
    assert report["in_capsule"] == IN_CAPSULE + 3, report
    assert report["by_key"] == (COUNT - IN_CAPSULE) + COUNT + 2, report
    assert report["invalidated"] == 0 and report["write_zeroes"], report
    totals = nvmf.stop_target(target)
    assert re.match(rf"{COUNT + 1} reads of \d+ bytes, {COUNT} writes of ", totals), totals


@pytest.mark.parametrize("transport", ["roce", "iwarp"])
def test_keys_are_taken_away_where_the_host_asks(host, transport):
    """The target's SEND with Invalidate closes the memory window that the data went through."""
    host.variables["VERBENA_TRANSPORT"] = transport
    port = host.free_port()
    target = nvmf.start_target(host, port, "--in-capsule", "0")
    report = nvmf.run_initiator(host, port, "--count", str(COUNT), "--sizes", SIZES, "--windows")
    assert report["in_capsule"] == 0, report
    assert report["invalidated"] == report["by_key"] == 2 * COUNT + 3, report
    nvmf.stop_target(target)


def test_tshark_names_each_command(host, tmp_path):
    port = host.free_port()
    capture = tmp_path / "nvmf.pcapng"
    # A capsule of several packets has no name in tshark, and its completion neither.
    target = nvmf.start_target(host, port, "--in-capsule", "1024")
    nvmf.run_initiator(host, port, "--count", "30", "--sizes", SIZES,
                       options=("--capture", str(capture)))
    nvmf.stop_target(target)
    seen = nvmf.Seen(capture, port)
    assert seen.malformed == []
    for command, count in {
            # Of the discovery controller, the subsystem, and one I/O queue.
            "NVMeOF Connect": 3, "NVMeOF CQE for Connect": 3,
            "NVMe Get Log Page NVMeOF Discovery": 1, "NVMe Identify Controller": 2,
            "NVMe Identify Namespace": 2, "NVMe Identify Active Namespace List": 1,
            "NVMe Set Features": 1, "NVMe Async Event Request": 1, "NVMe Keep Alive": 1,
            "NVMe Read": 32, "NVMe Flush": 1, "NVMe Write Zero": 1, "NVMe CQE for Read": 32,
            "NVMeOF Data Request for Write": 20, "NVMe CQE for Write": 31,
            "NVMe Write": 31}.items():
        assert seen.count(command) == count, (command, seen.lines)


def test_hosts_at_the_same_time(host):
    port = host.free_port()
    target = nvmf.start_target(host, port)
    programs = [host.start(nvmf.INITIATOR, "--port", str(port), "--count", "100", "--queues", "2",
                           "--host-nqn", f"nqn.2026-11.example:host{number}", "--sizes", "4096")
                for number in range(3)]
    # They share the namespace, so that each may find what another wrote: all must be served.
    for program in programs:
        program.wait()
        assert program.status == 0 or "differs from what was written" in program.err, (
            program.report())
    assert target.out.count("queue 2,") == 3, target.report()
    nvmf.stop_target(target)


def test_a_target_outlives_a_host_that_is_killed(host):
    port = host.free_port()
    target = nvmf.start_target(host, port)
    endless = host.start(nvmf.INITIATOR, "--port", str(port), "--count", "100000000")
    target.wait_for_output("queue 1,")
    endless.kill()
    assert nvmf.run_initiator(host, port, "--count", "10")["verified"] == 10
    target.wait_until(lambda: target.out.count("queue 1 ended") == 2, "both hosts gone")
    nvmf.stop_target(target)


def test_a_host_that_does_not_keep_alive_is_disconnected(host):
    port = host.free_port()
    # Long enough for a slow machine to connect both queues within it.
    target = nvmf.start_target(host, port, "--grace", "4")
    endless = host.start(nvmf.INITIATOR, "--port", str(port), "--count", "100000000",
                         "--keep-alive", "1000")
    target.wait_for_output("queue 1,")
    hosts.stop(endless)
    target.wait_for_output("ended: the host didn't keep it alive")
    endless.kill()
    assert nvmf.run_initiator(host, port, "--count", "10")["verified"] == 10
    nvmf.stop_target(target)


def test_a_host_gets_as_many_queues_as_there_are(host):
    port = host.free_port()
    target = nvmf.start_target(host, port, "--io-queues", "2")
    report = nvmf.run_initiator(host, port, "--count", "20", "--queues", "5")
    assert report["queues"] == 2 and report["verified"] == 20, report
    nvmf.stop_target(target)


@pytest.mark.parametrize("arguments,words", [
    (["--nqn", "nqn.2026-11.example:nobody"],
     "Connect of queue 0 to nqn.2026-11.example:nobody: connect: invalid parameters (0x182)"),
    (["--sizes", "2097152"], "the controller moves 1048576 bytes at once, not 2097152"),
    (["--sizes", "700"], "700 bytes are no whole blocks of 512"),
    (["--sizes", "1048576", "--depth", "100"], "is too small for 1 queues and a size of 1048576"),
])
def test_what_cannot_be_is_told(host, arguments, words):
    port = host.free_port()
    target = nvmf.start_target(host, port)
    program = host.run(nvmf.INITIATOR, "--port", str(port), *arguments)
    assert program.status == 1 and words in program.err, program.report()
    nvmf.stop_target(target)


def test_without_a_target(host):
    program = host.run(nvmf.INITIATOR, "--port", str(host.free_port()))
    assert program.status == 1, program.report()
    assert "nvmf_initiator: connecting queue 0: " in program.err, program.report()


def connect_capsule(sgl: bytes, behind: bytes = b"") -> str:
    """Connect of queue 1, 32 entries, with this descriptor and these bytes behind it."""
    command = bytes([0x7f, 0x40, 0, 0, 0x01]).ljust(24, b"\0") + sgl
    return (command + struct.pack("<HHH", 0, 1, 31)).ljust(64, b"\0").hex() + behind.hex()


def in_capsule(offset: int, length: int) -> bytes:
    return struct.pack("<QI3xB", offset, length, 0x01)


def keyed(length: int, kind: int = 0x40) -> bytes:
    """Memory that nobody has."""
    return struct.pack("<Q", 4096) + length.to_bytes(3, "little") + struct.pack("<IB", 0x77, kind)


@pytest.mark.parametrize("transport", ["roce", "iwarp"])
def test_a_target_survives_rude_hosts(host, transport):
    """Lengths, offsets and keys that don't fit end in a status, or end that connection only."""
    host.variables["VERBENA_TRANSPORT"] = transport
    port = host.free_port()
    target = nvmf.start_target(host, port)

    def rude(queue: int, send_size: int, *capsule: str) -> str:
        program = host.run(compiled("nvmf_rude"), "127.0.0.1", str(port), str(queue),
                           str(send_size), *capsule)
        assert program.status == 0, program.report()
        return program.out.strip()

    assert rude(999, 31) == "rejected 3"
    assert rude(1, 0) == "rejected 4"
    assert rude(1, 128) == "rejected 4"
    data = bytes(1024)
    for capsule, answer in {
            # Nobody with no name may connect to nothing.
            connect_capsule(in_capsule(0, 1024), data): "answered 0x182",
            connect_capsule(in_capsule(1, 1024), data): "answered 0x016",
            connect_capsule(in_capsule(2**64 - 1, 1024), data): "answered 0x016",
            connect_capsule(in_capsule(0, 1024)): "answered 0x016",
            connect_capsule(in_capsule(0, 4096), bytes(4096)): "answered 0x00f",
            connect_capsule(keyed(1025)): "answered 0x00f",
            connect_capsule(keyed(0)): "answered 0x00f",
            connect_capsule(keyed(1024, kind=0x30)): "answered 0x011",
            # Nothing to read there, no command, and more than a capsule holds.
            connect_capsule(keyed(1024)): "closed",
            "7f40": "closed",
            connect_capsule(in_capsule(0, 1024), bytes(5000)): "closed",
            bytes([0x18, 0x40]).ljust(64, b"\0").hex(): "answered 0x00c"}.items():
        assert rude(1, 31, capsule) == answer, capsule
    assert nvmf.run_initiator(host, port, "--count", "10")["verified"] == 10
    nvmf.stop_target(target)
