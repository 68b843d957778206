"""Unmodified programs that connect through librdmacm, over the communication manager's MADs."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from programs import compiled
from rdmacm import connect, wait_until_listening


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.0.0.2"])
def test_rping(host, address):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", address, "-p", port, "-C", "10", "-v")
    connect(host, server, "rping", "-c", "-a", address, "-p", port, "-C", "10", "-v")
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 10, server.report()


@pytest.mark.parametrize("bound,address", [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"),
                                           ("::", "::1")])
def test_a_server_on_any_address(host, bound, address):
    """One on any IPv6 address serves IPv4 as well, as with sockets."""
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", bound, "-p", port, "-C", "1", "-v")
    connect(host, server, "rping", "-c", "-a", address, "-p", port, "-C", "1")
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 1, server.report()


def test_rping_ten_thousand_times(host):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", "10000", "-S", "100")
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "10000", "-S", "100")
    server.wait()


def test_rping_on_any_address_and_a_persistent_server(host):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-p", port, "-P", "-v")
    for _ in range(5):
        connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "3")
    assert server.is_running(), server.report()


def test_a_thread_that_asks_a_destroyed_channel_waits(host):
    program = host.run(compiled("channel_end"))
    assert program.status == 0 and program.out == "both wait\n", program.report()


def test_threads_that_wait_for_events_can_be_cancelled(host):
    program = host.run(compiled("cancelled"))
    assert program.status == 0 and program.out == "all cancelled\n", program.report()


def test_a_server_outlives_a_client_that_is_killed(host):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-p", port, "-P", "-v")
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1")
    client = host.start("rping", "-c", "-a", "127.0.0.1", "-p", port)
    server.wait_until(lambda: server.out.count("server ping data") > 3, "pings")
    client.kill()
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1")
    assert server.is_running(), server.report()


def test_nobody_listens_is_told_in_words(host):
    other = host.free_port()
    port = host.free_port()
    server = host.start("rping", "-s", "-a", "127.0.0.1", "-p", str(other), "-P")
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", str(other), "-C", "1")
    client = host.run("rping", "-c", "-a", "127.0.0.1", "-p", str(port), "-C", "1")
    assert client.status != 0
    assert (f"verbena: nobody listens on port {port} of 127.0.0.1 (REJ 8, invalid service ID: "
            f"nobody listens there); listening: port {other} of 127.0.0.1 (process {server.pid})"
            ) in client.err, client.report()


def test_a_path_mtu_that_the_port_has_not_is_refused_in_words(host):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-P",
                        options=["--mtu", "1024"])
    connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1",
            options=["--mtu", "512"])
    client = host.run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1",
                      options=["--mtu", "4096"])
    assert client.status != 0 and "REJ 26, invalid path MTU" in client.err, client.report()
    server.wait_until(lambda: "it wants packets of 4096 bytes, and this port takes 1024 at most"
                      in server.err, "the reason")


def test_a_port_belongs_to_one_process(host):
    port = str(host.free_port())
    first = host.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-P")
    connect(host, first, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "1")
    second = host.run("rping", "-s", "-a", "127.0.0.1", "-p", port)
    assert second.status != 0 and "Address already in use" in second.err, second.report()


@pytest.mark.parametrize("options", ["", "-P ib", "-m -t 32 -a 20"])
def test_ucmatose(host, options):
    """In both port spaces of connections, and with identifiers that move to another channel."""
    common = ["ucmatose", "-c", "8", "-C", "20", "-S", "4000", "-p", str(host.free_port()),
              *options.split()]
    server = host.start(*common)
    wait_until_listening(host, server)
    client = connect(host, server, *common, "-s", "127.0.0.1")
    server.succeed()
    assert "test complete" in client.out and "return status 0" in client.out, client.report()


def test_addresses_that_are_gids_are_refused(host):
    """AF_IB leads nowhere on RoCE devices, Linux' either (docs/kernel-differences.md)."""
    program = host.run("ucmatose", "-f", "gid", "-b", "::1", "-s", "::1")
    assert program.status not in (0, None), program.report()
    assert "ai_family not supported" in program.out + program.err, program.report()


def test_a_path_that_the_program_brings(host):
    """RDMA_OPTION_IB_PATH in the place of rdma_resolve_route(): the REQ carries it to the peer. An
    ACK timeout of 0 is the queue pair's own, not the path's."""
    program = host.run(compiled("own_path")).succeed()
    assert program.out.splitlines() == [
        "mtu 2 class 0x68 label 0x12345 life 10",
        "mtu 2 class 0x68 label 0x12345 timeout 0",
        "mtu 2 class 0x68 label 0x12345 timeout 11",
        "endpoint: mtu 2",
        "found: life 18"], program.report()


def test_many_connections_at_once(host):
    port = str(host.free_port())
    server = host.start("ucmatose", "-c", "64", "-C", "1", "-p", port)
    wait_until_listening(host, server)
    connect(host, server, "ucmatose", "-s", "127.0.0.1", "-c", "64", "-C", "1", "-p", port)
    server.succeed()


def test_rdma_client_and_server(host):
    """Endpoints, synchronous identifiers, rdma_getaddrinfo()."""
    port = str(host.free_port())
    server = host.start("rdma_server", "-p", port)
    client = connect(host, server, "rdma_client", "-s", "127.0.0.1", "-p", port)
    server.succeed()
    assert "rdma_client: end 0" in client.out, client.report()


@pytest.mark.parametrize("transport", ["r", "x"])
def test_rdma_xclient_and_xserver(host, transport):
    """RC and XRC: an initiator queue pair at one end, a target and an SRQ at the other."""
    port = str(host.free_port())
    server = host.start("rdma_xserver", "-c", transport, "-p", port)
    client = connect(host, server, "rdma_xclient", "-c", transport, "-s", "127.0.0.1", "-p", port)
    server.succeed()
    assert "rdma_xclient: end 0" in client.out, client.report()


@pytest.mark.parametrize("port_space", ["udp", "ipoib"])
def test_udaddy(host, port_space):
    common = ["udaddy", "-c", "4", "-C", "10", "-P", port_space]
    server = host.start(*common)
    wait_until_listening(host, server)
    client = connect(host, server, *common, "-s", "127.0.0.1")
    server.succeed()
    assert "return status 0" in client.out, client.report()


def test_cmtime(host):
    port = str(host.free_port())
    server = host.start("cmtime", "-p", port)
    wait_until_listening(host, server)
    connect(host, server, "cmtime", "-s", "127.0.0.1", "-c", "50", "-p", port)


@pytest.mark.parametrize("check", [[], ["-c"]])
def test_libfabric(host, check):
    control = host.free_port()
    server = host.start("fi_pingpong", "-p", "verbs", "-e", "msg", "-I", "20", *check, "-B",
                        str(control))
    host.wait_for_listener(server, control)
    client = host.run("fi_pingpong", "-p", "verbs", "-e", "msg", "-I", "20", *check, "-P",
                      str(control), "127.0.0.1").succeed()
    server.succeed()
    assert re.search(r"^1m +20 ", client.out, re.M), client.report()


@pytest.mark.parametrize("options", ["", "-p 0x2", "-l"])
def test_mckey(host, options):
    """A sender and a receiver of a multicast group; -l: whose own datagrams don't come back."""
    common = ["stdbuf", "-oL", "mckey", "-m", "239.77.1.1", "-b", "127.0.0.1", "-C", "20", "-S",
              "200", *options.split()]
    receiver = host.start(*common)
    receiver.wait_for_output("receiving data transfers")
    sender = host.start(*common, "-s")
    sender.succeed()
    receiver.succeed()
    assert "data transfers complete" in receiver.out, receiver.report()


def test_a_device_that_gives_senders_their_own_datagrams_back_says_so(host):
    """Linux' rxe has no such choice."""
    program = host.run("mckey", "-m", "239.77.1.1", "-b", "127.0.0.1", "-l",
                       options=["--profile", "rxe"])
    assert program.status not in (0, None), program.report()
    assert "unable to create QP: Operation not supported" in program.err, program.report()


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat",
                                  "ib_read_bw", "ib_read_lat"])
def test_perftest_connects_through_the_communication_manager(host, tool):
    port = str(host.free_port())
    common = [tool, "-R", "-n", "100", "-F", "-p", port]
    server = host.start(*common)
    connect(host, server, *common, "127.0.0.1")
    server.succeed()


def test_wireshark_names_the_exchange(host, tmp_path):
    capture = tmp_path / "client.pcapng"
    port = str(host.free_port())
    server = host.start(compiled("cm_cycles"), "listen", port, "1")
    connect(host, server, compiled("cm_cycles"), "connect", "127.0.0.1", port, "1", "1",
            options=["--capture", str(capture)])
    shown = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.mad"], capture_output=True,
                           text=True, check=True).stdout
    names = re.findall(r"CM: (\w+)", shown)
    # The client sees also what its own process is sent a copy of.
    assert list(dict.fromkeys(names)) == ["ConnectRequest", "ConnectReply", "ReadyToUse",
                                          "DisconnectRequest", "DisconnectReply"], shown
    dumped = host.verbena_command("dump", "--json", str(capture)).succeed().out.splitlines()
    requests = [packet["mad"] for packet in map(json.loads, dumped)
                if packet.get("mad", {}).get("message") == "CM ConnectRequest"]
    assert requests and requests[0]["max_cm_retries"] == 15
    drawn = host.verbena_command("timeline", str(capture)).succeed().out
    places = [drawn.index(f"CM {name}") for name in dict.fromkeys(names)]
    assert places == sorted(places), drawn
