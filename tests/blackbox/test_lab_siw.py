"""Our iWARP device against Linux' siw in the lab's guest: connections, refusals, programs, CRCs.

iWARP runs over ordinary TCP, so QEMU's own network is path enough: the guest's servers are at
forwarded ports of 127.0.0.1, and 127.0.0.1 is 10.0.2.2 for the guest. One boot for all of it: the
tests give the guest one command after the other.
"""

from __future__ import annotations

import errno
import json
import shutil
import socket
import threading
import time

import pytest

import hosts
from guest_limits import BUILD_LIMIT_S, GUEST_LIMIT_S, XCHECK_LIMIT_S
from guest_steps import Guest
from programs import compiled
from tools.tshark_iwarp import look_at

GUEST = "10.0.2.15"
HOST_OF_GUEST = "10.0.2.2"
HERE = hosts.LOOPBACK
FORWARDS = 8
# For how long somebody is looked for who takes a connection, and how long siw may take to go on
# after its MPA reply: a few instructions of its kernel.
ACCEPT_LIMIT_S = 20.0
SETTLE_S = 1.0
CHUNK_BYTES = 1 << 16

SERVE = """{command} &
until ss -Hltn | grep -q ':{port} ' || ! kill -0 $!; do sleep 0.1; done
touch listens.{port}
wait $!
"""


class Relay:
    """A way to a server in the guest that is kinder than QEMU's. That takes connections for whom
    nobody listens to yet; here they are tried again. And what comes to siw in the moment after its
    MPA reply waits there for what comes next (docs/cross-validation.md); here it comes later."""

    def __init__(self, port: int):
        self._guest_port = port
        self._listener = socket.create_server((HERE, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server, reply = self._ask(client.recv(CHUNK_BYTES))
        client.sendall(reply)
        threading.Thread(target=_pump, args=(server, client), daemon=True).start()
        time.sleep(SETTLE_S)
        _pump(client, server)

    def _ask(self, request: bytes) -> tuple[socket.socket, bytes]:
        """Until there is an answer. Returns it, and the connection that it came by."""
        deadline = time.monotonic() + ACCEPT_LIMIT_S
        while True:
            server = socket.create_connection((HERE, self._guest_port))
            try:
                server.sendall(request)
                reply = server.recv(CHUNK_BYTES)
            except OSError:
                reply = b""
            if reply or time.monotonic() > deadline:
                return server, reply
            server.close()
            time.sleep(0.2)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Until the source's end, which is passed on."""
    try:
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        # One end is gone.
        source.close()
        sink.close()


class SiwGuest(Guest):
    """A guest with siw0."""

    def __init__(self, host, share):
        share.mkdir()
        shutil.copy(compiled("iw_talk"), share / "iw_talk")
        self._ports = [host.free_port() for _ in range(FORWARDS)]
        options = [word for port in self._ports for word in ("--forward", f"{port}:{port}")]
        super().__init__(host, share, f"rdma_device siw eth0 {GUEST}/24", *options)

    def serve(self, command: str) -> tuple[str, str]:
        """Starts a server with `PORT` in its command, and waits until it listens: our clients wait
        for 10 s only. Returns the step, and the port that leads to it from here."""
        port = self._ports.pop()
        step = self.start(SERVE.format(command=command.replace("PORT", str(port)), port=port))
        self.wait_for_file(f"listens.{port}")
        return step, str(Relay(port).port)


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lab-siw")
    host = hosts.Host(directory)
    host.verbena_command("lab", "build", timeout_s=BUILD_LIMIT_S).succeed()
    guest = SiwGuest(host, directory / "share")
    yield guest
    guest.quit()
    host.close()


@pytest.fixture
def iwarp(host) -> hosts.Host:
    host.variables["VERBENA_TRANSPORT"] = "iwarp"
    return host


# --- Programs, each with ours as client and as server


def check_crcs(capture, crc: bool) -> None:
    """tshark has nothing against it, and each FPDU has a good CRC or none has one."""
    seen = look_at(capture)
    assert seen.problems == []
    assert seen.fpdus > 0 and seen.good_crcs == (seen.fpdus if crc else 0), seen


@pytest.mark.parametrize("crc", [True, False])
def test_rping(iwarp, guest, tmp_path, crc):
    """SEND, WRITE and READ, each way; siw computes CRCs for who asks."""
    captures = [tmp_path / "client.pcapng", tmp_path / "server.pcapng"]
    options = [("--mpa-crc", "on" if crc else "off", "--capture", str(path)) for path in captures]
    ping = "stdbuf -oL rping -C 10 -V -v"
    server, there = guest.serve(f"{ping} -s -a 0.0.0.0 -p PORT")
    ours = iwarp.run(*ping.split(), "-c", "-a", HERE, "-p", there,
                     options=options[0]).succeed()
    assert ours.out.count("ping data: rdma-ping-") == 10, ours.report()
    assert guest.end(server).count("server ping data: rdma-ping-") == 10

    here = iwarp.free_port()
    ours = iwarp.start(*ping.split(), "-s", "-a", HERE, "-p", str(here), options=options[1])
    iwarp.wait_for_listener(ours, here)
    assert guest.run(f"{ping} -c -a {HOST_OF_GUEST} -p {here}").count("ping data: rdma-ping-") == 10
    ours.succeed()
    check_crcs(captures[0], crc)
    # siw asks for none when it connects, so that ours decides.
    check_crcs(captures[1], crc)


def test_rdma_client_and_server(iwarp, guest):
    theirs, there = guest.serve("rdma_server -p PORT")
    iwarp.run("rdma_client", "-s", HERE, "-p", there).succeed()
    guest.end(theirs)

    here = iwarp.free_port()
    ours = iwarp.start("rdma_server", "-p", str(here))
    iwarp.wait_for_listener(ours, here)
    guest.run(f"rdma_client -s {HOST_OF_GUEST} -p {here}")
    ours.succeed()


# --- What connections are told of (programs/iw_talk.c)


def sum_of(private_data_bytes: int) -> int:
    return sum(range(private_data_bytes))


def test_private_data_depths_and_the_end_reach_both(iwarp, guest):
    theirs, there = guest.serve("./iw_talk listen 0.0.0.0 PORT accept 77 4")
    client = iwarp.run(compiled("iw_talk"), "connect", HERE, there, "33", "2").succeed().out
    server = guest.end(theirs)
    assert f"CONNECT_REQUEST 0 data=33 sum={sum_of(33)} resources=2 depth=2" in server, server
    assert f"ESTABLISHED 0 data=77 sum={sum_of(77)}" in client, client
    assert "RECV: success" in server and "RDMA_CM_EVENT_DISCONNECTED" in server, server

    here = iwarp.free_port()
    ours = iwarp.start(compiled("iw_talk"), "listen", HERE, str(here), "accept", "77", "4")
    iwarp.wait_for_listener(ours, here)
    client = guest.run(f"./iw_talk connect {HOST_OF_GUEST} {here} 33 2")
    server = ours.succeed().out
    assert f"CONNECT_REQUEST 0 data=33 sum={sum_of(33)} resources=2 depth=2" in server, server
    assert f"ESTABLISHED 0 data=77 sum={sum_of(77)}" in client, client
    assert "RECV: success" in server and "RDMA_CM_EVENT_DISCONNECTED" in server, server


def test_refusals_bring_private_data_along(iwarp, guest):
    refused = f"RDMA_CM_EVENT_REJECTED {-errno.ECONNRESET} data=77 sum={sum_of(77)} "
    theirs, there = guest.serve("./iw_talk listen 0.0.0.0 PORT reject 77 4")
    client = iwarp.run(compiled("iw_talk"), "connect", HERE, there, "33", "2")
    guest.end(theirs)
    assert refused in client.out, client.report()

    here = iwarp.free_port()
    ours = iwarp.start(compiled("iw_talk"), "listen", HERE, str(here), "reject", "77", "4")
    iwarp.wait_for_listener(ours, here)
    output = guest.run(f"./iw_talk connect {HOST_OF_GUEST} {here} 33 2", status=2)
    ours.succeed()
    assert refused in output, output


def test_siw_refuses_markers(iwarp, guest):
    """It says so in its reply, and ours tells the program."""
    _, there = guest.serve("./iw_talk listen 0.0.0.0 PORT accept 0 4")
    client = iwarp.run(compiled("iw_talk"), "connect", HERE, there, "0", "2",
                       options=("--mpa-markers", "on"))
    assert f"RDMA_CM_EVENT_REJECTED {-errno.ECONNRESET} " in client.out, client.report()


def test_nobody_listens_here(iwarp, guest):
    output = guest.run(f"./iw_talk connect {HOST_OF_GUEST} {iwarp.free_port()} 0 2", status=1)
    assert "rdma_connect: Connection refused" in output, output


# --- Operations, one by one


# Bugs of siw's, each with its rule in cli/xcheck_accepted.cpp. A refusal loses its private data
# now and then only.
KNOWN_OF_SIW = {("RC SEND_INV", "ours"), ("RC READ, wrong key", "ours"), ("CM connect", "theirs"),
                ("CM disconnect", "theirs")}
SOMETIMES = {("CM reject", "theirs")}
NOT_OF_IWARP = {"RC SEND_IMM", "RC WRITE_IMM", "RC CAS", "RC FAA"}


def check_matrix(host, *options: str) -> set[tuple[str, str]]:
    """siw finds a bad CRC where one is cut by the border of two segments, which seldom happens
    here: what differs must do so twice. Returns who initiated what agrees."""
    for _ in range(2):
        program = host.verbena_command("xcheck", "--against", "siw", "--json", *options,
                                       timeout_s=XCHECK_LIMIT_S)
        if program.status == 0:
            break
    assert program.status == 0, program.report()
    cells = json.loads(program.out)["cells"]
    assert {cell["way"] for cell in cells} == {"cm, CRC off", "cm, CRC on"}, program.report()
    by_result = {result: {(cell["operation"], cell["initiator"]) for cell in cells
                          if cell["result"] == result} for result in ("agrees", "known")}
    assert by_result["known"] - SOMETIMES == KNOWN_OF_SIW, program.report()
    both = {"ours", "theirs"}
    for operation in ("RC SEND", "RC WRITE", "RC READ"):
        assert {who for name, who in by_result["agrees"] if name == operation} == both
    assert {cell["operation"] for cell in cells if cell["result"] == "unsupported"} == NOT_OF_IWARP
    return by_result["agrees"]


def test_the_matrix(host):
    """Each way, with CRCs and without, around the borders of segments and long ones; connections
    with private data, refusals, and what both ends are told of a TERMINATE."""
    check_matrix(host)


def test_the_matrix_by_our_own_tcp_with_losses(host):
    """The same on QEMU's link, where the segments are ours, and some of them are lost. There it is
    seen, too, that nobody listens."""
    agree = check_matrix(host, "--tcp", "own", "--loss", "1%")
    assert {("CM nobody listens", "ours"), ("CM nobody listens", "theirs")} <= agree


def test_the_api_of_siw_differs_only_where_it_is_known_to(host):
    """What siw is told of a connection that ends at the same time isn't always the same: what
    differs must do so twice."""
    for _ in range(2):
        program = host.verbena_command("xcheck", "--against", "siw", "--api",
                                       timeout_s=XCHECK_LIMIT_S)
        if program.status == 0:
            break
    assert program.status == 0, program.report()
    assert "differ as they should, 0 differ" in program.out, program.report()
