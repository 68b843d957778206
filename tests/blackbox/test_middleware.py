"""Programs on top of the verbs that most users have instead of them: UCX, libfabric, and qperf,
unmodified, between two processes."""

from __future__ import annotations

import re
import subprocess

import pytest

import hosts
from hosts import Host, Pair

ITERATIONS = 200


# --- UCX


def ucx(transport: str) -> dict[str, str]:
    """Connections over RC are made with datagrams."""
    return {"UCX_TLS": f"{transport},ud_verbs:aux", "UCX_NET_DEVICES": "verbena0:1",
            "UCX_WARN_UNUSED_ENV_VARS": "n"}


def test_ucx_finds_the_device_and_its_transports(host):
    program = host.run("ucx_info", "-d").succeed()
    found = re.findall(r"Transport: (\w+)\n#\s+Device: verbena0:1\n", program.out)
    assert found == ["rc_verbs", "ud_verbs"], program.report()


@pytest.mark.parametrize("view", ["preload", "userns"])
def test_ucx_finds_it_whatever_the_view(host, view):
    program = host.run("ucx_info", "-d", options=["--view", view])
    if "permits no user namespaces" in program.err:
        pytest.skip("this system permits no user namespaces")
    assert program.succeed().out.count("Device: verbena0:1") == 2, program.report()


def ucx_perftest(host: Host, transport: str, test: str, *arguments: str, **how) -> Pair:
    """By ucx_perftest's line of comma-separated values (-f -v): the first one is the iterations."""
    port = host.free_port()
    variables = ucx(transport)
    server = host.start("ucx_perftest", "-p", str(port), variables=variables, **how)
    host.wait_for_listener(server, port)
    client = host.start("ucx_perftest", hosts.LOOPBACK, "-p", str(port), "-t", test, "-n",
                        str(ITERATIONS), "-w", "10", "-f", "-v", *arguments,
                        variables=variables, **how)
    pair = Pair(server, client)
    host.wait_for_both(pair)
    assert (server.status, client.status) == (0, 0), pair.report()
    last = client.out.strip().splitlines()[-1].split(",")
    assert int(last[0]) == ITERATIONS, pair.report()
    return pair


@pytest.mark.parametrize("test,size", [
    ("tag_lat", "8"), ("tag_bw", "65536"), ("ucp_am_lat", "65536"), ("ucp_put_lat", "8"),
    ("ucp_get", "4096"), ("stream_lat", "8")])
@pytest.mark.parametrize("transport", ["rc_verbs", "ud_verbs"])
def test_ucx_messages(host, transport, test, size):
    ucx_perftest(host, transport, test, "-s", size)


@pytest.mark.parametrize("test", ["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"])
def test_ucx_atomics(host, test):
    ucx_perftest(host, "rc_verbs", test, "-s", "8")


@pytest.mark.parametrize("transport,test", [
    ("rc_verbs", "put_lat"), ("rc_verbs", "get"), ("rc_verbs", "fadd"), ("rc_verbs", "cswap"),
    ("ud_verbs", "am_lat")])
def test_ucx_transports_by_themselves(host, transport, test):
    """UCT, the layer below: each operation of a transport as such."""
    # READs go without a copy, for which UCX wants a message of some length.
    layout = ["-D", "zcopy", "-s", "4096"] if test == "get" else ["-s", "8"]
    ucx_perftest(host, transport, test, "-d", "verbena0:1", "-x", transport, *layout)


def test_ucx_on_another_device(host):
    """A ConnectX-5's vendor and part numbers don't mislead it into its driver's shortcuts."""
    ucx_perftest(host, "rc_verbs", "tag_lat", options=["--profile", "cx5"])


@pytest.mark.parametrize("api", ["tags", "active messages"])
def test_ucx_connects_through_the_connection_manager(host, tmp_path, api):
    """UCX's own demonstration: it listens, connects by address, and checks what it reads and
    writes."""
    capture = tmp_path / "client.pcapng"
    port = str(host.free_port())
    # Without the choice it would connect by TCP.
    variables = ucx("rc_verbs") | {"UCX_SOCKADDR_TLS_PRIORITY": "rdmacm"}
    common = ["io_demo", "-p", port, "-q", "-d", "64:65536",
              *(["-A"] if api == "active messages" else [])]
    server = host.start(*common, variables=variables)
    server.wait_for_output("started listener")
    client = host.run(*common, "-i", str(ITERATIONS), "-o", "read,write", hosts.LOOPBACK,
                      variables=variables, options=["--capture", str(capture)]).succeed()
    server.wait_for_output("disconnection completed")
    assert "Client exit with status 'OK'" in client.out, client.report()
    shown = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.mad"], capture_output=True,
                           text=True, check=True).stdout
    for name in ("ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest"):
        assert f"CM: {name}" in shown, shown


# --- libfabric


def test_libfabric_finds_the_device(host):
    program = host.run("fi_info", "-p", "verbs").succeed()
    for endpoint in ("FI_EP_MSG", "FI_EP_DGRAM"):
        assert endpoint in program.out, program.report()
    assert "domain: verbena0" in program.out, program.report()


@pytest.mark.parametrize("provider,endpoint", [
    ("verbs", "dgram"), ("verbs;ofi_rxm", "rdm"), ("verbs;ofi_rxd", "rdm")])
def test_libfabric_pingpong(host, provider, endpoint):
    """Messages through the connection manager are in test_rdmacm.py."""
    control = host.free_port()
    common = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", "20", "-S", "1024"]
    server = host.start(*common, "-B", str(control))
    host.wait_for_listener(server, control)
    client = host.run(*common, "-P", str(control), hosts.LOOPBACK).succeed()
    server.succeed()
    assert re.search(r"^1k +20 ", client.out, re.M), client.report()


# --- qperf


# For what both exchange: 5 s by default.
QPERF_PATIENCE = ["-to", "120"]
QPERF = ["rc_lat", "rc_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_compare_swap_mr"]


@pytest.mark.parametrize("test", QPERF)
def test_qperf(host, test):
    port = str(host.free_port())
    server = host.start("qperf", "-lp", port)
    host.wait_for_listener(server, int(port))
    client = host.run("qperf", "-lp", port, hosts.LOOPBACK, *QPERF_PATIENCE, "-t", "1", "-cm1",
                      test).succeed()
    assert re.search(r"(latency|bw|msg_rate) += ", client.out), client.report()


@pytest.mark.parametrize("test", ["uc_lat", "ud_lat"])
def test_qperf_without_a_connection_manager_is_refused(host, test):
    """Then it addresses its peer by a LID alone, which no RoCE device takes; UC and UD know no
    other way."""
    port = str(host.free_port())
    server = host.start("qperf", "-lp", port)
    host.wait_for_listener(server, int(port))
    client = host.run("qperf", "-lp", port, hosts.LOOPBACK, *QPERF_PATIENCE, "-t", "1", test)
    assert client.status == 1, client.report()
    assert "failed to" in client.out + client.err, client.report()
