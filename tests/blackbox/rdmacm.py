"""What the tests of rdma_cm programs share."""

from __future__ import annotations

import hosts
from program import Program

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
