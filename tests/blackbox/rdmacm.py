"""What the tests of rdma_cm programs share."""

from __future__ import annotations

import hosts
from program import Program
from programs import compiled

NOBODY_LISTENS = "nobody listens on port"
_ATTEMPTS = 200


def connect(host: hosts.Host, server: Program, *client: str, **how) -> Program:
    """Runs a client to its end. A server doesn't tell from when on it listens, so a client that is
    told that nobody does tries again."""
    for _ in range(_ATTEMPTS):
        program = host.run(*client, **how)
        if NOBODY_LISTENS not in program.err:
            assert program.status == 0, f"{program.report()}\n{server.report()}"
            return program
        assert server.is_running(), server.report()
    raise AssertionError(f"the server never listened\n{server.report()}")


def wait_until_listening(host: hosts.Host, server: Program) -> None:
    """Before a client that makes several connections: of one that comes too early, some might be
    refused and others not, and a server that counts them would be out of step with the next client.
    `host` is the server's."""
    server.wait_until(
        lambda: f"(process {server.pid})" in host.verbena_command("doctor").out, "listening")


def start_listening(host: hosts.Host, port: str, *step: str) -> Program:
    """One end of a connection that ends where `step` says (programs/cm_steps.c)."""
    server = host.start(compiled("cm_steps"), "listen", port, *step)
    server.wait_for_output("listening")
    return server


def last_event(program: Program) -> str:
    """The last one that cm_steps heard of."""
    return program.out.split("\n")[-2].split()[0]
