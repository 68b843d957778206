"""The lab: the kernel's own RDMA devices in a guest, and ours against them.

Whoever has the packages gets these tests: a guest that can't be built is a failure. It is kept in
the user's cache, so that only the first run takes the minutes that building it takes. A guest
without KVM is slow, so there are few boots, and each does a lot.
"""

from __future__ import annotations

import pytest

import hosts

BUILD_LIMIT_S = 900.0
BOOT_LIMIT_S = 400.0

@pytest.fixture(scope="module", autouse=True)
def guest(tmp_path_factory):
    """Builds the guest if there is none, or an old one."""
    host = hosts.Host(tmp_path_factory.mktemp("lab"))
    host.verbena_command("lab", "build", timeout_s=BUILD_LIMIT_S).succeed()
    yield
    host.close()


def in_guest(host, command: str, *options: str):
    return host.verbena_command("lab", "run", *options, "--", command, timeout_s=BOOT_LIMIT_S)


def test_a_command_runs_in_the_guest_beside_both_devices(host, tmp_path):
    """Output, exit status and files come back, and the devices are the kernel's."""
    share = tmp_path / "share"
    share.mkdir()
    (share / "question").write_text("from the host\n")
    program = in_guest(
        host, "rdma_device rxe && ibv_devinfo -d rxe0 && rdma link add siw0 type siw netdev eth0 && "
        "ibv_devinfo -d siw0 && tr a-z A-Z <question >answer; pwd; exit 7",
        "--share", str(share))
    assert program.status == 7, program.report()
    assert "hca_id:\trxe0" in program.out and "hca_id:\tsiw0" in program.out, program.report()
    assert "iWARP" in program.out, program.report()
    assert program.out.splitlines()[-1] == "/share", program.report()
    assert (share / "answer").read_text() == "FROM THE HOST\n"


def test_a_command_that_hangs_is_ended(host):
    program = in_guest(host, "echo begun; sleep 1000", "--timeout", "3")
    assert program.status == 124, program.report()
    assert program.out == "begun\n", program.report()
    assert "the command was still running after 3 s" in program.err, program.report()


def test_a_guest_that_dies_is_reported_with_its_last_words(host):
    program = in_guest(host, "echo c >/proc/sysrq-trigger; sleep 60", "--timeout", "30")
    assert program.status == 125, program.report()
    assert "the guest ended before its command did" in program.err, program.report()
    assert "Kernel panic" in program.err, program.report()


def test_the_status_says_what_there_is(host):
    program = host.verbena_command("lab", "status").succeed()
    assert "guest        ready" in program.out, program.report()
    assert "6.1." in program.out, program.report()
    assert "all there" in program.out, program.report()
