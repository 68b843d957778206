"""The lab: the kernel's own RDMA devices in a guest, and ours against them.

Whoever has the packages gets these tests: a guest that can't be built is a failure. It is kept in
the user's cache, so that only the first run takes the minutes that building it takes. A guest
without KVM is slow, so there are few boots, and each does a lot.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import hosts
from guest_limits import (BOOT_LIMIT_S, BUILD_LIMIT_S, GUEST_LIMIT_S, STEP_LIMIT_HERE_S,
                          STEP_LIMIT_S, XCHECK_LIMIT_S)

CONFORMANCE = hosts.BUILD / "share" / "verbena" / "lab" / "conformance"
# On the wire between us and the guest; the latter's are what lab/guest/rdma_device gives it.
OUR_ADDRESSES = "10.7.0.1/24,fd00::1/64"
OURS, THEIRS = "10.7.0.1", "10.7.0.2"
# This host, in QEMU's own network.
HOST_OF_GUEST = "10.0.2.2"


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
        host, "rdma_device rxe && ibv_devinfo -d rxe0 && rdma_device siw && ibv_devinfo -d siw0 && "
        "tr a-z A-Z <question >answer; pwd; exit 7", "--share", str(share))
    assert program.status == 7, program.report()
    assert "hca_id:\trxe0" in program.out and "hca_id:\tsiw0" in program.out, program.report()
    assert "iWARP" in program.out, program.report()
    assert program.out.splitlines()[-1] == "/share", program.report()
    assert (share / "answer").read_text() == "FROM THE HOST\n"


def test_a_command_that_hangs_is_ended(host):
    program = in_guest(host, "echo begun; sleep 1000", "--timeout", "20")
    assert program.status == 124, program.report()
    assert program.out == "begun\n", program.report()
    assert "the command was still running after 20 s" in program.err, program.report()


def test_a_guest_that_dies_is_reported_with_its_last_words(host):
    program = in_guest(host, "echo c >/proc/sysrq-trigger; sleep 600", "--timeout", "300")
    assert program.status == 125, program.report()
    assert "the guest ended before its command did" in program.err, program.report()
    assert "Kernel panic" in program.err, program.report()


def test_the_status_says_what_there_is(host):
    program = host.verbena_command("lab", "status").succeed()
    assert "guest        ready" in program.out, program.report()
    assert "6.1." in program.out, program.report()
    assert "all there" in program.out, program.report()


class Wire:
    """A guest with rxe0 on a wire, and programs of this host on its other end."""

    def __init__(self, host, directory: Path, forwards: list[int], steps: dict[str, str],
                 mtu: int = 1500):
        self.host = host
        self.share = directory / "share"
        self.share.mkdir()
        self.socket = directory / "wire"
        lines = [f"export MTU={mtu}",
                 "rdma_device rxe && ip address add 10.0.2.15/24 dev eth1 && ip link set eth1 up; "
                 "touch up"]
        for name, command in steps.items():
            lines += [f"until [ -e {name}.begin ]; do sleep 0.1; done; touch {name}.begun",
                      f"{{ timeout {STEP_LIMIT_S:.0f} {command}; }} >{name}.out 2>&1; "
                      f"echo $? >{name}.status"]
        options = [word for port in forwards for word in ("--forward", f"{port}:{port}")]
        self.guest = host.start_bare(
            str(host.verbena), "lab", "run", "--link", str(self.socket), "--share",
            str(self.share), *options, "--timeout", f"{GUEST_LIMIT_S:.0f}", "--",
            "\n".join(lines))
        # Else the first step would have to wait for the boot, too.
        self.guest.wait_until((self.share / "up").exists, "devices", timeout_s=BOOT_LIMIT_S)

    def begin(self, name: str) -> None:
        """Lets the guest begin a step, and waits until it has."""
        (self.share / f"{name}.begin").touch()
        self.guest.wait_until((self.share / f"{name}.begun").exists, f"step {name}",
                              timeout_s=STEP_LIMIT_HERE_S)

    def output_of(self, name: str) -> str:
        """What the guest's step has said so far."""
        path = self.share / f"{name}.out"
        return path.read_text() if path.exists() else ""

    def is_over(self, name: str) -> bool:
        status = self.share / f"{name}.status"
        return status.exists() and status.read_text().endswith("\n")

    def wait_for_output(self, name: str, text: str) -> None:
        """Waits until the guest's step says something, which it must do line by line."""
        self.guest.wait_until(lambda: text in self.output_of(name) or self.is_over(name), name,
                              timeout_s=STEP_LIMIT_HERE_S)
        assert text in self.output_of(name), f"{name} in the guest:\n{self.output_of(name)}"

    def end(self, name: str) -> str:
        """Waits for the end of the guest's step, which must be good. Returns its output."""
        self.guest.wait_until(lambda: self.is_over(name), name, timeout_s=STEP_LIMIT_HERE_S)
        output = self.output_of(name)
        status = (self.share / f"{name}.status").read_text()
        assert status == "0\n", f"{name} in the guest:\n{output}"
        return output

    def serve(self, name: str, *command: str) -> None:
        """A server of this host and the guest's step that is its client."""
        server = self.start(*command)
        self.begin(name)
        self.end(name)
        server.succeed(STEP_LIMIT_HERE_S)

    def start(self, *command: str, options: tuple[str, ...] = ()):
        """A program of this host on our device at the wire. A guest that isn't scheduled for a
        while is none that has died."""
        return self.host.start(*command, options=(
            "--link", f"qemu:{self.socket}", "--address", OUR_ADDRESSES, "--ack-timeout-min",
            "1000", *options))

    def run_until_good(self, name: str, *command: str, options: tuple[str, ...] = ()):
        """A client of the guest's step, which is a server that comes up in a moment."""
        deadline = time.monotonic() + STEP_LIMIT_S
        while True:
            was_over = self.is_over(name)
            program = self.start(*command, options=options).wait(STEP_LIMIT_HERE_S)
            if program.status == 0:
                return program
            assert not was_over and time.monotonic() < deadline, (
                f"{program.report()}\n{name} in the guest:\n{self.output_of(name)}")
            time.sleep(0.5)


GROUP = "239.77.8.1"


def test_the_connection_manager_talks_to_the_kernels(host, tmp_path):
    """rping, ucmatose, cmtime, udaddy and mckey, with ours as server and as client; and the guest
    pings our address."""
    ping = f"ping -c 1 -W 5 {OURS}"

    def asks(client: str) -> str:
        """Our server is up when its device answers, or a moment later."""
        return f"bash -c 'until {ping} && {client}; do sleep 1; done'"

    wire = Wire(host, tmp_path, [], {
        "rping-serves": f"rping -s -a {THEIRS} -C 5 -V -v",
        "rping-asks": asks(f"rping -c -a {OURS} -C 5 -V -v"),
        "ucmatose-serves": f"ucmatose -b {THEIRS} -C 20 -S 3000",
        "ucmatose-asks": asks(f"ucmatose -s {OURS} -C 20 -S 3000"),
        "udaddy-serves": f"udaddy -b {THEIRS} -C 20",
        "udaddy-asks": asks(f"udaddy -s {OURS} -C 20"),
        # A server of its kind goes on for ever.
        "cmtime-serves": f"bash -c 'cmtime -b {THEIRS} & until [ -e enough ]; do sleep 0.1; done; "
                         "kill $!'",
        "cmtime-asks": asks(f"cmtime -s {OURS} -c 20"),
        "mckey-receives": f"stdbuf -oL mckey -m {GROUP} -b {THEIRS} -C 3",
        "mckey-sends": f"mckey -m {GROUP} -b {THEIRS} -C 3 -s",
    })
    capture = tmp_path / "rping.pcapng"

    wire.begin("rping-serves")
    wire.run_until_good("rping-serves", "rping", "-c", "-a", THEIRS, "-C", "5", "-V", "-v",
                        options=("--capture", str(capture)))
    wire.end("rping-serves")
    dump = host.verbena_command("dump", str(capture)).succeed()
    assert "WRITE" in dump.out and "READ" in dump.out and "bad" not in dump.out, dump.report()

    server = wire.start("rping", "-s", "-a", OURS, "-C", "5", "-V", "-v")
    wire.begin("rping-asks")
    output = wire.end("rping-asks")
    assert output.count("ping data:") == 5 and "1 received, 0% packet loss" in output, output
    server.succeed()

    for name, serves, asks_for in (
            ("ucmatose", ["-b", OURS, "-C", "20", "-S", "3000"], ["-C", "20", "-S", "3000"]),
            ("udaddy", ["-b", OURS, "-C", "20"], ["-C", "20"])):
        wire.begin(f"{name}-serves")
        wire.run_until_good(f"{name}-serves", name, "-s", THEIRS, *asks_for)
        wire.end(f"{name}-serves")
        wire.serve(f"{name}-asks", name, *serves)

    wire.begin("cmtime-serves")
    wire.run_until_good("cmtime-serves", "cmtime", "-s", THEIRS, "-c", "20")
    (wire.share / "enough").touch()
    wire.end("cmtime-serves")
    server = wire.start("cmtime", "-b", OURS)
    wire.begin("cmtime-asks")
    wire.end("cmtime-asks")
    server.kill()

    # A sender waits for 3 s, and for nobody.
    joined = "joined dgid"
    wire.begin("mckey-receives")
    wire.wait_for_output("mckey-receives", joined)
    wire.start("mckey", "-m", GROUP, "-b", OURS, "-C", "3", "-s").succeed()
    assert "receiving data transfers" in wire.end("mckey-receives")
    receiver = wire.start("stdbuf", "-oL", "mckey", "-m", GROUP, "-b", OURS, "-C", "3")
    receiver.wait_for_output(joined)
    wire.begin("mckey-sends")
    wire.end("mckey-sends")
    receiver.succeed()
    wire.guest.succeed()


# Programs that make a TCP connection of their own, with the arguments that both sides get; GIDs of
# IPv4 are in row 1 of rxe's table and in row 0 of ours. An ACK may take a second (-u 18) where one
# end isn't scheduled.
TCP_PROGRAMS = {
    "pingpong": ("ibv_rc_pingpong -n 20 -c", "-d rxe0 -g 1", "-g 0"),
    "write_bw": ("ib_write_bw -F -n 40 -s 65536 -u 18", "-d rxe0 -x 1", "-x 0"),
    "read_lat": ("ib_read_lat -F -n 20 -s 4096 -u 18", "-d rxe0 -x 1", "-x 0"),
}


def test_programs_with_a_tcp_connection_talk_to_rxe(host, tmp_path):
    """ibv_rc_pingpong and perftest, with ours as client and as server."""
    ports = {name: (host.free_port(), host.free_port()) for name in TCP_PROGRAMS}
    steps = {}
    for name, (command, theirs, _) in TCP_PROGRAMS.items():
        here, there = ports[name]
        steps[f"{name}-serves"] = f"{command} {theirs} -p {there}"
        steps[f"{name}-asks"] = f"{command} {theirs} -p {here} {HOST_OF_GUEST}"
    wire = Wire(host, tmp_path, [there for _, there in ports.values()], steps)
    for name, (command, _, ours) in TCP_PROGRAMS.items():
        here, there = ports[name]
        words = [*command.split(), *ours.split()]
        wire.begin(f"{name}-serves")
        wire.run_until_good(f"{name}-serves", *words, "-p", str(there), hosts.LOOPBACK)
        wire.end(f"{name}-serves")

        server = wire.start(*words, "-p", str(here))
        host.wait_for_listener(server, here)
        wire.begin(f"{name}-asks")
        wire.end(f"{name}-asks")
        server.succeed()
    wire.guest.succeed()


# Bugs of the kernel's, each with its rule in cli/xcheck_accepted.cpp.
KNOWN_OF_RXE = {("RC SEND_INV", "ours"), ("RC SEND, too long", "ours")}


def check_known(cells: list[dict], result: str, report: str) -> None:
    """What doesn't agree is what is known of rxe."""
    others = [cell for cell in cells if cell["result"] != "agrees"]
    assert {(cell["operation"], cell["initiator"]) for cell in others} == KNOWN_OF_RXE, report
    assert {cell["result"] for cell in others} == {result}, report


def test_the_matrix_with_rxe(host):
    """Each way, around the borders of packets and a long one: SEND, WRITE, READ, atomics, UD, a
    group, connections and refusals."""
    program = host.verbena_command("xcheck", "--against", "rxe", "--json",
                                   timeout_s=XCHECK_LIMIT_S)
    assert program.status == 0, program.report()
    cells = json.loads(program.out)["cells"]
    assert len(cells) == 186, program.report()
    check_known(cells, "known", program.report())


# What else a matrix is run with: our options, those of both conformance programs, and what is run.
VARIANTS = {
    # Wherever rdma_cm connects, the kernel's wants the path MTU of the guest's interface.
    "ipv6": (("--mtu", "4096"), ("--ipv6",), "C"),
    "mtu-4096": (("--mtu", "4096"), (), "RC "),
    "loss": (("--loss", "1%"), (), "RC "),
    "cm": (("--mtu", "4096"), ("--through-cm",), "RC "),
}


def test_the_matrix_with_rxe_in_other_ways(host, tmp_path):
    """IPv6, long packets, losses, and connections through rdma_cm; with one boot."""
    ports = {name: host.free_port() for name in VARIANTS}
    agent = "/tools/conformance agent --once --device rxe0 --listen 0.0.0.0"
    wire = Wire(host, tmp_path, list(ports.values()), {
        name: f"{agent}:{ports[name]} {'--ipv6' if name == 'ipv6' else ''}" for name in VARIANTS},
        mtu=4500)
    for name, (options, arguments, only) in VARIANTS.items():
        wire.begin(name)
        mtu = () if "--mtu" in options else ("--mtu", "1024")
        master = wire.start(str(CONFORMANCE), "master", "--agent",
                            f"{hosts.LOOPBACK}:{ports[name]}", "--only", only, *arguments,
                            options=(*options, *mtu)).succeed(STEP_LIMIT_HERE_S)
        wire.end(name)
        cells = [json.loads(line) for line in master.out.splitlines()]
        assert len(cells) > 80, master.report()
        check_known(cells, "differs", master.report())
        assert {cell["mtu"] for cell in cells} == {4096 if "4096" in mtu + options else 1024}
    wire.guest.succeed()


def test_the_api_of_rxe_differs_only_where_it_is_known_to(host):
    program = host.verbena_command("xcheck", "--against", "rxe", "--api",
                                   timeout_s=XCHECK_LIMIT_S)
    assert program.status == 0, program.report()
    assert "differ as they should, 0 differ" in program.out, program.report()


def test_rxe_answers_scripts_as_ours_does_but_where_it_is_known(host):
    """Packet for packet: what is in order, what isn't, what is refused, a requester's errors."""
    names = ("peer_messages", "peer_psn_gap", "peer_duplicates", "peer_refused_memory",
             "peer_too_long", "peer_answers", "peer_never_ready")
    files = [str(hosts.ROOT / "scenarios" / f"{name}.toml") for name in names]
    program = host.verbena_command("xcheck", "--against", "rxe", "--json", "--packets", *files,
                                   timeout_s=XCHECK_LIMIT_S)
    assert program.status == 0, program.report()
    checks = json.loads(program.out)["scenarios"]
    results = {check["scenario"]: check["result"] for check in checks}
    assert {name: results[name] for name in ("peer_messages", "peer_answers")} == {
        "peer_messages": "agrees", "peer_answers": "agrees"}, program.report()
    # rxe's own reason for a message that is too long, and no event for what it refuses.
    assert {result for name, result in results.items()
            if name.startswith(("peer_too_long", "peer_refused"))} == {"known"}, program.report()
