"""Two hosts on one cable: network namespaces joined by a veth pair. Making them needs root, as in
CI; the programs inside run as an ordinary user without capabilities."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import hosts
from program import POLL_INTERVAL_S, TIMEOUT_S, Program

ICRC_CHECK = pathlib.Path(__file__).parent / "tools" / "icrc_check.py"
NOBODY = 65534
INTERFACE = "rdma"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
IPV6_ADDRESSES = ("fd77::1", "fd77::2")
# The GID table of a device on INTERFACE: RoCE v2 for each address, and on raw Ethernet the same
# again as RoCE v1.
ROWS = {"IPv4": 0, "IPv6": 1, "link-local": 2}
RAW_ROWS = ROWS | {f"{name} v1": row + len(ROWS) for name, row in ROWS.items()}
ROCE = "udp port 4791 or ether proto 0x8915"
# A classic BPF program for tc (bpf(4), SKF_AD_RANDOM): drops one packet of a number.
_LOSS = "5,32 0 0 4294963256,148 0 0 {one_of},53 1 0 1,6 0 0 2,6 0 0 0"
# The last frame of a capture: to nobody, of a type for local experiments (IEEE 802, 9.2.4).
_LAST_ETHERTYPE = 0x88B5
_LAST_FRAME = (bytes.fromhex("02000000000f 02000000000e") + _LAST_ETHERTYPE.to_bytes(2, "big")
               + b"the last frame of this capture".ljust(46, b"."))
_SEND_FRAME = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as packets:
    packets.bind((sys.argv[1], 0))
    packets.send(bytes.fromhex(sys.argv[2]))
"""


def run_as_root(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def _wait_for_addresses(namespace: str) -> None:
    """The kernel makes the link-local address, and lets IPv6 addresses be used, when it has seen
    that the cable is plugged in: a moment later, by a thread of its own."""
    command = ("ip", "-n", namespace, "-6", "-o", "addr", "show", "dev", INTERFACE)
    deadline = time.monotonic() + TIMEOUT_S
    while "scope link" not in (listed := run_as_root(*command)) or "tentative" in listed:
        assert time.monotonic() < deadline, f"addresses of {namespace}:\n{listed}"
        time.sleep(POLL_INTERVAL_S)


class Station(hosts.Host):
    """One of the two hosts: a namespace and a fabric of its own. `raw`: by raw Ethernet, with the
    one capability that it needs."""

    def __init__(self, logs: pathlib.Path, namespace: str, address: str, raw: bool):
        logs.mkdir()
        super().__init__(logs)
        self.namespace = namespace
        self.address = address
        self.inside = ["ip", "netns", "exec", namespace]
        self.prefix = self._prefix_with(["--inh-caps=+net_raw", "--ambient-caps=+net_raw",
                                         "--bounding-set=-all,+net_raw"]
                                        if raw else ["--bounding-set=-all"])
        self.variables["VERBENA_RAW" if raw else "VERBENA_INTERFACE"] = INTERFACE
        # From another host it can't be seen that a peer only gets no processor: what programs ask
        # for, seven retries of 67 ms, may be over before it has its turn on a busy machine.
        self.variables["VERBENA_ACK_TIMEOUT_MIN_MS"] = "500"
        # The build tree may lie where an ordinary user can't look; what they run is a copy.
        os.chown(self.directory, NOBODY, NOBODY)
        self._copy = self.directory / "build"
        (self._copy / "bin").mkdir(parents=True)
        shutil.copy(hosts.VERBENA, self._copy / "bin" / "verbena")
        shutil.copytree(hosts.LIBRARIES, self._copy / "lib")
        self.verbena = self._copy / "bin" / "verbena"

    def _prefix_with(self, capabilities: list[str]) -> list[str]:
        return [*self.inside, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                "--clear-groups", *capabilities, "--no-new-privs"]

    def speak_iwarp(self) -> None:
        del self.variables["VERBENA_ACK_TIMEOUT_MIN_MS"]  # TCP has timers of its own.
        self.variables["VERBENA_TRANSPORT"] = "iwarp"

    def give_up_capabilities(self) -> None:
        self.prefix = self._prefix_with(["--bounding-set=-all"])

    def _is_listening_inside(self, program: Program, port: int) -> bool:
        try:
            table = pathlib.Path(f"/proc/{program.pid}/net/tcp").read_text() + pathlib.Path(
                f"/proc/{program.pid}/net/tcp6").read_text()
        except OSError:
            return False  # It has ended.
        rows = [line.split() for line in table.splitlines()]
        return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)

    def wait_for_listener(self, server: Program, port: int) -> None:
        server.wait_until(lambda: self._is_listening_inside(server, port),
                          f"listening on port {port}")

    def lose(self, one_of: int) -> None:
        """Of the packets that arrive here, one of so many is lost on the cable's end."""
        run_as_root(*self.inside, "tc", "qdisc", "add", "dev", INTERFACE, "clsact")
        run_as_root(*self.inside, "tc", "filter", "add", "dev", INTERFACE, "ingress", "protocol",
                    "all", "bpf", "da", "bytecode", _LOSS.format(one_of=one_of))

    def files(self) -> list[str]:
        return [name for name in super().files() if name != self._copy.name]


class Capture(Program):
    """What the wire carries, by Wireshark's dumpcap."""

    def __init__(self, station: Station, path: pathlib.Path):
        super().__init__([*station.inside, "dumpcap", "-q", "-i", INTERFACE, "-B", "64", "-f",
                          f"ether proto {_LAST_ETHERTYPE:#x} or {ROCE} or (vlan and ({ROCE}))",
                          "-w", str(path)], os.environ, station.logs / "dumpcap")
        self.station = station
        self.path = path
        self.wait_until(lambda: "File:" in self.err, "capturing")


class Cable:
    """Both hosts. `cuts`: the sender's kernel cuts batches into packets before they reach the
    cable, as it must for hardware; without it a veth pair carries batches whole."""

    def __init__(self, tmp_path: pathlib.Path, mtu: int = 1500, cuts: bool = True,
                 raw: bool = False):
        assert os.geteuid() == 0, (
            "this test makes network namespaces, for which it must run as root")
        self._names = [f"verbena-{os.getpid()}-{side}" for side in "ab"]
        try:
            self._lay(mtu, cuts)
            self.a, self.b = (Station(tmp_path / side, name, address, raw)
                              for side, name, address in zip("ab", self._names, ADDRESSES))
        except BaseException:
            self._take_up()
            raise

    def _lay(self, mtu: int, cuts: bool) -> None:
        for name in self._names:
            run_as_root("ip", "netns", "add", name)
            # Addresses can be used at once, without being tested for a second first.
            run_as_root("ip", "netns", "exec", name, "sh", "-c",
                        "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad")
        run_as_root("ip", "link", "add", INTERFACE, "netns", self._names[0], "type", "veth",
                    "peer", "name", INTERFACE, "netns", self._names[1])
        for name, address, ipv6_address in zip(self._names, ADDRESSES, IPV6_ADDRESSES):
            inside = ("ip", "-n", name)
            limits = ("gso_max_segs", "1") if cuts else ()
            run_as_root(*inside, "link", "set", "lo", "up")
            run_as_root(*inside, "link", "set", INTERFACE, "mtu", str(mtu), *limits, "up")
            run_as_root(*inside, "addr", "add", f"{address}/24", "dev", INTERFACE)
            run_as_root(*inside, "addr", "add", f"{ipv6_address}/64", "dev", INTERFACE)
        for name in self._names:
            _wait_for_addresses(name)

    def _take_up(self) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=TIMEOUT_S)

    def start_pair(self, *command: str, server_arguments=(), client_arguments=(),
                   **how) -> hosts.Pair:
        """The server on one host, the client on the other."""
        server, port = self.a.start_server(*command, *server_arguments, **how)
        client = self.b.start(*command, *client_arguments, "-p", str(port), self.a.address, **how)
        return hosts.Pair(server, client)

    def pair(self, *command: str, timeout_s: float = TIMEOUT_S, **how) -> hosts.Pair:
        pair = self.start_pair(*command, **how)
        self.a.wait_for_both(pair, timeout_s)
        assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
        return pair

    def start_capture(self, station: Station, path: pathlib.Path) -> Capture:
        return Capture(station, path)

    def close(self) -> None:
        try:
            try:
                self.a.close()
            finally:
                self.b.close()
        finally:
            self._take_up()


def check_wire(path: pathlib.Path) -> None:
    """Every packet of a capture has a good ICRC, as a program tells that shares nothing with us."""
    checked = subprocess.run([sys.executable, str(ICRC_CHECK), str(path)], capture_output=True,
                             text=True, timeout=300)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def fields_of(path: pathlib.Path, *names: str, only: str = "") -> list[tuple[str, ...]]:
    """What tshark reads in each packet of a capture."""
    wanted = [word for name in names for word in ("-e", name)]
    text = run_as_root("tshark", "-n", "-r", str(path), "-T", "fields", *wanted,
                       *(["-Y", only] if only else []))
    return [tuple(line.split("\t")) for line in text.splitlines()]


def _blocks(content: bytes) -> Iterator[bytes]:
    """The blocks of a pcapng file in this machine's byte order, whole ones only."""
    offset = 0
    while offset + 8 <= len(content):
        length, = struct.unpack_from("=I", content, offset + 4)
        if length < 12 or offset + length > len(content):
            return
        yield content[offset:offset + length]
        offset += length


def stop_capture(capture: Capture) -> None:
    """Ends it when everything until now is in the file: dumpcap would forget what it has yet to
    read. So a frame is sent behind it all, is waited for, and is taken out again."""
    run_as_root(*capture.station.inside, sys.executable, "-c", _SEND_FRAME, INTERFACE,
                _LAST_FRAME.hex())
    capture.wait_until(lambda: _LAST_FRAME in capture.path.read_bytes(), "capturing the last frame")
    capture.send_signal(signal.SIGINT)
    capture.wait()
    capture.path.write_bytes(b"".join(block for block in _blocks(capture.path.read_bytes())
                                      if _LAST_FRAME not in block))


@contextlib.contextmanager
def captured(cable: Cable, directory: pathlib.Path):
    """What arrives at the second host in the meantime, as a file; in the end every packet of it is
    checked."""
    path = directory / "wire.pcapng"
    path.touch(0o666)
    capture = cable.start_capture(cable.b, path)
    try:
        yield path
    finally:
        stop_capture(capture)
    check_wire(path)
