"""What goes wrong is said in a sentence, at once or in bounded time, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import hosts
from hosts import Host
from program import Program

USAGE = 2
NOBODY = 65534
# A peer that is gone is noticed after eight timeouts of tens of milliseconds, on any machine far
# below this.
GIVE_UP_S = 120.0


def assert_refused(program: Program, status: int, *words: str) -> None:
    """It ended with that status and one line on standard error, with all of the words."""
    assert program.status == status, program.report()
    lines = program.err.strip().splitlines()
    said = [line for line in lines if line.startswith("verbena: ")]
    assert said, program.report()
    for word in words:
        assert word in " ".join(said), f"\"{word}\" isn't said\n{program.report()}"


# --- The command line and the configuration: nothing is started


@pytest.mark.parametrize("options, words", [
    (["--mtu", "big"], ["big"]),
    (["--address", "localhost"], ["localhost"]),
    (["--address", "127.0.0.1,127.0.0.1"], ["127.0.0.1", "twice"]),
    (["--address", "127.0.0.1", "--interface", "lo"], ["contradict"]),
    (["--guid", "0"], ["GUID"]),
    (["--device", "a/b"], ["a/b"]),
    (["--ring", "1000"], ["1000", "power of two"]),
    (["--ack-timeout-min", "-1"], ["-1", "10000"]),
    (["--fabric", "relative/path"], ["relative/path"]),
])
def test_values_that_make_no_sense_are_refused_before_anything_starts(host, options, words):
    program = host.run("echo", "started", options=options)
    assert_refused(program, USAGE, *words)
    assert program.out == "", program.report()


GARBAGE = {
    "not toml": (b"[[device]\nname = \n", ["1:"]),
    "bytes": (bytes(range(256)) * 8, ["1:"]),
    "unknown key": (b"[[device]]\nname = \"a\"\ncolour = 7\n", ["3:", "colour"]),
    "wrong type": (b"[[device]]\nmtu = \"large\"\n", ["2:", "mtu"]),
    "no device": (b"# nothing\n", ["device"]),
    "twice the same": (b"[[device]]\nname = \"a\"\n[[device]]\nname = \"a\"\n", ["a"]),
    "limit too high": (b"[[device]]\n[device.limits]\nqp_max = 99999999999\n", ["3:", "qp_max"]),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_bad_configuration_is_refused_where_it_is_bad(host, kind):
    """The message names file, line and column; the drop-in library without the wrapper says it
    too, and offers no device."""
    content, words = GARBAGE[kind]
    config = host.logs / "bad.toml"
    config.write_bytes(content)
    assert_refused(host.run("ibv_devices", options=["--config", str(config)]), USAGE,
                   str(config), *words)
    bare = host.run_bare("ibv_devices", variables={
        "LD_LIBRARY_PATH": str(hosts.LIBRARIES), "VERBENA_CONFIG": str(config)})
    assert str(config) in bare.err, bare.report()
    assert "verbena0" not in bare.out, bare.report()


# --- The fabric


def assert_device_refused(host: Host, *words: str) -> None:
    """The device is listed but can't be opened, and the program and we say why."""
    program = host.run("ibv_devinfo")
    assert program.status != 0, program.report()
    assert "Failed to open device" in program.err, program.report()
    said = [line for line in program.err.splitlines() if line.lower().startswith("verbena")]
    assert len(said) == 1, program.report()
    for word in [str(host.directory), *words]:
        assert word in said[0], f"\"{word}\" isn't said\n{program.report()}"


@pytest.fixture
def abandoned_fabric(host):
    """The file of a fabric, as the last one leaves it who is killed."""
    program = host.start("ibv_asyncwatch")
    program.wait_for_output("async event FD")
    program.kill()
    assert host.fabric.exists()
    return host.fabric


def test_a_fabric_of_another_version(host, abandoned_fabric):
    """The version is the 32 bits after the 8 bytes of magic (ports/fabric_layout.h)."""
    version_offset = 8
    good = abandoned_fabric.read_bytes()
    with abandoned_fabric.open("r+b") as file:
        file.seek(version_offset)
        version = int.from_bytes(file.read(4), "little")
        file.seek(version_offset)
        file.write((version + 1).to_bytes(4, "little"))
    assert_device_refused(host, f"version {version + 1}", f"version {version}")
    abandoned_fabric.write_bytes(good)
    host.run("ibv_devinfo").succeed()


def test_a_fabric_that_others_may_write(host, abandoned_fabric):
    abandoned_fabric.chmod(0o666)
    assert_device_refused(host, "0666", "other users")
    abandoned_fabric.chmod(0o600)
    host.run("ibv_devinfo").succeed()


def test_a_directory_that_others_may_enter(host):
    host.directory.chmod(0o755)
    assert_device_refused(host, "0755", "chmod 700")


def test_a_fabric_of_another_owner(host, abandoned_fabric):
    """The user nobody meets our fabric. Without root we can't make a file of another user; then the
    fabric is put in /, which isn't ours."""
    if os.geteuid() == 0:
        os.chown(abandoned_fabric, NOBODY, NOBODY)
        assert_device_refused(host, f"user {NOBODY}", "user 0")
        os.chown(abandoned_fabric, 0, 0)
    else:
        program = host.run("ibv_devinfo", variables={"VERBENA_FABRIC": "/dev/test.fabric"})
        assert program.status != 0 and "belongs to user 0" in program.err, program.report()


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 4096, b"\xff" * (1 << 20)],
                         ids=["empty", "short", "zeros", "ones"])
def test_a_file_that_is_no_fabric(host, content):
    host.fabric.write_bytes(content)
    host.fabric.chmod(0o600)
    assert_device_refused(host, "not a fabric", "remove it")
    assert host.fabric.read_bytes() == content, "somebody else's file was changed"
    host.fabric.unlink()


def test_a_link_instead_of_a_fabric(host):
    """Who plants a link can't make us write through it."""
    victim = host.logs / "victim"
    victim.write_text("precious")
    host.fabric.symlink_to(victim)
    assert_device_refused(host)
    assert victim.read_text() == "precious"
    host.fabric.unlink()


def test_a_file_size_limit_leaves_no_fabric(host):
    """ulimit -f, in KiB: less than a fabric needs."""
    program = host.run("sh", "-c", "trap '' XFSZ; ulimit -f 64; exec ibv_devinfo")
    assert program.status != 0, program.report()
    assert "no space for the fabric" in program.err, program.report()
    assert host.files() == []


def in_small_file_system(host: Host, kib: int, script: str) -> Program:
    """Runs a shell script where the fabric's directory is a file system of that size, which only
    the script sees."""
    namespaces = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    allowed = subprocess.run(["unshare", *namespaces, "sh", "-c",
                              f"mount -t tmpfs -o size=64k none {host.directory}"],
                             capture_output=True, text=True, check=False)
    if allowed.returncode != 0:
        pytest.xfail(f"this machine doesn't let us mount a small tmpfs: {allowed.stderr.strip()}")
    mount = f"mount -t tmpfs -o size={kib}k,mode=0700 none {host.directory}"
    return host.run_bare("unshare", *namespaces, "sh", "-c", f"{mount} && {script}")


def test_no_space_for_the_fabric(host):
    program = in_small_file_system(host, 64, f"exec {hosts.VERBENA} run -- ibv_devinfo")
    assert program.status != 0, program.report()
    assert "no space for the fabric" in program.err, program.report()
    assert "df -h" in program.err, program.report()


def test_no_space_for_a_ring(host):
    """The fabric fits, the ring between the two programs doesn't: both end in bounded time, and it
    is said why."""
    port = host.free_port()
    run = f"timeout {GIVE_UP_S:g} {hosts.VERBENA} run -- ibv_rc_pingpong -g 0 -p {port}"
    wait = f"until grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"
    script = f"{run} & {wait}; {run} {hosts.LOOPBACK}; status=$?; kill $!; wait; exit $status"
    program = in_small_file_system(host, 2900, script)
    assert program.status not in (0, 124), program.report()
    assert "can't make a ring" in program.err and "No space left" in program.err, program.report()


# --- Captures


def test_a_full_disk_ends_the_capture_not_the_program(host):
    """/dev/full: every write fails."""
    pair = host.pair("ibv_rc_pingpong", "-g", "0",
                     client_how={"options": ["--capture", "/dev/full"]})
    assert "No space left" in pair.client.err, pair.report()


# --- Programs that ask for what there isn't


def test_a_gid_index_beyond_the_table(host):
    """The table has sixteen rows, most of them empty."""
    program = host.run("ibv_rc_pingpong", "-g", "16")
    assert program.status == 1, program.report()
    assert "can't read sgid of index 16" in program.err, program.report()


@pytest.mark.parametrize("arguments, said", [
    (["-g", "0", "-m", "2048"], "Failed to modify QP to RTR"),
    ([], "must use a GID of type RoCE v2"),
], ids=["path MTU above the port's", "no GID index"])
def test_pingpong_with_wrong_arguments(host, arguments, said):
    """The server is the first to connect its queue pair, so it's the one that says why not."""
    pair = host.start_pair("ibv_rc_pingpong", *arguments, options=["--mtu", "1024"])
    host.wait_for_both(pair, GIVE_UP_S)
    assert (pair.server.status, pair.client.status) == (1, 1), pair.report()
    assert said in pair.server.err, pair.report()


def test_a_port_that_isnt_there(host):
    program = host.run("ibv_rc_pingpong", "-g", "0", "-i", "2")
    assert program.status == 1, program.report()
    assert "Failed to modify QP to INIT" in program.err, program.report()


def test_perftest_with_a_gid_index_beyond_the_table(host):
    pair = host.start_pair("ib_write_bw", "-F", "-x", "5")
    host.wait_for_both(pair, GIVE_UP_S)
    assert pair.client.status != 0, pair.report()


def test_packets_above_the_receivers_path_mtu(host):
    """The receiver takes 1024 bytes a packet and gets 4096: it refuses, and the sender hears it."""
    pair = host.start_pair("ibv_rc_pingpong", "-g", "0", "-s", "4096",
                           server_arguments=["-m", "1024"], client_arguments=["-m", "4096"])
    pair.client.wait(GIVE_UP_S)
    assert pair.client.status == 1, pair.report()
    assert "Failed status remote invalid request error" in pair.client.err, pair.report()
    pair.server.wait(GIVE_UP_S)
    assert pair.server.status == 1, pair.report()


# --- Peers that go away


PERFTESTS = ["ib_send_bw", "ib_write_bw", "ib_read_bw"]


@pytest.mark.parametrize("tool", PERFTESTS)
def test_a_killed_server_ends_the_client(host, tool):
    pair = host.start_endless(tool, "-t", "64")
    pair.server.kill()
    pair.client.wait(GIVE_UP_S)
    assert pair.client.status not in (0, None), pair.report()
    assert "transport retry counter exceeded" in pair.client.out + pair.client.err or (
        "Failed status 12" in pair.client.out + pair.client.err), pair.report()


@pytest.mark.parametrize("tool", PERFTESTS)
def test_a_stopped_server_ends_the_client(host, tool):
    """A host that stops draining is as good as dead (IBV_WC_RETRY_EXC_ERR)."""
    pair = host.start_endless(tool, "-t", "64")
    hosts.stop(pair.server)
    pair.client.wait(GIVE_UP_S)
    assert pair.client.status not in (0, None), pair.report()
    assert "Failed status 12" in pair.client.out + pair.client.err, pair.report()


def test_a_server_survives_its_client(host):
    """A killed client doesn't disturb others in the same fabric, and what it held is free again."""
    witness = host.start_pair("ib_write_bw", "-F", "-n", "20000")
    victim = host.start_endless("ib_send_bw")
    victim.client.kill()
    host.wait_for_both(witness)
    assert (witness.server.status, witness.client.status) == (0, 0), witness.report()
    victim.server.kill()
    host.pair("ibv_rc_pingpong", "-g", "0")


def test_a_hundred_connections_leave_nothing(host):
    """One process stays in the fabric all the time, so that nothing is hidden by the last one
    tidying up; at the end only it is there."""
    keeper = host.start("ibv_asyncwatch")
    keeper.wait_for_output("async event FD")
    at_start = host.files()
    for _ in range(100):
        host.pair("ibv_rc_pingpong", "-g", "0", "-n", "5")
    assert host.files() == at_start
    keeper.send_signal(signal.SIGTERM)
    keeper.wait()
