"""NVMe over Fabrics against Linux in the lab's guest: its initiator to the target of
examples/nvmf on our NIC, and our initiator to its target; over rxe, and over siw.

One boot for all of it: the tests give the guest one command after the other.
"""

from __future__ import annotations

import os

import pytest

import hosts
import nvmf
from guest_limits import (BOOT_LIMIT_S, BUILD_LIMIT_S, GUEST_LIMIT_S, STEP_LIMIT_HERE_S,
                          STEP_LIMIT_S)

# On the wire between us and the guest, and in QEMU's own network.
OURS, THEIRS = "10.7.0.1", "10.7.0.2"
HOST_OF_GUEST, GUEST = "10.0.2.2", "10.0.2.15"
GUEST_NQN = "nqn.2026-11.example.verbena:guest"
COUNT = 1000
# The last is longer than what comes with a command.
SIZES = (512, 4096, 16384)
IN_CAPSULE = 512

SERVE_STEPS = f"""rdma_device rxe && rdma_device siw eth1 {GUEST}/24 && modprobe nvme-rdma || exit
touch ready
while [ ! -e quit ]; do
  for script in *.sh; do
    [ -e "$script" ] || continue
    name=${{script%.sh}}
    mv "$script" "$name.begun"
    timeout {STEP_LIMIT_S:.0f} bash -e "$name.begun" >"$name.out" 2>&1
    echo $? >"$name.status"
  done
  sleep 0.1
done
"""

# Linux tells of a namespace a moment after it is connected.
USE_TARGET = """nvme discover -t rdma -a {address} -s {port}
nvme connect -t rdma -a {address} -s {port} -n {nqn} -i 2
for i in $(seq 600); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done
nvme list
nvme id-ctrl /dev/nvme0
verify_blocks /dev/nvme0n1 {count} {sizes}
nvme flush /dev/nvme0n1
nvme disconnect -n {nqn}
"""


class Guest:
    """A guest with rxe0 on a wire and siw0 in QEMU's network, that runs commands one by one."""

    def __init__(self, host: hosts.Host, directory):
        self.host = host
        self.share = directory / "share"
        self.share.mkdir()
        # A guest that isn't scheduled for a while is none that has died.
        self.link = ("--link", f"qemu:{directory / 'wire'}", "--address", f"{OURS}/24",
                     "--ack-timeout-min", "1000")
        self._steps = 0
        self.program = host.start_bare(
            str(host.verbena), "lab", "run", "--link", str(directory / "wire"), "--share",
            str(self.share), "--timeout", f"{GUEST_LIMIT_S:.0f}", "--", SERVE_STEPS)
        self.program.wait_until((self.share / "ready").exists, "devices", timeout_s=BOOT_LIMIT_S)

    def run(self, command: str) -> str:
        """Runs a command, which must be good, and returns its output."""
        self._steps += 1
        name = f"step{self._steps}"
        # Whole or not at all, as the guest looks at any time.
        (self.share / f"{name}.new").write_text(command)
        os.rename(self.share / f"{name}.new", self.share / f"{name}.sh")
        status = self.share / f"{name}.status"
        self.program.wait_until(lambda: status.exists() and status.read_text().endswith("\n"),
                                name, timeout_s=STEP_LIMIT_HERE_S)
        output = (self.share / f"{name}.out").read_text()
        assert status.read_text() == "0\n", f"in the guest:\n{output}"
        return output

    def quit(self) -> None:
        (self.share / "quit").touch()
        self.program.succeed()


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lab-nvmf")
    host = hosts.Host(directory)
    host.verbena_command("lab", "build", timeout_s=BUILD_LIMIT_S).succeed()
    guest = Guest(host, directory)
    yield guest
    guest.quit()
    host.close()


def use_target(guest: Guest, address: str, port: int, count: int) -> None:
    """The guest's kernel finds a target, connects, writes and reads, and disconnects."""
    output = guest.run(USE_TARGET.format(address=address, port=port, nqn=nvmf.NQN, count=count,
                                         sizes=" ".join(map(str, SIZES))))
    assert f"subnqn:  {nvmf.NQN}" in output, output
    assert "Verbena NVMe-oF example" in output and "67.11  MB" in output, output
    assert f"/dev/nvme0n1: {count} writes read back and compared" in output, output
    assert "NVMe Flush: success" in output, output
    assert "disconnected 1 controller(s)" in output, output


def test_linux_uses_our_target_over_rxe(host, guest, tmp_path):
    """1,000 writes of the kernel's block layer, each read back; tshark names each command."""
    capture = tmp_path / "nvmf.pcapng"
    target = nvmf.start_target(host, nvmf.PORT, "--address", OURS, "--in-capsule",
                               str(IN_CAPSULE), options=(*guest.link, "--capture", str(capture)))
    use_target(guest, OURS, nvmf.PORT, COUNT)
    totals = nvmf.stop_target(target)
    assert f"{COUNT} writes of " in totals, totals
    seen = nvmf.Seen(capture, nvmf.PORT)
    assert seen.malformed == []
    in_capsule = sum(1 for number in range(COUNT) if SIZES[number % len(SIZES)] <= IN_CAPSULE)
    assert seen.count("NVMe Write") == seen.count("NVMe CQE for Write") == COUNT
    assert seen.count("NVMeOF Data Request for Write") == COUNT - in_capsule
    assert seen.count("NVMe Read") == seen.count("NVMe CQE for Read") >= COUNT
    # The discovery controller, the subsystem and two I/O queues.
    assert seen.count("NVMeOF Connect") == seen.count("NVMeOF CQE for Connect") == 4
    assert seen.unnamed() == []


def test_our_initiator_uses_linuxs_target_over_rxe(host, guest):
    """1,000 each: with one key for all, and with windows whose keys the kernel takes away."""
    guest.run(f"nvme_target {THEIRS}")
    for arguments in ([], ["--windows", "--queues", "2"]):
        report = nvmf.run_initiator(
            host, nvmf.PORT, "--address", THEIRS, "--count", str(COUNT), "--sizes",
            "4096,16384,65536", "--timeout", f"{STEP_LIMIT_S:.0f}", *arguments, options=guest.link,
            timeout_s=STEP_LIMIT_HERE_S)
        assert report["nqn"] == GUEST_NQN and report["model"] == "Linux", report
        assert report["verified"] == COUNT, report
        assert report["in_capsule"] > 0 and report["by_key"] > COUNT, report
        assert report["invalidated"] == (report["by_key"] if arguments else 0), report


def test_linux_uses_our_target_over_siw(host, guest):
    """iWARP: the same by TCP, through QEMU's own network."""
    host.variables["VERBENA_TRANSPORT"] = "iwarp"
    port = host.free_port()
    target = nvmf.start_target(host, port)
    use_target(guest, HOST_OF_GUEST, port, COUNT // 4)
    nvmf.stop_target(target)
