"""Unmodified programs on an iWARP device: connections over TCP, and what is told of the device."""

from __future__ import annotations

import errno
import json
import pathlib
import socket

import pytest

import hosts
from perftest_table import check_bandwidth, check_latency
from programs import compiled
from rdmacm import connect
from tools.tshark_iwarp import look_at

GUID = "0200:00ff:fe12:3456"
HOST = hosts.LOOPBACK


@pytest.fixture
def iwarp(host) -> hosts.Host:
    host.variables["VERBENA_TRANSPORT"] = "iwarp"
    return host


def rping(host, *, address: str = HOST, bound: str | None = None, count: int = 10,
          server_options=(), client_options=()):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", bound or address, "-p", port, "-C", str(count), "-v",
                        options=server_options)
    connect(host, server, "rping", "-c", "-a", address, "-p", port, "-C", str(count), "-v",
            options=client_options)
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == count, server.report()
    return server


# --- What programs are told


@pytest.mark.parametrize("profile", ["verbena", "siw"])
def test_devinfo_tells_everything(iwarp, profile):
    """The golden texts, devinfo_iwarp*.txt; what the kernel's siw tells is told like there, but for
    the speed of the port and for what the NIC doesn't reach."""
    golden = pathlib.Path(__file__).with_name(
        "devinfo_iwarp.txt" if profile == "verbena" else f"devinfo_iwarp_{profile}.txt")
    program = iwarp.run("ibv_devinfo", "-v", options=["--profile", profile, "--guid", GUID])
    seen = program.succeed().out.expandtabs().splitlines()
    assert seen == golden.read_text(encoding="utf-8").splitlines(), program.report()


def test_devices_are_listed_with_their_transport(host):
    host.variables["VERBENA_TRANSPORT"] = "both"
    devices = json.loads(host.verbena_command("devices", "--json").succeed().out)
    assert [(device["name"], device["transport"]) for device in devices] == [
        ("verbena0", "roce"), ("verbena_iw0", "iwarp")]
    listed = host.run("ibv_devices").succeed().out
    assert listed.index("verbena0") < listed.index("verbena_iw0")
    assert "iWARP over TCP, for this host only" in host.verbena_command("doctor").out


def test_no_device_unless_it_is_asked_for(host):
    assert "verbena_iw0" not in host.run("ibv_devices").succeed().out


def test_programs_that_connect_by_themselves_are_told_why_it_fails(iwarp):
    pair = iwarp.start_pair("ibv_rc_pingpong", "-g", "0")
    iwarp.wait_for_both(pair)
    assert pair.server.status != 0
    assert "connected by librdmacm only" in pair.server.err, pair.report()


# --- Programs


@pytest.mark.parametrize("address,bound", [(HOST, None), ("::1", None), (HOST, "0.0.0.0"),
                                           (HOST, "::")])
def test_rping(iwarp, address, bound):
    rping(iwarp, address=address, bound=bound)


def test_rping_on_a_device_with_an_ipv6_address(iwarp):
    iwarp.variables["VERBENA_ADDRESS"] = "::1"
    rping(iwarp, address="::1", count=100)


def test_rping_a_hundred_times(iwarp):
    rping(iwarp, count=100)


def test_a_persistent_server(iwarp):
    port = str(iwarp.free_port())
    server = iwarp.start("rping", "-s", "-p", port, "-P", "-v")
    for _ in range(3):
        connect(iwarp, server, "rping", "-c", "-a", HOST, "-p", port, "-C", "3")
    client = iwarp.start("rping", "-c", "-a", HOST, "-p", port)
    server.wait_until(lambda: server.out.count("server ping data") > 12, "pings")
    client.kill()
    connect(iwarp, server, "rping", "-c", "-a", HOST, "-p", port, "-C", "1")
    assert server.is_running(), server.report()


def test_ucmatose(iwarp):
    port = str(iwarp.free_port())
    server = iwarp.start("ucmatose", "-c", "8", "-C", "20", "-S", "4000", "-p", port)
    # A client that comes too early may be refused once and accepted seven times.
    iwarp.wait_for_listener(server, int(port))
    client = connect(iwarp, server, "ucmatose", "-s", HOST, "-c", "8", "-C", "20", "-S", "4000",
                     "-p", port)
    server.succeed()
    assert "test complete" in client.out and "return status 0" in client.out, client.report()


def test_rdma_client_and_server(iwarp):
    """Endpoints, synchronous identifiers, rdma_getaddrinfo()."""
    port = str(iwarp.free_port())
    server = iwarp.start("rdma_server", "-p", port)
    client = connect(iwarp, server, "rdma_client", "-s", HOST, "-p", port)
    server.succeed()
    assert "rdma_client: end 0" in client.out, client.report()


def test_rdma_xclient_and_xserver(iwarp):
    """With a shared receive queue."""
    port = str(iwarp.free_port())
    server = iwarp.start("rdma_xserver", "-c", "r", "-p", port)
    client = connect(iwarp, server, "rdma_xclient", "-c", "r", "-s", HOST, "-p", port)
    server.succeed()
    assert "rdma_xclient: end 0" in client.out, client.report()


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat",
                                  "ib_read_bw", "ib_read_lat"])
def test_perftest(iwarp, tool):
    size = 65536 if tool.endswith("_bw") else 8
    pair = iwarp.pair(tool, "-R", "-n", "200", "-F", "-s", str(size))
    check = check_bandwidth if tool.endswith("_bw") else check_latency
    check(pair.client.out, [size], 200)


@pytest.mark.parametrize("arguments", [["-S", "100000", "-C", "20"], ["-T", "s", "-S", "64"],
                                       ["-S", "1000000", "-C", "3", "-T", "v"]])
def test_rstream(iwarp, arguments):
    """rsockets, whose messages are SENDs here."""
    port = iwarp.free_port()
    server = iwarp.start("rstream", "-p", str(port), *arguments)
    iwarp.wait_for_listener(server, port)
    iwarp.run("rstream", "-s", HOST, "-p", str(port), *arguments).succeed()
    server.succeed()


def test_datagrams_are_not_supported(iwarp):
    program = iwarp.run("udaddy", "-s", HOST)
    assert program.status != 0
    assert "Operation not supported" in program.out + program.err, program.report()


# --- What is told of connections


def sum_of(private_data_bytes: int) -> int:
    return sum(range(private_data_bytes))


def talk(host, data: int, server_depth: int, client_depth: int,
         **how) -> tuple[list[str], list[str]]:
    """What both ends of a connection print (programs/iw_talk.c), and that they end well."""
    port = str(host.free_port())
    server = host.start(compiled("iw_talk"), "listen", HOST, port, "accept", str(data),
                        str(server_depth), **how)
    host.wait_for_listener(server, int(port))
    client = host.run(compiled("iw_talk"), "connect", HOST, port, str(data), str(client_depth),
                      **how)
    server.wait()
    assert (server.status, client.status) == (0, 0), f"{server.report()}\n{client.report()}"
    return server.out.splitlines(), client.out.splitlines()


@pytest.mark.parametrize("data", [0, 1, 255])
def test_private_data_comes_as_long_as_it_is(iwarp, data):
    server, client = talk(iwarp, data, 4, 4)
    text = f"data={data} sum={sum_of(data)} resources=4 depth=4"
    assert f"RDMA_CM_EVENT_CONNECT_REQUEST 0 {text}" in server
    assert f"RDMA_CM_EVENT_ESTABLISHED 0 {text}" in client


def test_each_event_comes_once_and_in_order(iwarp):
    server, client = talk(iwarp, 8, 4, 4)
    names = [[line.split()[0] for line in lines] for lines in (server, client)]
    assert names[0] == ["RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_ESTABLISHED", "RECV:",
                        "RDMA_CM_EVENT_DISCONNECTED"]
    assert names[1] == ["RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ROUTE_RESOLVED",
                        "RDMA_CM_EVENT_ESTABLISHED", "SEND:", "RDMA_CM_EVENT_DISCONNECTED"]


def test_depths_are_agreed_on(iwarp):
    """What one end may start, the other has to answer: the smaller of the two."""
    server, client = talk(iwarp, 0, 2, 8)
    assert "RDMA_CM_EVENT_CONNECT_REQUEST 0 data=0 sum=0 resources=8 depth=8" in server
    assert "RDMA_CM_EVENT_ESTABLISHED 0 data=0 sum=0 resources=2 depth=2" in server


def test_without_any_depth_sends_work_and_reads_do_not(iwarp):
    """C-5 56."""
    server, client = talk(iwarp, 0, 0, 0)
    assert "RECV: success" in server and "SEND: success" in client
    assert any(line.startswith("READ: ") and line != "READ: success" for line in client), client


def test_revision_1_agrees_on_depths_in_the_legacy_form(iwarp):
    """C-5 58. What the program itself says has its whole room."""
    server, client = talk(iwarp, 255, 2, 8,
                          options=["--mpa-revision", "1", "--mpa-legacy-depths", "on"])
    text = f"data=255 sum={sum_of(255)}"
    assert f"RDMA_CM_EVENT_CONNECT_REQUEST 0 {text} resources=8 depth=8" in server
    assert f"RDMA_CM_EVENT_ESTABLISHED 0 {text} resources=8 depth=2" in client


def test_the_registration_of_a_huge_region_holds_no_handshake_up(iwarp):
    """C-5 60. Memory that nobody touches is not brought in."""
    server, client = talk(iwarp, 0, 4, 4, variables={"IW_TALK_GIB": "8"})
    assert "RECV: success" in server and "SEND: success" in client


def test_a_refusal_brings_private_data_along(iwarp):
    port = iwarp.free_port()
    server = iwarp.start(compiled("iw_talk"), "listen", HOST, str(port), "reject", "77", "1")
    iwarp.wait_for_listener(server, port)
    client = iwarp.run(compiled("iw_talk"), "connect", HOST, str(port), "5", "1")
    server.succeed()
    assert (f"RDMA_CM_EVENT_REJECTED {-errno.ECONNRESET} data=77 sum={sum_of(77)} "
            in client.out), client.report()


# --- Two devices with one address


def test_a_wildcard_listener_serves_both_devices(host):
    """The same port on both; of two devices with one address the RoCE device is the one that a
    client takes."""
    port = str(host.free_port())
    server = host.start("rping", "-s", "-p", port, "-P", "-v", options=["--transport", "both"])
    host.wait_for_listener(server, int(port))
    for transport in ("roce", "iwarp", "both"):
        connect(host, server, "rping", "-c", "-a", HOST, "-p", port, "-C", "2",
                options=["--transport", transport])
    server.wait_until(lambda: server.err.count("DISCONNECT EVENT") == 3, "three clients")


def test_of_two_devices_roce_is_taken(host):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", HOST, "-p", port, "-C", "2", "-v")
    connect(host, server, "rping", "-c", "-a", HOST, "-p", port, "-C", "2",
            options=["--transport", "both"])
    server.wait()


# --- Failures


def test_nobody_listens_is_told_in_words(iwarp):
    port = iwarp.free_port()
    client = iwarp.run("rping", "-c", "-a", HOST, "-p", str(port), "-C", "1")
    assert client.status != 0
    assert f"cma event RDMA_CM_EVENT_REJECTED, error {-errno.ECONNREFUSED}" in client.err
    assert (f"verbena: nobody listens on port {port} of {HOST} "
            "(TCP: connection refused)") in client.err, client.report()


def test_a_port_that_another_program_has_is_not_to_be_had(iwarp):
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = str(other.getsockname()[1])
        server = iwarp.run("rping", "-s", "-a", HOST, "-p", port)
    assert server.status != 0 and "Address already in use" in server.err, server.report()


def test_who_speaks_no_iwarp_disturbs_nobody(iwarp):
    """Garbage, a request that is cut, silence: while they are connected others are served."""
    port = iwarp.free_port()
    server = iwarp.start("rping", "-s", "-a", HOST, "-p", str(port), "-P", "-v")
    iwarp.wait_for_listener(server, port)
    beginnings = [b"", b"GET / HTTP/1.1\r\n\r\n", b"MPA ID Req Frame",
                  b"MPA ID Rep Frame" + bytes(4),
                  b"MPA ID Req Frame" + bytes([0x40, 2, 0xFF, 0xFF])]
    others = []
    for beginning in beginnings:
        other = socket.create_connection((HOST, port))
        other.sendall(beginning)
        others.append(other)
    connect(iwarp, server, "rping", "-c", "-a", HOST, "-p", str(port), "-C", "3")
    for other in others:
        other.close()
    connect(iwarp, server, "rping", "-c", "-a", HOST, "-p", str(port), "-C", "3")
    assert server.is_running() and "RDMA_CM_EVENT" not in server.err, server.report()


def test_a_peer_that_speaks_no_iwarp_is_told_in_words(iwarp):
    with socket.socket() as peer:
        peer.settimeout(hosts.TIMEOUT_S)
        peer.bind((HOST, 0))
        peer.listen()
        port = peer.getsockname()[1]
        client = iwarp.start("rping", "-c", "-a", HOST, "-p", str(port), "-C", "1")
        connection, _ = peer.accept()
        connection.settimeout(hosts.TIMEOUT_S)
        connection.recv(1000)
        connection.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n")
        client.wait()
        connection.close()
    assert client.status != 0 and "it speaks another protocol" in client.err, client.report()


# --- Settings for peers in the field (C-5 58)


@pytest.mark.parametrize("server_options,client_options", [
    (["--mpa-revision", "1"], ["--mpa-revision", "1"]), ([], ["--mpa-revision", "1"]),
    (["--mpa-crc", "off"], ["--mpa-crc", "off"]), (["--mpa-crc", "off"], []),
    (["--mpa-crc", "refuse"], ["--mpa-crc", "off"]),
    (["--mpa-markers", "on"], []), ([], ["--mpa-markers", "on"]),
    (["--mpa-markers", "on"], ["--mpa-markers", "on"]),
    (["--mpa-peer-to-peer", "off"], []), ([], ["--mpa-peer-to-peer", "off"]),
])
def test_mpa_settings(iwarp, server_options, client_options):
    rping(iwarp, server_options=server_options, client_options=client_options)


@pytest.mark.parametrize("server_options,client_options,told", [
    (["--mpa-crc", "refuse"], [], f"RDMA_CM_EVENT_REJECTED, error {-errno.ECONNRESET}"),
    ([], ["--mpa-crc", "refuse"], f"RDMA_CM_EVENT_CONNECT_ERROR, error {-errno.EPROTO}"),
])
def test_who_refuses_crcs_has_no_connection_with_who_asks(iwarp, server_options, client_options,
                                                         told):
    port = iwarp.free_port()
    server = iwarp.start("rping", "-s", "-a", HOST, "-p", str(port), "-P", options=server_options)
    iwarp.wait_for_listener(server, port)
    client = iwarp.run("rping", "-c", "-a", HOST, "-p", str(port), "-C", "1",
                       options=client_options)
    assert client.status != 0 and told in client.err, client.report()


def test_a_server_of_revision_1_refuses_one_of_revision_2(iwarp):
    port = iwarp.free_port()
    server = iwarp.start("rping", "-s", "-a", HOST, "-p", str(port), "-P",
                         options=["--mpa-revision", "1"])
    iwarp.wait_for_listener(server, port)
    client = iwarp.run("rping", "-c", "-a", HOST, "-p", str(port), "-C", "1")
    assert f"RDMA_CM_EVENT_REJECTED, error {-errno.ECONNRESET}" in client.err, client.report()
    connect(iwarp, server, "rping", "-c", "-a", HOST, "-p", str(port), "-C", "1",
            options=["--mpa-revision", "1"])


def test_what_faults_are_not_for_is_said(host):
    """They meet the RoCE device."""
    options = ["--transport", "both", "--loss", "1%"]
    told = host.run("ibv_devinfo", "-d", "verbena_iw0", options=options).succeed().err
    assert "VERBENA_LOSS isn't for verbena_iw0" in told
    assert "VERBENA_LOSS" not in host.run("ibv_devinfo", "-d", "verbena0",
                                          options=options).succeed().err
    devices = json.loads(host.verbena_command("devices", *options, "--json").succeed().out)
    assert ["notes" in device for device in devices] == [False, True]


@pytest.mark.parametrize("options", [["--icrc-check", "off"], ["--ack-timeout-min", "5"]])
def test_what_is_of_roce_only_is_refused(iwarp, options):
    told = iwarp.run("ibv_devices", options=options)
    assert "is for RoCE devices only" in told.err, told.report()


# --- Captures


def check_capture(path: pathlib.Path, crc: bool = True) -> list[str]:
    """tshark has nothing against it, sees TCP's and MPA's handshakes and each FPDU's CRC."""
    seen = look_at(path)
    assert seen.problems == []
    assert seen.fpdus > 0
    assert seen.good_crcs == (seen.fpdus if crc else 0)
    assert any("[SYN]" in line for line in seen.lines), seen.lines[:5]
    assert any("MPA Request Frame" in line for line in seen.lines), seen.lines[:8]
    assert any("MPA Reply Frame" in line for line in seen.lines), seen.lines[:8]
    return seen.lines


def test_wireshark_reads_a_capture_of_rping(iwarp, tmp_path):
    captures = [tmp_path / "server.pcapng", tmp_path / "client.pcapng"]
    rping(iwarp, server_options=["--capture", str(captures[0])],
          client_options=["--capture", str(captures[1])])
    for capture in captures:
        lines = "\n".join(check_capture(capture))
        for message in ("Send", "Write", "Read Request", "Read Response"):
            assert f"{message} [last DDP segment]" in lines, lines


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_write_bw", "ib_read_bw"])
def test_wireshark_reads_a_capture_of_perftest(iwarp, tmp_path, tool):
    capture = tmp_path / "client.pcapng"
    iwarp.pair(tool, "-R", "-n", "20", "-F", "-s", "100001",
               client_how={"options": ["--capture", str(capture)]})
    check_capture(capture)
