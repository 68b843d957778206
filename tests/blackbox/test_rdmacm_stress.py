"""Connections in great numbers, and peers that die: nothing is left, and the survivor hears what is
true."""

from __future__ import annotations

import pytest

from programs import compiled
from rdmacm import connect, last_event, start_listening, wait_until_listening


@pytest.mark.parametrize("total,at_once", [(10_000, 1), (2048, 64), (1000, 1000)])
def test_nothing_is_left_of_connections(host, total, at_once):
    port = str(host.free_port())
    server = host.start(compiled("cm_cycles"), "listen", port, str(total))
    wait_until_listening(host, server)
    client = connect(host, server, compiled("cm_cycles"), "connect", "127.0.0.1", port,
                     str(total), str(at_once))
    server.succeed()
    for program in (server, client):
        assert "everything is freed" in program.out, program.report()


def test_what_vendors_negotiate_is_carried(host):
    """Enhanced connection establishment, for queue pairs that the programs made themselves."""
    port = str(host.free_port())
    server = start_listening(host, port)
    client = host.run(compiled("cm_steps"), "connect", "127.0.0.1", port).succeed()
    server.succeed()
    assert "ECE 0x5f0001 1" in server.out, server.report()
    assert "ECE 0x5f0001 2" in client.out, client.report()


# Which step kills which side, and what the other one hears at last.
DYING_CLIENTS = [
    ("+connect", "RDMA_CM_EVENT_UNREACHABLE"),
    ("establish", "RDMA_CM_EVENT_UNREACHABLE"),
    ("+establish", "RDMA_CM_EVENT_DISCONNECTED"),
    ("+disconnect", "RDMA_CM_EVENT_DISCONNECTED"),
]
DYING_SERVERS = [
    ("accept", "RDMA_CM_EVENT_REJECTED"),
    ("+accept", "RDMA_CM_EVENT_DISCONNECTED"),
    ("agree", "RDMA_CM_EVENT_DISCONNECTED"),
]


@pytest.mark.parametrize("step,event", DYING_CLIENTS)
def test_a_server_hears_that_its_client_has_died(host, step, event):
    port = str(host.free_port())
    server = start_listening(host, port)
    client = host.run(compiled("cm_steps"), "connect", "127.0.0.1", port, step)
    assert client.status != 0, client.report()
    server.succeed()
    assert last_event(server) == event, server.report()


@pytest.mark.parametrize("step,event", DYING_SERVERS)
def test_a_client_hears_that_its_server_has_died(host, step, event):
    port = str(host.free_port())
    server = start_listening(host, port, step)
    client = host.run(compiled("cm_steps"), "connect", "127.0.0.1", port).succeed()
    server.wait()
    assert server.status != 0 and last_event(client) == event, (
        f"{server.report()}\n{client.report()}")
