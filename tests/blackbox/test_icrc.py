"""ICRCs that are not what the specification wants, for peers that can't compute them."""

from __future__ import annotations

import pytest

from network import fields_of

ZERO = ["--icrc-sent", "zero"]
TAKES_ALL = ["--icrc-check", "off"]


def pingpong(host, server_options, client_options):
    return host.start_pair("ibv_rc_pingpong", "-g", "0", "-n", "50", "-s", "3000",
                           server_how={"options": server_options},
                           client_how={"options": client_options})


@pytest.mark.parametrize("check", ["off", "count"])
def test_peers_that_send_none_are_understood(host, tmp_path, check):
    capture = tmp_path / "client.pcapng"
    options = [*ZERO, "--icrc-check", check]
    pair = pingpong(host, options, [*options, "--capture", str(capture)])
    host.wait_for_both(pair)
    assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
    values = {value for value, in fields_of(capture, "infiniband.invariant.crc",
                                            only="infiniband.bth")}
    assert values == {"0x00000000"}, values


@pytest.mark.parametrize("sent", ["zero", "bad"])
def test_by_default_they_are_not(host, sent):
    """What comes is dropped, so the client gives up."""
    pair = pingpong(host, [], ["--icrc-sent", sent])
    pair.client.wait()
    assert pair.client.status != 0, pair.report()
    assert "transport retry counter exceeded" in pair.client.err, pair.report()
    pair.server.kill()


def test_one_end_may_be_lenient_alone(host):
    pair = pingpong(host, TAKES_ALL, ["--icrc-sent", "bad"])
    host.wait_for_both(pair)
    assert (pair.server.status, pair.client.status) == (0, 0), pair.report()
