"""Connections between two hosts: the communication manager's MADs over UDP, and what follows."""

from __future__ import annotations

import pytest

from network import Cable
from programs import compiled
from rdmacm import connect, last_event, start_listening, wait_until_listening


@pytest.fixture
def cable(tmp_path):
    the_cable = Cable(tmp_path)
    yield the_cable
    the_cable.close()


def test_rping(cable):
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", "-p", port, "-C", "100", "-v")
    connect(cable.b, server, "rping", "-c", "-a", cable.a.address, "-p", port, "-C", "100")
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 100, server.report()


def test_several_servers_on_one_host(cable):
    """Each process has a QP1 of its own behind the one address: a request is its listener's."""
    ports = [str(cable.a.free_port()) for _ in range(3)]
    servers = [cable.a.start("stdbuf", "-oL", "rping", "-s", "-p", port, "-P", "-v")
               for port in ports]
    for port, server in list(zip(ports, servers)) * 2:
        connect(cable.b, server, "rping", "-c", "-a", cable.a.address, "-p", port, "-C", "3")
    for server in servers:
        assert server.out.count("server ping data: rdma-ping-") == 6, server.report()


@pytest.mark.parametrize("address", ["10.77.0.1", "127.0.0.1"])
def test_a_host_connects_to_itself(cable, address):
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", "-p", port, "-C", "5", "-v")
    connect(cable.a, server, "rping", "-c", "-a", address, "-p", port, "-C", "5")
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 5, server.report()


@pytest.mark.parametrize("bound", [[], ["-a", "10.77.0.1"]])
def test_without_a_network_device_an_own_address_is_a_loopback_address(cable, bound):
    alone = {"VERBENA_INTERFACE": None}
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", *bound, "-p", port, "-C", "5", "-v", variables=alone)
    connect(cable.a, server, "rping", "-c", "-a", cable.a.address, "-p", port, "-C", "5",
            variables=alone)
    server.wait()
    assert server.out.count("server ping data: rdma-ping-") == 5, server.report()


def test_udaddy(cable):
    server = cable.a.start("udaddy", "-c", "4", "-C", "10")
    wait_until_listening(cable.a, server)
    client = connect(cable.b, server, "udaddy", "-s", cable.a.address, "-c", "4", "-C", "10")
    server.succeed()
    assert "return status 0" in client.out, client.report()


def test_messages_that_the_wire_loses_are_sent_again(cable):
    """With half a handshake lost now and then, connections take longer, that is all. With little
    patience messages are sent again every second."""
    hasty = {"options": ["--connect-timeout", "16"]}
    cable.a.lose(one_of=20)
    port = str(cable.a.free_port())
    server = cable.a.start("ucmatose", "-c", "8", "-C", "4", "-p", port, **hasty)
    wait_until_listening(cable.a, server)
    connect(cable.b, server, "ucmatose", "-s", cable.a.address, "-c", "8", "-C", "4", "-p", port,
            **hasty)
    server.succeed()


def test_nobody_listens_on_the_other_host(cable):
    """Some process there has a QP1, and says so."""
    port = str(cable.a.free_port())
    server = cable.a.start("rping", "-s", "-p", port, "-P")
    connect(cable.b, server, "rping", "-c", "-a", cable.a.address, "-p", port, "-C", "1")
    other = str(cable.a.free_port())
    client = cable.b.run("rping", "-c", "-a", cable.a.address, "-p", other, "-C", "1")
    assert client.status != 0
    assert f"nobody listens on port {other} of 10.77.0.1 (REJ 8" in client.err, client.report()


def test_perftest_connects_through_the_communication_manager(cable):
    port = str(cable.a.free_port())
    common = ["ib_write_bw", "-R", "-n", "200", "-F", "-p", port]
    server = cable.a.start(*common)
    connect(cable.b, server, *common, cable.a.address)
    server.succeed()


# Where an end calls exit(), and what the other one hears: no process of its host could tell.
LEAVING_CLIENTS = [
    ("establish", "RDMA_CM_EVENT_REJECTED"),
    ("+establish", "RDMA_CM_EVENT_DISCONNECTED"),
]
# As long as it may take on a busy machine, and far less than what a connection manager waits for
# an answer; those that are connected wait without end.
PROMPTLY_S = 20.0


@pytest.mark.parametrize("step,event", LEAVING_CLIENTS)
def test_a_server_hears_of_a_client_that_exits(cable, step, event):
    port = str(cable.a.free_port())
    server = start_listening(cable.a, port)
    cable.b.run(compiled("cm_steps"), "connect", cable.a.address, port, step, "leave").succeed()
    server.succeed(PROMPTLY_S)
    assert last_event(server) == event, server.report()


def test_a_client_hears_of_a_server_that_exits(cable):
    """Instead of accepting."""
    port = str(cable.a.free_port())
    server = start_listening(cable.a, port, "accept", "leave")
    client = cable.b.run(compiled("cm_steps"), "connect", cable.a.address, port,
                         timeout_s=PROMPTLY_S)
    server.succeed()
    assert last_event(client) == "RDMA_CM_EVENT_REJECTED", f"{server.report()}\n{client.report()}"
