"""verbena inject: failures in running programs, told by ibv_asyncwatch and by what perftest makes
of them."""

from __future__ import annotations

import json
import re

import pytest

from hosts import Host, Pair

# What ibv_asyncwatch prints for an event of the port or the device: its number in ibv_event_type.
EVENTS = {"port_err": 10, "port_active": 9, "device_fatal": 8, "gid_change": 18}


def start_busy(host: Host) -> Pair:
    """A transfer that goes on and on, whose client has told of its queue pair."""
    pair = host.start_endless("ib_write_bw")

    def has_told() -> bool:
        told = host.verbena_command("counters", "--json", "--pid", str(pair.client.pid))
        return any(device["counters"]["rcvd_pkts"] > 0 for device in json.loads(told.out or "[]"))

    pair.client.wait_until(has_told, "telling of its queue pair")
    return pair


@pytest.mark.parametrize("event", EVENTS)
def test_a_program_hears_of_it(host, event):
    program = host.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "verbena0")
    program.wait_for_output("FD")
    told = host.verbena_command("inject", event, "--pid", str(program.pid)).succeed()
    assert f"{event} at verbena0 of process {program.pid}" in told.out
    program.wait_for_output("event_type")
    assert f"({EVENTS[event]})" in program.out, program.report()
    program.kill()


def test_queue_pairs_fail(host):
    """A transfer that goes on and on ends with an error as soon as its queue pair fails."""
    pair = start_busy(host)
    host.verbena_command("inject", "qp_fatal", "--pid", str(pair.client.pid)).succeed()
    pair.client.wait()
    assert pair.client.status != 0, pair.report()
    pair.server.kill()


def test_an_unknown_event_is_refused_with_a_hint(host):
    program = host.verbena_command("inject", "port_er")
    assert program.status == 2, program.report()
    assert "Did you mean" in program.err, program.report()


def test_nobody_to_reach_is_an_error(host):
    program = host.verbena_command("inject", "port_err", "--pid", "1")
    assert program.status == 1, program.report()
    assert "no such process" in program.err, program.report()


def test_a_queue_pair_that_nobody_has_is_an_error(host):
    """It says so, and which ones there are, instead of doing nothing in silence."""
    program = host.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "verbena0")
    program.wait_for_output("FD")
    refused = host.verbena_command("inject", "qp_fatal", "--pid", str(program.pid))
    assert refused.status == 1, refused.report()
    assert f"process {program.pid} has no queue pair" in refused.err, refused.report()
    program.kill()
    pair = start_busy(host)
    target = ["--pid", str(pair.client.pid)]
    refused = host.verbena_command("inject", "qp_fatal", "--qpn", "0xabcdef", *target)
    assert refused.status == 1, refused.report()
    named = re.search(r"no queue pair 0xabcdef, but (0x[0-9a-f]{6})$", refused.err, re.M)
    assert named, refused.report()
    assert pair.client.is_running(), pair.report()
    host.verbena_command("inject", "qp_fatal", "--qpn", named[1], *target).succeed()
    pair.client.wait()
    assert pair.client.status != 0, pair.report()
    pair.server.kill()


def test_an_event_of_the_port_has_no_queue_pair(host):
    program = host.verbena_command("inject", "port_err", "--qpn", "0x1000")
    assert program.status == 2, program.report()
    assert "leave --qpn out" in program.err, program.report()
