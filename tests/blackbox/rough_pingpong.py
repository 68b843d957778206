"""What ibv_rc_pingpong shows over a network that loses packets."""

from __future__ import annotations

from hosts import Pair

GIVEN_UP = "transport retry counter exceeded"


def check_exchanges(pair: Pair, size: int, iterations: int) -> None:
    """Everything went both ways, and no side found wrong data.

    The program ends as soon as it has received the last message. If its acknowledgement of that
    message is lost, nobody is left to repeat it, on any hardware: the other side has everything but
    this word, and gives up. So one side may end that way, when the other has finished."""
    finished = [program for program in pair if program.status == 0]
    assert finished, pair.report()
    for program in pair:
        assert "invalid data" not in program.out, pair.report()
        if program in finished:
            assert f"{2 * size * iterations} bytes in " in program.out, pair.report()
        else:
            assert GIVEN_UP in program.err, pair.report()
